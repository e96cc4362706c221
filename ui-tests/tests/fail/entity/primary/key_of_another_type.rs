use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary)]
    pub id: bool,
}

fn main() {}
