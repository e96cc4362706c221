use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Status { Draft, Published }

#[entity(unique(slug), routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    #[field(default = Status::Draft)]
    pub status: Status,
    #[field(default = 0)]
    pub views: i64,
    pub note: String,
    pub meta: serde_json::Value,
    #[field(private, default = "")]
    pub secret: String,
    #[field(unique_items)]
    pub tags: Vec<String>,
}

#[entity(routes(auth = none))]
pub struct Comment {
    #[field(primary, default = uuid)]
    pub id: String,
    pub post_id: String,
    #[field(default = 0)]
    pub score: i64,
    pub text: String,
}

#[operation(kind = "derive", source(Post, select = secret), source(Comment, select = post_id), merge = "union")]
pub const HIDDEN: Operation<Post>;

#[operation(kind = "derive", source(Post, select = meta), source(Comment, select = post_id), merge = "union")]
pub const OPAQUE: Operation<Post>;

#[operation(kind = "derive", source(Comment, traverse(Post)), merge = "union")]
pub const BY_WHAT: Operation<Post>;

#[operation(kind = "derive", source(Post, select = slug), source(Comment, select = post_id), merge = "union", flatten)]
pub const NO_LISTS: Operation<Post>;

fn main() {}
