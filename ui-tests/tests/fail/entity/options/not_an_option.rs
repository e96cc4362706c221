use linchpin::prelude::*;

#[entity(blog::name = "Post", index[title], "unique", true, path = pub(crate), unique(title) sort = title)]
pub struct Post {
    #[field(primary, default = )]
    pub id: String,
    pub title: String,
}

fn main() {}
