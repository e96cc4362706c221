use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(pattern = "[a-")]
    pub slug: String,
}

fn main() {}
