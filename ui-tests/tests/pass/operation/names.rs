//! Operations and parameters whose names are Rust keywords or names in generated code.
use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Status {
    Draft,
    Published,
}

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

#[operation(kind = "increment", field = views)]
pub const MOVE: Operation<Post>;

#[operation(kind = "exists", fields(slug = param(r#type), title = param(cx)))]
#[allow(non_upper_case_globals)]
pub const listing: Operation<Post>;
