use linchpin::prelude::*;

#[entity(index(titel))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

fn main() {}
