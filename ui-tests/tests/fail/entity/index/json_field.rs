use linchpin::prelude::*;

#[entity(index(meta))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub meta: serde_json::Value,
}

fn main() {}
