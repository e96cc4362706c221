use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primry)]
    pub id: String,
    #[field(primary)]
    pub key: String,
}

fn main() {}
