use linchpin::prelude::*;

#[entity(scope(owner_id = ctx(actor.id), apply_to(create, list, get, delete)))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
}

fn main() {}
