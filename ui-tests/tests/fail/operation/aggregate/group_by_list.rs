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

#[operation(kind = "aggregate", group_by = tags, compute(n = count()))]
pub const ACT: Operation<Post>;

#[operation(kind = "aggregate", group_by = week(views), compute(n = count()))]
pub const WEEKS: Operation<Post>;

fn main() {}
