use linchpin::prelude::*;

#[entity(routes(
    permission(owner_field = author_id),
    create(permission = "write"),
    list(permission(requires = "")),
    get(permission(requires = "read", or = [], hide = true)),
    update(permission(requires = "write", or = ["write", "moderate", "moderate", 3])),
    delete(permission(requires = "write", owner = author_id)),
))]
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
