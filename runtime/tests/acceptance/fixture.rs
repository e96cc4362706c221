//! The standard fixture of the acceptance cases: `Post` and its relatives.
#![allow(missing_docs)] // test entities

use linchpin::prelude::*;

#[derive(FieldEnum, Clone, Copy, Debug, PartialEq)]
pub enum Status {
    Draft,
    Published,
    Archived,
}

/// A post of the blog.
#[entity(
    namespace = "blog",
    unique(slug),
    index(title),
    index(category),
    pagination(default = 2, max = 3),
    routes(auth = none),
)]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
    #[field(length = 1..=200)]
    pub title: String,
    #[field(format = "email")]
    pub email: Option<String>,
    #[field(default = Status::Draft)]
    pub status: Status,
    pub category: Option<String>,
    #[field(default = 0)]
    pub score: i64,
    #[field(default = 0)]
    pub views: i64,
    pub tags: Option<Vec<String>>,
    pub meta: Option<serde_json::Value>,
    #[field(default = false)]
    pub live: bool,
    pub owner_id: Option<String>,
    #[field(private)]
    pub secret: Option<String>,
    #[field(write_only)]
    pub pin: Option<String>,
    pub due_at: Option<Timestamp>,
    pub published_at: Option<Timestamp>,
    #[field(default = now)]
    pub created_at: Timestamp,
    #[field(default = now, on_update = now)]
    pub updated_at: Timestamp,
}

/// Publishes a draft.
#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Published, set(published_at = now()))]
pub const PUBLISH: Operation<Post>;

/// Archives a post that is not archived yet.
#[operation(kind = "transition", field = status, from = [Status::Draft, Status::Published], to = Status::Archived)]
pub const ARCHIVE: Operation<Post>;

/// Publishes a post and returns `true`.
#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Published, returns = "boolean")]
pub const RELEASE: Operation<Post>;

/// Archives a draft and replaces its slug by the reason.
#[operation(kind = "transition", field = status, from = Status::Draft, to = Status::Archived, set(slug = param(reason)))]
pub const RETIRE: Operation<Post>;

/// Finds a post by its slug.
#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one")]
pub const BY_SLUG: Operation<Post>;

/// The posts of a category.
#[operation(kind = "lookup", fields(category = param(category)), returns = "many")]
pub const BY_CATEGORY: Operation<Post>;

/// The posts of a category in a state.
#[operation(kind = "lookup", fields(category = param(category), status = param(status)), returns = "many")]
pub const BY_CATEGORY_STATUS: Operation<Post>;

/// Published posts.
#[operation(kind = "lookup", fields(status = Status::Published), returns = "many")]
pub const PUBLISHED_ONES: Operation<Post>;

/// Posts of an owner and a category; with a slug if one is given.
#[operation(
    kind = "lookup",
    fields(owner_id = param(target_id), category = param(target_type), slug = param(value)),
    optional_params(value),
    returns = "many",
)]
pub const BY_TARGET: Operation<Post>;

/// The newest post of a category.
#[operation(kind = "lookup", fields(category = param(category)), returns = "one", sort = desc(created_at))]
pub const NEWEST: Operation<Post>;

/// Whether a slug is taken.
#[operation(kind = "exists", fields(slug = param(slug)))]
pub const SLUG_TAKEN: Operation<Post>;

/// Whether a slug is taken by a published post.
#[operation(kind = "exists", fields(slug = param(slug)), check(status = Status::Published))]
pub const SLUG_LIVE: Operation<Post>;

/// Counts five views.
#[operation(kind = "increment", field = views, by = 5)]
pub const BUMP: Operation<Post>;

/// A document with a key of the client's choice and a version.
#[entity(version, routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Document {
    #[field(primary)]
    pub id: String,
    #[field(immutable)]
    pub kind: String,
    pub title: String,
}

/// A counter with an integer key.
#[entity(routes(auth = none, delete(disabled)))]
#[derive(Clone, Debug)]
pub struct Counter {
    #[field(primary)]
    pub id: i64,
    #[field(default = 0, range = 0..=10)]
    pub total: i64,
}

/// Adds three.
#[operation(kind = "increment", field = total, by = 3)]
pub const ADD_THREE: Operation<Counter>;

/// An entity without a policy; its routes are closed by default.
#[entity]
#[derive(Clone, Debug)]
pub struct Secret {
    #[field(primary, default = uuid)]
    pub id: String,
    pub name: String,
    #[field(default = false)]
    pub revealed: bool,
    #[field(default = 0)]
    pub looks: i64,
}

/// An operation inherits the default: it is closed, too.
#[operation(kind = "lookup", fields(name = param(name)), returns = "many")]
pub const BY_NAME: Operation<Secret>;

/// Whether a name is taken.
#[operation(kind = "exists", fields(name = param(name)))]
pub const NAME_TAKEN: Operation<Secret>;

/// Reveals a secret.
#[operation(kind = "transition", field = revealed, from = false, to = true)]
pub const REVEAL: Operation<Secret>;

/// Increments the number of views.
#[operation(kind = "increment", field = looks)]
pub const PEEK: Operation<Secret>;

/// A route function inherits the policy.
#[route(entity = Secret, method = "GET", path = "feed")]
async fn feed() -> &'static str {
    "secrets"
}

/// An entity for callers with the role `admin`.
#[entity(routes(delete(roles = ["admin"])))]
#[derive(Clone, Debug)]
pub struct Report {
    #[field(primary, default = uuid)]
    pub id: String,
    pub name: String,
}

macro_rules! named {
    ($($name:ident),*) => {$(
        #[doc = "Only its name matters."]
        #[entity(namespace = "blog", routes(auth = none))]
        #[derive(Clone, Debug)]
        pub struct $name {
            #[field(primary, default = uuid)]
            pub id: String,
        }
    )*};
}
mod names {
    #![allow(missing_docs)]
    use linchpin::prelude::*;
    named!(Category);
    named!(Box);
    named!(BlogPost);
    named!(HTTPServer);
    named!(Quiz);
    named!(Person);
}

/// The static path has priority over `GET /{id}`.
#[route(entity = Post, method = "GET", path = "stats2")]
async fn stats2() -> &'static str {
    "extra"
}

pub static BLOG: Package = package!(
    name = "blog",
    entities = [
        entity(
            Post,
            [
                PUBLISH,
                ARCHIVE,
                RELEASE,
                RETIRE,
                BY_SLUG,
                BY_CATEGORY,
                BY_CATEGORY_STATUS,
                PUBLISHED_ONES,
                BY_TARGET,
                NEWEST,
                SLUG_TAKEN,
                SLUG_LIVE,
                BUMP,
                stats2,
            ]
        ),
        entity(Document, []),
        entity(Counter, [ADD_THREE]),
        entity(Secret, [BY_NAME, NAME_TAKEN, REVEAL, PEEK, feed]),
        entity(Report, []),
        entity(names::Category, []),
        entity(names::Box, []),
        entity(names::BlogPost, []),
        entity(names::HTTPServer, []),
        entity(names::Quiz, []),
        entity(names::Person, []),
    ],
);
