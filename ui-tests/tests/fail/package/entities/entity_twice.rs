use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary)]
    pub id: String,
}

pub static BLOG: Package = package!(name = "blog", entities = [entity(Post, []), entity(Post, [])]);

fn main() {}
