//! Nearly wrong packages and routes: neighbours of the cases in `fail/package`.
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

// The same name for an operation of another entity.
#[operation(kind = "exists", fields(slug = param(slug)))]
pub const TAKEN: Operation<Post>;

pub mod comments {
    use linchpin::prelude::*;

    #[operation(kind = "exists", fields(id = param(id)))]
    pub const TAKEN: Operation<super::Comment>;
}

// A static segment beside a parameter is no clash; nor is the same path under another method.
#[route(entity = Post, method = "GET", path = "newest")]
async fn newest() -> &'static str {
    "newest"
}

#[route(entity = Post, method = "PUT", path = "newest", roles = ["admin"], timeout = "1h", max_body = "1B")]
pub async fn set_newest(_body: String) {}

// Parameters in both spellings, a slash in front, a raw name, and no arguments at all.
#[route(entity = crate::Post, method = "GET", path = "/by/{year}/:month")]
pub(crate) async fn r#by() {}

/// A route documented, and a lint of its own.
#[route(entity = Comment, method = "DELETE", path = "all", auth = none)]
#[allow(clippy::unused_async)]
async fn all(comments: CommentAdapter) -> Result<()> {
    let _ = comments;
    Ok(())
}

// Extractors of all sorts, the body last; a pattern, a lifetime and an answer of several parts.
#[route(entity = Post, method = "POST", path = "{year}/wishes")]
async fn wishes(
    mut posts: Option<Path<u16>>,
    cx: Cx,
    headers: HeaderMap,
    Json(wish): Json<serde_json::Value>,
) -> std::result::Result<(StatusCode, [(&'static str, String); 1], Json<usize>), Error> {
    let _ = (posts.take(), cx);
    Ok((StatusCode::CREATED, [("x-from", wish.to_string())], Json(headers.len())))
}

// What the expansion calls its own variables is nobody's name.
#[route(entity = Post, method = "GET", path = "whole")]
async fn request(request: Request) -> impl IntoResponse {
    request.uri().to_string()
}

/// Stands around every route of a package.
async fn stamped(call: RouteCall<'_>, next: Next<'_>) -> Result<linchpin::axum::response::Response> {
    let _ = call;
    next.await
}

/// Everything that its permissions call `moderate` is audited, or only reads.
#[entity(routes(permission(requires = "moderate"), create(audit = "post"), update(audit = "edit"), delete(permission(requires = "write"))))]
#[derive(Clone, Debug)]
pub struct Watched {
    #[field(primary)]
    pub id: String,
    pub title: String,
}

#[operation(kind = "lookup", fields(title = param(title)), returns = "one")]
pub const TITLED: Operation<Watched>;

pub static WATCH: Package = package!(name = "watch", entities = [entity(Watched, [TITLED])], audited = ["moderate"]);

pub static EMPTY: Package = package!(name = "empty", entities = []);
pub static SHORT: Package = package!(name = "s2-_", mount = "", entities = [entity(Comment)],);
pub static BLOG: Package = package!(
    name = "blog",
    mount = "/api/v1/",
    entities = [
        entity(Post, [TAKEN, newest, set_newest, r#by, wishes, request]),
        entity(crate::Comment, [comments::TAKEN, all]),
    ],
    middleware = [stamped, "counted"],
    dependencies = ["auth", "notifications"],
);

fn main() {
    assert!(EMPTY.entities.is_empty() && EMPTY.middleware.is_empty());
    assert_eq!(BLOG.middleware.len(), 2);
    assert_eq!(SHORT.entities[0].operations.len(), 0);
    assert_eq!((BLOG.entities[0].operations.len(), BLOG.entities[0].routes.len()), (1, 5));
}
