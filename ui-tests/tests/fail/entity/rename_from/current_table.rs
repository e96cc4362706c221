use linchpin::prelude::*;

#[entity(namespace = "blog", rename_from = "blog_posts")]
pub struct Post {
    #[field(primary)]
    pub id: String,
}

fn main() {}
