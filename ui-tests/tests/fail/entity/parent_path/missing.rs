use linchpin::prelude::*;

#[entity(scope(doc_id = param(doc_id)))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub doc_id: String,
}

fn main() {}
