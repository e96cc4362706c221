use linchpin::prelude::*;

#[entity(unique(tags), index(parts), sort = tags)]
pub struct Post {
    #[field(primary)]
    pub id: String,
    pub tags: Vec<String>,
    pub parts: Vec<Part>,
    #[field(sortable)]
    pub meta: serde_json::Value,
}

#[derive(Embedded)]
pub struct Part {
    pub name: String,
}

fn main() {}
