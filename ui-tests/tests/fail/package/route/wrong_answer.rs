use linchpin::prelude::*;

#[entity(routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

#[route(entity = Post, method = "GET", path = "first")]
async fn first(posts: PostAdapter, cx: Cx) -> Result<Option<Post>> {
    posts.get(&cx, "first").await
}

#[route(entity = Post, method = "GET", path = "number")]
async fn number() -> i64 {
    3
}

pub static BLOG: Package = package!(name = "blog", entities = [entity(Post, [first, number])]);

fn main() {}
