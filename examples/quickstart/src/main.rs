//! A blog: one entity, four operations, one package, one app.

use linchpin::prelude::*;
use linchpin_auth::Auth;

/// The status of a post.
#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
pub enum Status {
    Draft,
    Published,
    Archived,
}

/// A blog post.
#[entity(
    namespace = "blog",
    unique(slug),
    index(created_at),
    index(status, created_at),
    sort = desc(created_at),
    routes(auth = "userAuth", get(auth = none), list(auth = none), delete(roles = ["admin"])),
)]
#[derive(Clone, Debug)]
pub struct Post {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(format = "slug", length = 1..=80)]
    pub slug: String,
    #[field(length = 1..=200, filterable)]
    pub title: String,
    #[field(default = Status::Draft)]
    pub status: Status,
    #[field(default = 0, read_only)]
    pub views: i64,
    pub published_at: Option<Timestamp>,
    #[field(default = now)]
    pub created_at: Timestamp,
    #[field(default = now, on_update = now)]
    pub updated_at: Timestamp,
}

/// The post with this slug, or null.
#[operation(kind = "lookup", fields(slug = param(slug)), returns = "one", route(auth = none))]
pub const BY_SLUG: Operation<Post>;

/// Whether a slug is in use.
#[operation(kind = "exists", fields(slug = param(slug)))]
pub const SLUG_TAKEN: Operation<Post>;

/// Publishes a draft.
#[operation(
    kind = "transition",
    field = status, from = Status::Draft, to = Status::Published,
    set(published_at = now()),
)]
pub const PUBLISH: Operation<Post>;

/// Counts a view.
#[operation(kind = "increment", field = views, route(auth = none))]
pub const VIEW: Operation<Post>;

/// Posts and their operations.
pub static BLOG: Package = package!(
    name = "blog",
    entities = [entity(Post, [BY_SLUG, SLUG_TAKEN, PUBLISH, VIEW])]
);

#[tokio::main]
async fn main() -> linchpin::Result<()> {
    let auth = Auth::from_env().roles(["admin"]);
    App::new(Config::from_env()?)
        .plugin(auth)
        .package(&BLOG)
        .run()
        .await
}
