/// Three mistakes, three errors; the function is checked all the same.
#[route(entity = Post, method = "FETCH", auth = open)]
async fn feed(posts: PostAdapter) -> Result<Xml> {
    Ok(Xml(posts.newest().await?))
}
