/// The newest posts, for feed readers.
#[route(entity = Post, method = "GET", path = "/feed/{year}/atom.xml", auth = none, timeout = "5s")]
pub(crate) async fn feed(posts: PostAdapter, Path(year): Path<i32>) -> Result<Xml> {
    Ok(Xml(posts.of_year(year).await?))
}
