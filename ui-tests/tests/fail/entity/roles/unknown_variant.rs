use linchpin::prelude::*;

#[derive(Clone, Copy, Roles)]
pub enum Role {
    Admin,
    Editor,
}

#[entity(routes(delete(roles = [Role::Admn])))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary)]
    pub id: String,
    pub author_id: Option<String>,
    #[field(private, default = "")]
    pub editor_id: String,
    pub score: i64,
    pub meta: Option<serde_json::Value>,
}

fn main() {}
