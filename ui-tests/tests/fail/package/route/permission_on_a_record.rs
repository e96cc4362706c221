use linchpin::prelude::*;

#[entity]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary)]
    pub id: String,
    pub author_id: String,
}

#[route(entity = Post, method = "GET", path = "feed", permission(requires = "read", owner_field = author_id))]
async fn feed() -> &'static str {
    ""
}

fn main() {}
