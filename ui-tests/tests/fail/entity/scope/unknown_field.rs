use linchpin::prelude::*;

#[entity(scope(owner = ctx(actor.id)))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
}

fn main() {}
