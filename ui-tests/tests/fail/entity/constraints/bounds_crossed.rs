use linchpin::prelude::*;

#[entity(routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(range = 5..=3)]
    pub stars: i64,
    #[field(items = 2..=4, default = ["a"])]
    pub tags: Vec<String>,
}

fn main() {}
