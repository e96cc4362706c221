use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary)]
    pub id: Option<String>,
}

fn main() {}
