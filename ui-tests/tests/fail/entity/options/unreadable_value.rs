use linchpin::prelude::*;

#[entity(namespace = , index(title))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

fn main() {}
