use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Status { Draft, Published }

pub type Money = i64;

#[entity(unique(slug), unique(author_id, title), routes(auth = none))]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    pub title: String,
    pub author_id: String,
    #[field(default = Status::Draft)]
    pub status: Status,
    #[field(default = 0)]
    pub views: i64,
    #[field(default = 0)]
    pub price: Money,
    pub meta: serde_json::Value,
    #[field(private, default = "")]
    pub secret: String,
    pub tags: Vec<String>,
    pub published_at: Option<Timestamp>,
    #[field(immutable)]
    pub origin: String,
    #[field(default = now)]
    pub created_at: Timestamp,
}

#[operation(kind = "batch", action = "delete", filter = (views > 3), route(output_once(secret: String)))]
pub const NO_RECORD: Operation<Post>;

#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one", route(output_once(secret: String)))]
pub const READS: Operation<Post>;

#[operation(kind = "upsert", match(slug), set(title), route(output_once(title: String, entity: String, key: i64, key: i64)))]
pub const TAKEN: Operation<Post>;

#[operation(kind = "increment", field = views, route(output_once(hidden, meta_: Vec<Post>)))]
pub const NO_TYPE: Operation<Post>;

#[operation(kind = "increment", field = views, route(output_once()))]
pub const NOTHING: Operation<Post>;

fn main() {}
