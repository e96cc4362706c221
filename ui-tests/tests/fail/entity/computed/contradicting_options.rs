use linchpin::prelude::*;

#[entity(routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    #[field(computed = key, default = "x")]
    pub a: String,
    #[field(computed = key, read_only, client_set)]
    pub b: String,
    #[field(computed = key, length = ..=3, immutable)]
    pub c: String,
}

fn key(post: &Post) -> String {
    post.slug.to_lowercase()
}

fn main() {}
