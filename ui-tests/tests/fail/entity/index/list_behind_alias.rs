use linchpin::prelude::*;

type Tags = Vec<String>;

#[entity(index(tags))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub tags: Tags,
}

fn main() {}
