use linchpin::prelude::*;

#[entity(sort = desc(rank))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(private, default = 0)]
    pub rank: i64,
}

fn main() {}
