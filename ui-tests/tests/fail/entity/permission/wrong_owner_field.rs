use linchpin::prelude::*;

#[entity(routes(
    permission(requires = "write", owner_field = score),
    get(permission(requires = "read", owner_field = autor_id)),
    update(permission(requires = "write", owner_field = editor_id)),
    delete(permission(requires = "write", owner_field = "author_id")),
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
