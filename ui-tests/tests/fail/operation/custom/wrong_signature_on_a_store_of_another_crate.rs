use linchpin::operation::{CustomCall, CustomStore};
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

/// The type of a store of another crate.
pub enum Toy {}

impl CustomStore for Toy {
    const NAME: &'static str = "toy";
    type Native = ();
}

async fn act(_: CustomCall<Post, Toy>, who: i64) -> Result<String> {
    Ok(who.to_string())
}

#[operation(kind = "custom", params(who: String), output = String, handler(toy = act))]
pub const ACT: Operation<Post>;

fn main() {}
