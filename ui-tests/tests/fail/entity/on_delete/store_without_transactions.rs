use linchpin::prelude::*;

#[entity]
pub struct User {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[entity(stores(memory, redis), belongs_to(author: User, key = author_id, on_delete = "cascade"))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub author_id: String,
}

fn main() {}
