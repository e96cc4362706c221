use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(max_length = 20)]
    pub title: String,
}

fn main() {}
