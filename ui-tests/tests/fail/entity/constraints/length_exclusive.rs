use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(length = 1..200)]
    pub slug: String,
}

fn main() {}
