use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
    #[field(column = "title")]
    pub name: String,
}

fn main() {}
