use linchpin::prelude::*;

pub struct Comment {
    pub post_id: String,
}

#[entity(has_many(comments: Comment, key = post_id))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
