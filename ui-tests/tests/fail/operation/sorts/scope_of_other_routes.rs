//! The index begins with a scope, but the scope does not apply to the lookup.
use linchpin::prelude::*;

#[entity(
    scope(owner_id = ctx(actor.id), apply_to(create, list, update, delete)),
    index(owner_id, status, desc(created_at))
)]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    pub status: String,
    #[field(default = now)]
    pub created_at: Timestamp,
}

#[operation(
    kind = "lookup",
    fields(status = param(status)),
    returns = "many",
    sorts(newest(desc(created_at))),
    strict_params,
    unscoped = "the posts of all authors"
)]
pub const BY_STATUS: Operation<Post>;

fn main() {}
