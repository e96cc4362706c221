use linchpin::prelude::*;

#[entity()]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = ctx(actor.id), client_set)]
    pub author_id: String,
}

fn main() {}
