use linchpin::prelude::*;

#[entity(routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

#[operation(kind = "field_update", set(title), route(idempotent(ttl = "0s", required)))]
pub const RETITLE: Operation<Post>;

#[operation(kind = "lookup", fields(title = param(title)), returns = "one", route(idempotent))]
pub const TITLED: Operation<Post>;

#[route(entity = Post, method = "GET", path = "feed", idempotent)]
async fn feed() -> &'static str {
    ""
}

fn main() {}
