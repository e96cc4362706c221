use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(range = 1..=5, default = 9)]
    pub stars: i64,
}

fn main() {}
