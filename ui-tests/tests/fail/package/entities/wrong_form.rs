use linchpin::prelude::*;

#[entity]
pub struct Post {
    #[field(primary)]
    pub id: String,
}

pub static LISTS: Package = package!(name = "blog", entities = [Post, entity(), entity(Post, PUBLISH), entity(Note, [publish()], 3)]);

fn main() {}
