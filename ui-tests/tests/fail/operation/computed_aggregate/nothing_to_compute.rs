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

#[operation(kind = "computed_aggregate", source = Comment, source_filter = (post_id == param(id)), compute = max(text), target_match(id = param(id)), materialize_to = note)]
pub const ACT: Operation<Post>;

fn main() {}
