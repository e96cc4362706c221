use linchpin::prelude::*;

#[entity]
pub struct Comment {
    #[field(primary, default = uuid)]
    pub id: String,
    pub post_id: String,
}

#[entity(has_many(comments: Comment, key = post))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
