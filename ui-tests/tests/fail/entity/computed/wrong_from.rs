use linchpin::prelude::*;

#[entity(routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    #[field(computed(key, from(slugg)))]
    pub a: String,
    #[field(computed(key, from(a)))]
    pub b: String,
    #[field(computed(key, from(slug, slug)))]
    pub c: String,
    #[field(computed(key, from()))]
    pub d: String,
    #[field(computed(key, of(slug)))]
    pub e: String,
}

fn key(post: &Post) -> String {
    post.slug.to_lowercase()
}

fn main() {}
