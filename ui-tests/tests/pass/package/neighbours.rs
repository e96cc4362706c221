//! Valid packages and routes that are similar to the mistakes in `fail/package`.
#![deny(warnings)]

use linchpin::axum::Json;
use linchpin::axum::extract::{Path, Request};
use linchpin::axum::http::{HeaderMap, StatusCode};
use linchpin::axum::response::IntoResponse;
use linchpin::prelude::*;

#[entity(routes(auth = none))]
pub struct Post {
    #[field(primary)]
    pub id: String,
    pub slug: String,
}

#[entity(path = "posts/archived", routes(auth = none))]
pub struct Comment {
    #[field(primary)]
    pub id: String,
}

// Two entities may have operations with the same name.
#[operation(kind = "exists", fields(slug = param(slug)))]
pub const TAKEN: Operation<Post>;

pub mod comments {
    use linchpin::prelude::*;

    #[operation(kind = "exists", fields(id = param(id)))]
    pub const TAKEN: Operation<super::Comment>;
}

// Not duplicates: a static segment instead of a parameter, and a path with another method.
#[route(entity = Post, method = "GET", path = "newest")]
async fn newest() -> &'static str {
    "newest"
}

#[route(entity = Post, method = "PUT", path = "newest", roles = ["admin"], timeout = "1h", max_body = "1B")]
pub async fn set_newest(_body: String) {}

// Parameters in both spellings, a leading slash, a raw name, and no arguments.
#[route(entity = crate::package::neighbours::Post, method = "GET", path = "/by/{year}/:month")]
pub(crate) async fn r#by() {}

/// A route with docs and with a lint attribute.
#[route(entity = Comment, method = "DELETE", path = "all", auth = none)]
#[allow(clippy::unused_async)]
async fn all(comments: CommentAdapter) -> Result<()> {
    let _ = comments;
    Ok(())
}

// All kinds of extractors, the body last; a pattern, a lifetime and a response of several parts.
#[route(entity = Post, method = "POST", path = "{year}/wishes")]
async fn wishes(
    mut posts: Option<Path<u16>>,
    cx: Cx,
    headers: HeaderMap,
    Json(wish): Json<serde_json::Value>,
) -> std::result::Result<(StatusCode, [(&'static str, String); 1], Json<usize>), Error> {
    let _ = (posts.take(), cx);
    Ok((
        StatusCode::CREATED,
        [("x-from", wish.to_string())],
        Json(headers.len()),
    ))
}

// Names of the app do not clash with variables of the expansion.
#[route(entity = Post, method = "GET", path = "whole")]
async fn request(request: Request) -> impl IntoResponse {
    request.uri().to_string()
}

/// A middleware for every route of a package.
async fn stamped(
    call: RouteCall<'_>,
    next: Next<'_>,
) -> Result<linchpin::axum::response::Response> {
    let _ = call;
    next.await
}

/// Each route with the permission `moderate` is audited or only reads.
#[entity(routes(
    permission(requires = "moderate"),
    create(audit = "post"),
    update(audit = "edit"),
    delete(permission(requires = "write"))
))]
#[derive(Clone, Debug)]
pub struct Watched {
    #[field(primary)]
    pub id: String,
    pub title: String,
}

#[operation(kind = "lookup", fields(title = param(title)), returns = "one")]
pub const TITLED: Operation<Watched>;

pub static WATCH: Package = package!(
    name = "watch",
    entities = [entity(Watched, [TITLED])],
    audited = ["moderate"]
);

// apply_to: operations whose names are similar to those of routes, and a method of a collection.
#[derive(Embedded, Clone, Debug)]
pub struct Member {
    pub key: String,
}

#[entity(scope(owner_id = ctx(actor.id), apply_to(create, update, delete, set, last, deleted, members_add, membersRemove)))]
#[derive(Clone, Debug)]
pub struct Team {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    pub members: Vec<Member>,
    #[field(default = 0)]
    pub wins: i64,
}

#[operation(kind = "increment", field = wins)]
pub const SET: Operation<Team>;

#[operation(kind = "increment", field = wins)]
pub const LAST: Operation<Team>;

#[operation(kind = "increment", field = wins)]
pub const DELETED: Operation<Team>;

#[operation(kind = "collection", field = members, operations(list, add, remove), identify_by = key, max_items = 5)]
pub const MEMBERS: Operation<Team>;

pub static TEAMS: Package = package!(
    name = "teams",
    entities = [entity(Team, [SET, LAST, DELETED, MEMBERS])]
);

// stores: operations that a key-value store supports.
#[entity(stores(memory, redis), index(owner_id))]
#[derive(Clone, Debug)]
pub struct Board {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    pub members: Vec<Member>,
}

#[operation(kind = "collection", field = members, operations(list), identify_by = key)]
pub const BOARD_MEMBERS: Operation<Board>;

#[operation(kind = "lookup", fields(owner_id = param(owner_id)), returns = "many")]
pub const BOARDS_OF: Operation<Board>;

pub static BOARDS: Package = package!(
    name = "boards",
    entities = [entity(Board, [BOARD_MEMBERS, BOARDS_OF])]
);

// filter: filters that some records match and others do not; operations without a route, which
// reach more records than callers can read.
#[derive(FieldEnum, Clone, Copy, PartialEq, Debug)]
pub enum Stage {
    Draft,
    Live,
    Gone,
}

impl Stage {
    pub const FIRST: Self = Self::Draft;
}

const CODE: &str = "b";

#[entity(visible(stage == Stage::Live || owner_id == ctx(actor.id)), action("write", stage != Stage::Gone))]
#[derive(Clone, Debug)]
pub struct Draft {
    #[field(primary, default = uuid)]
    pub id: String,
    pub owner_id: String,
    pub stage: Stage,
    pub pinned: bool,
    #[field(range = 0..=100)]
    pub score: i64,
    #[field(length = 1..=5)]
    pub code: String,
    pub due_at: Option<Timestamp>,
}

#[operation(kind = "batch", action = "delete", filter = (stage.one_of([Stage::Draft, Stage::Live])))]
pub const MOST_STAGES: Operation<Draft>;

#[operation(kind = "batch", action = "delete", filter = (stage == Stage::FIRST || stage == Stage::Draft || stage == Stage::Live))]
pub const NOT_GONE: Operation<Draft>;

#[operation(kind = "batch", action = "delete", filter = (stage != Stage::FIRST || stage != Stage::Draft))]
pub const NOT_FIRST: Operation<Draft>;

#[operation(kind = "batch", action = "delete", filter = (due_at > now() || due_at <= now()))]
pub const DATED: Operation<Draft>;

#[operation(kind = "batch", action = "delete", filter = (score >= 1 || pinned))]
pub const SCORED: Operation<Draft>;

#[operation(kind = "batch", action = "delete", filter = (code > "a" || code == CODE))]
pub const CODED: Operation<Draft>;

#[operation(kind = "batch", action = "delete", filter = (code == param(code) && (pinned || score > 5)), optional_params(code))]
pub const SOME: Operation<Draft>;

#[operation(kind = "lookup", returns = "many", fields(code = param(code)), filter = (score > 5 && score < 7 && stage != Stage::Live && stage != Stage::Gone))]
pub const SIX: Operation<Draft>;

#[entity(visible(stage == Stage::Live))]
#[derive(Clone, Debug)]
pub struct Leaf {
    #[field(primary, default = uuid)]
    pub id: String,
    pub stage: Stage,
}

// Without a route, the operation reaches records that callers cannot see.
#[operation(kind = "batch", action = "delete", filter = (stage == Stage::Gone), route(disabled))]
pub const SWEEP: Operation<Leaf>;

#[operation(kind = "batch", action = "update", filter = (stage == Stage::Draft), set(stage = Stage::Live), returns = "records", limit = 5)]
pub const PUBLISH_SOME: Operation<Leaf>;

pub static DRAFTS: Package = package!(
    name = "drafts",
    entities = [
        entity(
            Draft,
            [
                MOST_STAGES,
                NOT_GONE,
                NOT_FIRST,
                DATED,
                SCORED,
                CODED,
                SOME,
                SIX
            ]
        ),
        entity(Leaf, [SWEEP, PUBLISH_SOME]),
    ],
);

pub static EMPTY: Package = package!(name = "empty", entities = []);
pub static SHORT: Package = package!(name = "s2-_", mount = "", entities = [entity(Comment)],);
pub static BLOG: Package = package!(
    name = "blog",
    mount = "/api/v1/",
    entities = [
        entity(Post, [TAKEN, newest, set_newest, r#by, wishes, request]),
        entity(crate::package::neighbours::Comment, [comments::TAKEN, all]),
    ],
    middleware = [stamped, "counted"],
    dependencies = ["auth", "notifications"],
);

#[test]
fn packages_list_their_operations_routes_and_middleware() {
    assert!(EMPTY.entities.is_empty() && EMPTY.middleware.is_empty());
    assert_eq!(BLOG.middleware.len(), 2);
    assert_eq!(SHORT.entities[0].operations.len(), 0);
    assert_eq!(
        (
            BLOG.entities[0].operations.len(),
            BLOG.entities[0].routes.len()
        ),
        (1, 5)
    );
}
