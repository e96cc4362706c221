//! Calls of mounted routes from within the process, on behalf of an actor.
//!
//! A plugin may receive requests over a protocol other than HTTP, such as frames of a socket, and
//! call the same routes. Such a call passes the checks of an HTTP request, from the rate limit on.
//! The server reads no credential, because the plugin has already checked it.

mod request;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, OnceLock, Weak};

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Response};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use serde_json::Value as Json;

pub use self::request::RouteRequest;
use super::endpoint::{Action, Endpoint};
use super::mounted::Mounted;
use super::once::REPLAYED;
use super::protection::protected;
use super::request::{InProcess, Request};
use super::request_id::RequestId;
use super::router::{App, Found};
use super::{AuthDesc, PolicyDesc, dispatch, response, serve};
use crate::entity::EntityDesc;
use crate::resource::BoxFuture;
use crate::{Actor, Cx, Error, Result};

/// The record id in the path, for a check of a route without a particular record.
const ANY_RECORD: &str = "-";

/// Calls mounted routes of entities from within the process. A plugin gets it from
/// [`PostCx::route_caller`](crate::PostCx::route_caller); it works once the app has started.
///
/// ```
/// # use linchpin::prelude::*;
/// use linchpin::http::{RouteCaller, RouteRequest};
///
/// #[entity(scope(owner_id = ctx(actor.id)), index(owner_id))]
/// #[derive(Clone, Debug)]
/// pub struct Task {
///     #[field(primary)]
///     pub id: String,
///     pub owner_id: String,
/// }
///
/// /// Reads a task as its owner would by HTTP; the body is JSON.
/// async fn read(caller: &RouteCaller, user: &str) -> Result<linchpin::axum::body::Bytes> {
///     let request = RouteRequest::new(Task::DESC, "get", Actor::user(user)).id("t1");
///     Ok(caller.call(request).await?.body)
/// }
/// ```
#[derive(Clone, Default)]
pub struct RouteCaller(Arc<OnceLock<Weak<App>>>);

impl std::fmt::Debug for RouteCaller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RouteCaller")
            .field(&self.0.get().is_some())
            .finish()
    }
}

/// The response of a route, or its refusal.
#[derive(Clone, Debug)]
pub struct RouteReply {
    /// 200 and so on, as in HTTP.
    pub status: u16,
    /// The headers, as in HTTP.
    pub headers: HeaderMap,
    /// JSON; empty if the response has no body. A refusal has the error body.
    pub body: Bytes,
}

impl RouteReply {
    /// Whether the status is a success (200 to 299).
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body; null if it is empty.
    ///
    /// # Errors
    /// `internal` if it is not JSON.
    pub fn json(&self) -> Result<Json> {
        if self.body.is_empty() {
            return Ok(Json::Null);
        }
        serde_json::from_slice(&self.body).map_err(Error::internal)
    }

    /// Whether this is a replay: the idempotency key was used before, the route did not run again,
    /// and the body is that of the first call.
    pub fn is_replayed(&self) -> bool {
        self.headers.contains_key(REPLAYED)
    }

    /// The id of the first event of the call.
    pub fn event_id(&self) -> Option<&str> {
        self.headers.get("x-event-id")?.to_str().ok()
    }

    async fn of(response: Response<Body>) -> Result<Self> {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(Error::internal)?.to_bytes();
        Ok(Self {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
        })
    }
}

impl RouteCaller {
    /// Sets the app whose routes are called.
    pub(super) fn set_app(&self, app: &Arc<App>) {
        // The value is set once, because an app starts once.
        drop(self.0.set(Arc::downgrade(app)));
    }

    fn app(&self) -> Result<Arc<App>> {
        self.0
            .get()
            .and_then(Weak::upgrade)
            .ok_or_else(|| Error::unavailable("the app is not running"))
    }

    /// Whether the app has mounted this route of the entity.
    pub fn has(&self, entity: &EntityDesc, route: &str) -> bool {
        self.app()
            .is_ok_and(|app| app.named(entity, route).is_some())
    }

    /// Whether the app has mounted this route of the entity, and the route accepts an idempotency
    /// key.
    pub fn is_idempotent(&self, entity: &EntityDesc, route: &str) -> bool {
        self.app().is_ok_and(|app| {
            let mounted = app.named(entity, route);
            mounted.is_some_and(|mounted| mounted.idempotency.is_some())
        })
    }

    /// Checks `auth` and `roles` of a policy that belongs to no mounted route, such as the policy
    /// of a connection. A policy without `auth` checks only the roles.
    ///
    /// # Errors
    /// The refusal of the policy; `internal` for a name in `auth` that no plugin has registered;
    /// `unavailable` if the app does not run.
    pub fn allows(&self, policy: &PolicyDesc, actor: &Actor) -> Result<()> {
        let app = self.app()?;
        if let Some(AuthDesc::Named(name)) = policy.auth {
            let check = app
                .auth
                .check(name)
                .ok_or_else(|| Error::internal(format!("no plugin registers auth `{name}`")))?;
            check(actor)?;
        }
        match policy.roles {
            Some(roles) if !roles.is_empty() => (app.auth.require_role)(actor, roles),
            _ => Ok(()),
        }
    }

    /// Calls a route through its whole policy: rate limit, guards, auth, roles, permission,
    /// idempotency and validation. A refusal is returned as a reply, not as an error.
    ///
    /// # Errors
    /// `internal` if the entity has no such route; `unavailable` if the app does not run.
    pub fn call(&self, request: RouteRequest) -> BoxFuture<'static, Result<RouteReply>> {
        let app = self.app();
        Box::pin(async move {
            let app = app?;
            let endpoint = &mounted(&app, &request)?.endpoint;
            let id = RequestId::of(&request.headers);
            let called = InProcess {
                actor: &Arc::clone(&request.actor),
                counted: request.counted,
            };
            let from = request.from;
            let reply = match request.parts(endpoint) {
                Ok((parts, body)) => {
                    serve::in_process(&app, endpoint, (parts, body), &id, (from, called)).await
                }
                Err(error) => response::error(&error, id.as_str()),
            };
            RouteReply::of(reply).await
        })
    }

    /// Checks the policy of a route without running it: rate limit, guards, auth, roles,
    /// middleware, permission, and whether the caller has the tenant and the scopes of its records.
    /// Returns the context that a call of the route would have, for
    /// [`EventGuard::tuple`](crate::resource::EventGuard::tuple). A `get` needs no id.
    ///
    /// # Errors
    /// The refusal of the policy; `internal` if the entity has no such route, or if its permission
    /// depends on the record.
    pub fn admit(&self, request: RouteRequest) -> BoxFuture<'static, Result<Cx>> {
        let app = self.app();
        Box::pin(async move {
            let app = app?;
            let mounted = mounted(&app, &request)?;
            let id = RequestId::of(&request.headers);
            let (actor, from, counted) =
                (Arc::clone(&request.actor), request.from, request.counted);
            let has_record_id = request.id.is_some();
            let request = if has_record_id {
                request
            } else {
                request.id(ANY_RECORD)
            };
            let (parts, _) = request.parts(&mounted.endpoint)?;
            let Some((mounted, params)) = find_same_route(&app, &mounted.endpoint, &parts) else {
                return Err(Error::not_found());
            };
            let request = Request {
                app: &app,
                mounted,
                params,
                parts: &parts,
                id: &id,
                from,
                in_process: Some(InProcess {
                    actor: &actor,
                    counted,
                }),
            };
            let work = pin!(dispatch::admit(&request, &actor, has_record_id));
            protected(mounted.endpoint.policy.timeout, work)
                .await
                .and_then(|done| done)
        })
    }
}

/// The mounted route of a call.
fn mounted<'a>(app: &'a App, request: &RouteRequest) -> Result<&'a Mounted> {
    app.named(request.entity, &request.route).ok_or_else(|| {
        let (entity, route) = (request.entity.name, &request.route);
        Error::internal(format!("`{entity}` has no mounted route `{route}`"))
    })
}

/// Finds the route of a path; `None` if it is another route than `endpoint`. An id can turn the
/// path into that of another route: with the id `new`, `/posts/{id}` may be the route `/posts/new`.
pub(super) fn find_same_route<'r: 'p, 'p>(
    app: &'r App,
    endpoint: &Endpoint,
    parts: &'p Parts,
) -> Option<(&'r Mounted, super::router::Params<'p>)> {
    match app.find(&parts.method, parts.uri.path()) {
        Found::Endpoint(mounted, params) if mounted.endpoint.path == endpoint.path => {
            Some((mounted, params))
        }
        _ => None,
    }
}

/// The routes of entities, by storage name and route name. A value is the position of the path and
/// of the method in the route table.
pub(super) type NamedRoutes = HashMap<&'static str, HashMap<String, (usize, usize)>>;

/// Adds a route. If an operation has several forms, the form with parameters in the path is used
/// only if there is no other form.
pub(super) fn add_route(endpoint: &Endpoint, at: (usize, usize), routes: &mut NamedRoutes) {
    let Some(table) = &endpoint.table else { return };
    let by_path = match endpoint.action {
        Action::Operation(_, by_path) => by_path,
        Action::Create | Action::List | Action::Get | Action::Update | Action::Delete => false,
        // A function of the app may return an endless stream.
        Action::Extra(_) | Action::Plugin(_) => return,
    };
    let of_entity = routes.entry(table.desc.storage_name).or_default();
    if by_path {
        of_entity.entry(endpoint.name.clone()).or_insert(at);
    } else {
        of_entity.insert(endpoint.name.clone(), at);
    }
}
