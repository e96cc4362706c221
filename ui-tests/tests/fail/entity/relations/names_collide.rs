use linchpin::prelude::*;

#[entity]
pub struct User {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[entity(belongs_to(author: User, key = author_id), belongs_to(user: User, key = user_id), belongs_to(user: User, key = author_id))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub author: String,
    pub author_id: String,
    pub user_id: String,
}

fn main() {}
