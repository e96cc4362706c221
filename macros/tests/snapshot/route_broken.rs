/// A route with three mistakes expands to three errors; rustc still checks the function.
#[route(entity = Post, method = "FETCH", auth = open)]
async fn feed(posts: PostAdapter) -> Result<Xml> {
    Ok(Xml(posts.newest().await?))
}
