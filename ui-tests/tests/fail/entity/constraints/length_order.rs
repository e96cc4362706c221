use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(length = 9..=3)]
    pub slug: String,
}

fn main() {}
