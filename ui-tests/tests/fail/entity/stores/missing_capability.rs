use linchpin::prelude::*;

#[entity(stores(memory, redis), unique(slug), unique(author_id, slug), version(field = rev))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    pub author_id: String,
}

fn main() {}
