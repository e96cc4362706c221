use linchpin::prelude::*;

#[entity(routes(
    permission(requires = "write", resource = meta),
    get(permission(requires = "read", resource = scor)),
    list(permission(requires = "read", resource = editor_id)),
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
