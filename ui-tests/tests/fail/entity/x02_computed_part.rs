use linchpin::prelude::*;

#[entity(tenant(team))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    #[field(computed = key)]
    pub team: String,
    #[field(computed = key)]
    pub meta: serde_json::Value,
}

fn key(post: &Post) -> String {
    post.slug.to_lowercase()
}

fn main() {}
