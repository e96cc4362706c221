use linchpin::prelude::*;

#[entity(namespace = "blog", routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = 0)]
    pub views: i64,
}

#[entity(path = "news/items", routes(auth = none))]
pub struct Item {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[route(entity = Post, method = "GET", path = "/posts/feed")]
async fn feed() {}

#[route(entity = Post, method = "GET", path = "posts")]
async fn all() {}

#[route(entity = Item, method = "GET", path = "/news/items/{id}/text")]
async fn text() {}

#[operation(kind = "increment", field = views, route(path = "/posts/{id}/view"))]
pub const VIEW: Operation<Post>;

pub static BLOG: Package = package!(name = "blog", entities = [entity(Post, [VIEW, feed, all]), entity(Item, [text])]);

fn main() {}
