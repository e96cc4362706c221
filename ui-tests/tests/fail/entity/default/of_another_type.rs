use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = "none")]
    pub n: i64,
}

fn main() {}
