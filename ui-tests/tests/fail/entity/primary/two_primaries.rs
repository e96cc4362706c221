use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary)]
    pub id: String,
    #[field(primary)]
    pub key: String,
}

fn main() {}
