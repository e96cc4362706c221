use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(pattern = "[0-9]+")]
    pub n: i64,
}

fn main() {}
