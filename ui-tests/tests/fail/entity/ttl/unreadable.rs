use linchpin::prelude::*;

#[entity(ttl("soon"))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

fn main() {}
