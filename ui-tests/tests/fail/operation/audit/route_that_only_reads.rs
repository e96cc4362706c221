use linchpin::prelude::*;

#[entity(routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary)]
    pub id: String,
    pub title: String,
}

#[operation(kind = "lookup", fields(title = param(title)), returns = "one", route(audit = "look"))]
pub const TITLED: Operation<Post>;

#[route(entity = Post, method = "GET", path = "feed", audit = "look")]
async fn feed() -> &'static str {
    ""
}

fn main() {}
