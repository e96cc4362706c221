use linchpin::prelude::*;

#[entity]
pub struct User {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[entity(belongs_to(author: User, key = author_id))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub author_id: i64,
}

fn main() {}
