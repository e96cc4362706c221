use linchpin::prelude::*;

pub struct Post {
    pub id: String,
}

pub static BLOG: Package = package!(name = "blog", entities = [entity(Post, [])]);

fn main() {}
