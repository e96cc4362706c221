use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary)]
    pub id: String,
}

#[route(entity = Post, method = "GET", path = "{a}.xml")]
async fn odd_segment() {}

#[route(entity = Post, method = "GET", path = "generic")]
async fn generic<T>(_: T) {}

#[route(entity = Post, method = "GET", path = "Upper")]
async fn Upper() {}

#[route(entity = Post, method = "GET", path = "first")]
#[route(entity = Post, method = "GET", path = "second")]
async fn twice() {}

#[route(entity = "Post", method = GET, path = "form")]
async fn form() {}

#[route(entity = Post, methd = "GET", pth = "near")]
async fn near() {}

#[route(entity = Post, method = "GET", path = "item")]
pub const ITEM: i64 = 3;

fn main() {}
