use linchpin::prelude::*;

pub struct Part {
    pub id: String,
}

#[entity]
pub struct Post {
    #[field(primary)]
    pub id: String,
    pub parts: Vec<Part>,
}

fn main() {}
