use linchpin::prelude::*;

#[entity]
pub struct Post {
    pub id: String,
}

fn main() {}
