use linchpin::prelude::*;

type Count = i64;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(length = 1..)]
    pub n: Count,
}

fn main() {}
