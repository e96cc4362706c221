use linchpin::prelude::*;

#[entity(scope(id = ctx(actor.id)))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

fn main() {}
