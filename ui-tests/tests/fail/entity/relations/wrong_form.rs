use linchpin::prelude::*;

#[entity]
pub struct User {
    #[field(primary, default = uuid)]
    pub id: String,
}

#[entity(belongs_to(key = author_id), belongs_to(author: User), belongs_to(editor: User, kye = author_id), has_many(posts: Post, key = author_id, max = 0), has_many(notes))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub author_id: String,
}

fn main() {}
