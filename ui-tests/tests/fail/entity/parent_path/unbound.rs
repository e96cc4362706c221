use linchpin::prelude::*;

#[entity(parent_path = "documents/{doc_id}")]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub doc_id: String,
}

fn main() {}
