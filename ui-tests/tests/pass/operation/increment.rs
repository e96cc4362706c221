//! Increments by a negative number, of an aliased type, of a unique field, and of a field with a
//! range.
use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Status {
    Draft,
    Published,
}

pub type Money = i64;

#[entity(
    unique(slug), unique(author_id, title), unique(author_id, place),
    belongs_to(author: Author, key = author_id),
    routes(auth = none)
)]
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
    // A unique number that is not the key: a duplicate is a conflict.
    pub place: i64,
    #[field(range = 1..=5)]
    pub level: i64,
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

#[operation(kind = "increment", field = views, by = -5)]
pub const DOWN: Operation<Post>;

#[operation(kind = "increment", field = price, by = 2)]
pub const ALIAS: Operation<Post>;

#[operation(kind = "increment", field = place)]
pub const LATER: Operation<Post>;

#[operation(kind = "increment", field = level)]
pub const RISE: Operation<Post>;

// The key of `has_many` is a field of `Post`, so it does not restrict the fields of `Author`.
#[entity(has_many(posts: Post, key = author_id), routes(auth = none))]
pub struct Author {
    #[field(primary)]
    pub id: String,
    #[field(default = 0)]
    pub posts_written: i64,
}

#[operation(kind = "increment", field = posts_written)]
pub const WRITTEN: Operation<Author>;
