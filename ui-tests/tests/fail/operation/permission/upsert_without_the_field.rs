use linchpin::prelude::*;

#[entity(unique(slug), routes(permission(requires = "write", owner_field = author_id)))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    pub title: String,
    pub author_id: Option<String>,
    pub container_id: Option<String>,
}

#[operation(kind = "upsert", match(slug), set(title))]
pub const PUT: Operation<Post>;

#[operation(
    kind = "upsert",
    match(slug),
    set(title, author_id),
    route(permission(requires = "write", owner_field = author_id, resource = container_id))
)]
pub const PLACE: Operation<Post>;

fn main() {}
