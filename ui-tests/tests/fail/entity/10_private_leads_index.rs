use linchpin::prelude::*;

#[entity(index(rank, id))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(private)]
    pub rank: i64,
}

fn main() {}
