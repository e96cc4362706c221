use linchpin::prelude::*;

#[entity(routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    #[field(computed = key)]
    pub score: i64,
    #[field(computed(missing, from(slug)))]
    pub other: String,
}

fn key(post: &Post) -> String {
    post.slug.to_lowercase()
}

fn main() {}
