use linchpin::prelude::*;

// The package lists routes with errors: it adds no errors to those of the routes.

#[entity(routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

#[route(entity = Post, methd = "GET", path = "misspelt")]
async fn misspelt(cx: Cx) -> Result<String> {
    Ok(format!("{:?}", cx.get_actor_id()))
}

#[route(method = "GET", path = "nobodys")]
async fn nobodys() {}

#[route(entity = Post, method = "GET", path = "waits")]
fn waits() {}

#[route(entity = Post, method = "GET", path = "upper")]
async fn Upper() {}

#[route(entity = Post, method = "GET", path = "itself")]
async fn itself(&self) {}

#[route(entity = Post, method = "GET", path = "operation")]
pub const OPERATION: Operation<Post>;

pub static BLOG: Package =
    package!(name = "blog", entities = [entity(Post, [misspelt, nobodys, waits, Upper, itself, OPERATION])], audited = ["lock"]);

fn main() {}
