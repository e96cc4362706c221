use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(length = 1..=5)]
    pub tags: Vec<String>,
}

fn main() {}
