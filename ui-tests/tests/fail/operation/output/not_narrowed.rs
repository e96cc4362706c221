use linchpin::prelude::*;

#[entity(routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    #[field(immutable)]
    pub slug: String,
    #[field(private)]
    pub hash: Option<String>,
    #[field(default = now)]
    pub created_at: Timestamp,
}

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one", route(output(id, hash)))]
pub const BY_SLUG: Operation<Post>;

#[operation(kind = "exists", fields(slug = param(slug)), route(output(id)))]
pub const TAKEN: Operation<Post>;

#[operation(kind = "field_update", set(title), route(input(title)))]
pub const RETITLE: Operation<Post>;

#[route(entity = Post, method = "GET", path = "feed", output(id))]
async fn feed() -> &'static str {
    ""
}

fn main() {}
