//! The index begins with a scope, but the scope does not apply to lists.
use linchpin::prelude::*;

#[entity(
    scope(owner_id = ctx(actor.id), apply_to(create, update, delete)),
    index(owner_id, desc(pinned), desc(created_at)),
    sort(desc(pinned), desc(created_at))
)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = false)]
    pub pinned: bool,
    pub owner_id: String,
    #[field(default = now)]
    pub created_at: Timestamp,
}

fn main() {}
