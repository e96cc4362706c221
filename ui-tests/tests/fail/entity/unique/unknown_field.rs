use linchpin::prelude::*;

#[entity(unique(slugg))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
}

fn main() {}
