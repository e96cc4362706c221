use linchpin::prelude::*;

#[entity(belongs_to(author: User, key = author_id))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub author_id: String,
}

fn main() {}
