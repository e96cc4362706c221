//! Transitions of enums, numbers and texts, also to a value that a function chooses.
use linchpin::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, FieldEnum)]
pub enum Status {
    Draft,
    Published,
    Held,
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
    pub stage: Option<String>,
    #[field(immutable)]
    pub origin: String,
    #[field(default = now)]
    pub created_at: Timestamp,
}

#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Published)]
pub const SPELLING: Operation<Post>;

#[operation(kind = "transition", field = views, from = [0, 1], to = 2)]
pub const BOOL_STATE: Operation<Post>;

#[operation(kind = "transition", field = title, from = "a", to = "b")]
pub const TEXT_STATE: Operation<Post>;

// chooser: a function chooses the value of an optional field; it may be in any module.
mod choosers {
    use super::*;

    pub async fn held(call: ChooserCall<Post>) -> Result<Status> {
        Ok(if call.record().views > 3 {
            Status::Published
        } else {
            Status::Held
        })
    }

    pub async fn later(call: ChooserCall<Post>) -> linchpin::Result<String> {
        Ok(call.record().slug.clone())
    }
}

#[operation(kind = "transition", field = status, from = Status::Draft, to = one_of([Status::Published, Status::Held], by = choosers::held), already = "ok")]
pub const PUBLISH: Operation<Post>;

#[operation(kind = "transition", field = stage, from = "a", to = one_of(["b", "c"], by = choosers::later), returns = "boolean")]
pub const STAGE: Operation<Post>;
