use linchpin::prelude::*;

#[entity(ttl("0s"))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

fn main() {}
