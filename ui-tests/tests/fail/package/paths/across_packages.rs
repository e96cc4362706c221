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

#[entity(path = "posts", routes(auth = none))]
pub struct Comment {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = 0)]
    pub likes: i64,
}

pub static BLOG: Package = package!(name = "blog", entities = [entity(Post, [])]);

pub static NEWS: Package = package!(name = "news", entities = [entity(Comment, [])]);

const _: () = linchpin::package::assert_distinct_routes(&[&BLOG, &NEWS]);

fn main() {}
