//! Transitions that find their record by the fields of a unique constraint, or by the primary key
//! and a further condition.
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

#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Published, match(author_id = param(author_id), title = param(title)))]
pub const BY_UNIQUE: Operation<Post>;

#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Published, match(id = param(id), author_id = ctx(actor.claims.team)))]
pub const BY_KEY: Operation<Post>;
