use linchpin::prelude::*;

#[entity]
pub struct User {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[entity(belongs_to(author: User, key = autor_id))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub author_id: String,
}

fn main() {}
