use linchpin::prelude::*;

#[entity(unique(title))]
#[entity(index(title))]
#[derive(Clone)]
pub struct Post {
    #[field(primary)]
    #[field(primary, default = uuid)]
    pub id: String,
    pub title: String,
}

fn main() {}
