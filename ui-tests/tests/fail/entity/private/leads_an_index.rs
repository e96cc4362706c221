use linchpin::prelude::*;

#[entity(index(rank, id))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(private, default = 0)]
    pub rank: i64,
}

fn main() {}
