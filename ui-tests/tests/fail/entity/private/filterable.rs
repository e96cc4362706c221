use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(private, filterable, default = 0)]
    pub rank: i64,
}

fn main() {}
