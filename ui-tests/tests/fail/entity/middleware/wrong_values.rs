use linchpin::prelude::*;

#[entity(routes(
    middleware = [],
    create(middleware = ["audit", "audit"]),
    list(middleware = "audit"),
    get(middleware = [""]),
    update(middleware = [audit()]),
    delete(middleware(audit)),
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
