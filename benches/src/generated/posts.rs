//! The entity of the main table.

use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
pub enum Status {
    Draft,
    Published,
    Archived,
}

/// A post.
#[entity(unique(slug), index(desc(created_at)), sort = desc(created_at), pagination(default = 20, max = 100))]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(length = 1..=200)]
    pub title: String,
    #[field(length = 1..=200)]
    pub slug: String,
    pub body: String,
    #[field(default = Status::Draft)]
    pub status: Status,
    #[field(default = 0)]
    pub views: i64,
    pub author_id: String,
    #[field(default = now)]
    pub created_at: Timestamp,
}

/// Publishes a draft.
#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Published)]
pub const PUBLISH: Operation<Post>;

pub static POSTS: Package = package!(name = "posts", entities = [entity(Post, [PUBLISH])]);
