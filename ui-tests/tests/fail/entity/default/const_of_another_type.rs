use linchpin::prelude::*;

const LIMIT: i64 = 3;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = LIMIT)]
    pub title: String,
}

fn main() {}
