use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(length = ..=3, default = "draft")]
    pub word: String,
}

fn main() {}
