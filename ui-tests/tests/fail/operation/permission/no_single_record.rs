use linchpin::prelude::*;

#[entity]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary)]
    pub id: String,
    pub slug: String,
    pub author_id: String,
    pub score: i64,
}

#[operation(kind = "increment", field = score, route(permission(requires = "write", owner_field = score)))]
pub const BUMP: Operation<Post>;

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one", route(permission(requires = "read", resource = slugg)))]
pub const BY_SLUG: Operation<Post>;

#[operation(
    kind = "derive",
    source(Post, select = slug),
    merge = "union",
    route(permission(requires = "read", owner_field = author_id, resource = slug))
)]
pub const SLUGS: Operation<Post>;

fn main() {}
