use linchpin::prelude::*;

#[entity(namespace = "a", namespace = "b")]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
