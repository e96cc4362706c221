use linchpin::prelude::*;

#[entity(index(limit))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub limit: i64,
}

fn main() {}
