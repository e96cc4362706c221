//! Upserts with a permission.
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

#[operation(kind = "upsert", match(slug), set(title), on_create(author_id = ctx(actor.id)))]
pub const PUT: Operation<Post>;

// A permission with neither `owner_field` nor `resource`.
#[operation(
    kind = "upsert",
    match(slug),
    set(title),
    route(permission(requires = "write"))
)]
pub const GRANTED: Operation<Post>;

#[operation(
    kind = "upsert",
    match(slug),
    set(title, container_id),
    route(permission(requires = "write", resource = container_id))
)]
pub const PLACE: Operation<Post>;
