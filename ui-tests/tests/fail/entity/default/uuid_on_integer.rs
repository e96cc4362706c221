use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = uuid)]
    pub n: i64,
}

fn main() {}
