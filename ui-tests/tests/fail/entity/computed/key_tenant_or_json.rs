use linchpin::prelude::*;

/// A public entity.
#[entity(routes(auth = none))]
pub struct Board {
    #[field(primary)]
    pub id: String,
}

#[entity(tenant(team), gate(board_id -> Board))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    #[field(computed = key)]
    pub team: String,
    #[field(computed = key)]
    pub board_id: String,
    #[field(computed = key)]
    pub meta: serde_json::Value,
}

fn key(post: &Post) -> String {
    post.slug.to_lowercase()
}

fn main() {}
