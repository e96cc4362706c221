//! Middleware: functions around a route, after its guards and before its body is read.

use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;
use axum::http::request::Parts;

use crate::resource::{Adapters, BoxFuture};
use crate::{Actor, Cx, Result};

/// A call before its route runs: auth, roles and guards have allowed it, and its body is not read
/// yet.
#[derive(Clone, Copy, Debug)]
pub struct RouteCall<'a> {
    /// The call context: caller, instant and request id.
    pub cx: &'a Cx,
    /// Method, path and headers.
    pub parts: &'a Parts,
    /// The path of the route in axum's form: `/posts/{id}`.
    pub path: &'a str,
    /// `create`, `list`, `get`, `update`, `delete`, or the name of the operation or extra route.
    pub name: &'a str,
    /// Typed access to every entity.
    pub adapters: &'a Adapters,
}

impl RouteCall<'_> {
    /// The caller.
    pub fn actor(&self) -> Option<&Actor> {
        self.cx.get_actor().map(|actor| &**actor)
    }
}

/// The rest of the chain: the next middleware, or the route itself. It runs when it is awaited; if
/// it is dropped, it never runs.
pub type Next<'a> = BoxFuture<'a, Result<Response<Body>>>;

/// A middleware in `middleware = [path]`: an
/// `async fn(RouteCall<'_>, Next<'_>) -> Result<Response>`.
///
/// ```
/// use linchpin::axum::response::Response;
/// use linchpin::http::{Next, RouteCall};
/// use linchpin::{Error, Result};
///
/// /// Answers only clients that say which version they speak, and says which one it speaks itself.
/// async fn versioned(call: RouteCall<'_>, next: Next<'_>) -> Result<Response> {
///     if !call.parts.headers.contains_key("x-api-version") {
///         return Err(Error::forbidden());
///     }
///     let mut response = next.await?;
///     response.headers_mut().insert("x-api-version", axum::http::HeaderValue::from_static("2"));
///     Ok(response)
/// }
/// ```
pub type MiddlewareFn =
    for<'a> fn(RouteCall<'a>, Next<'a>) -> BoxFuture<'a, Result<Response<Body>>>;

/// The function type of a registered middleware, for `middleware = ["name"]`.
type WrapCall =
    dyn for<'a> Fn(RouteCall<'a>, Next<'a>) -> BoxFuture<'a, Result<Response<Body>>> + Send + Sync;

/// A middleware that a plugin registers under a name.
#[derive(Clone)]
pub struct Middleware(Arc<WrapCall>);

impl Middleware {
    /// Creates a middleware from a function or closure that boxes its future:
    /// `Middleware::new(|call, next| Box::pin(audit(call, next)))`.
    pub fn new<F>(around: F) -> Self
    where
        F: for<'a> Fn(RouteCall<'a>, Next<'a>) -> BoxFuture<'a, Result<Response<Body>>>
            + Send
            + Sync
            + 'static,
    {
        Self(Arc::new(around))
    }

    pub(super) fn run<'a>(&'a self, call: RouteCall<'a>, next: Next<'a>) -> Next<'a> {
        (self.0)(call, next)
    }
}

impl fmt::Debug for Middleware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Middleware").finish_non_exhaustive()
    }
}
