use linchpin::prelude::*;

#[entity(belongs_to(post: Post, key = post_id), routes(list(output(id, text))))]
pub struct Comment {
    #[field(primary, default = uuid)]
    pub id: String,
    pub post_id: String,
    pub text: String,
}

#[entity(has_many(comments: Comment, key = post_id))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
}

fn main() {}
