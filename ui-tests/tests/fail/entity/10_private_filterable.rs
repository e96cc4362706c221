use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(private, filterable)]
    pub rank: i64,
}

fn main() {}
