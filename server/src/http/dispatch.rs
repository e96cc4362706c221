//! The path of a request through a mounted route.
//!
//! ```text
//! router::find      path and method -> Mounted, path parameters
//!   run             actor, rate limit, path guards, auth, roles
//!     RouteChecks   guards of the route, context values, middleware around the rest
//!       call        parent path, tenant and scope of the caller, permission, related sources
//!         perform   EntityRequest: query, body, If-Match -> Table or executor -> response
//!           resource  scopes, visibility filters and permissions of records: the only place
//! ```
//!
//! A request that one of these steps refuses has changed nothing. The steps before `perform` decide
//! whether the caller may call the route; they read no records. The module
//! [`resource`](crate::resource) decides which records the call may read and change.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use axum::body::{Body, HttpBody};
use axum::http::header::CACHE_CONTROL;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Response};
use axum::response::IntoResponse;
use bytes::Bytes;
use http_body_util::Limited;
use parking_lot::Mutex;
use tower_service::Service;

use super::auth::{Origin, Resolution};
use super::endpoint::Action;
use super::mounted::{EntityPlan, Plan, Target};
use super::plugin_routes::{PluginRoutePlan, RawBody};
use super::related::RelatedRequest;
use super::request::{EntityRequest, Request};
use super::request_id::RequestId;
use super::response;
use super::router::{App, Params};
use super::serve::NO_STORE;
use super::{body, path};
use crate::entity::Flags;
use crate::validate::parse_scalar;
use crate::{Actor, Cx, Error, Problem, Result, Uuid, Value};

/// Resolves the actor of a request.
///
/// # Errors
/// The errors of the resolver.
pub(super) async fn actor(
    app: &App,
    parts: &Parts,
    request_id: &RequestId,
    from: Option<IpAddr>,
) -> Result<Arc<Actor>> {
    match &app.resolver {
        None => Ok(Arc::clone(&app.anonymous)),
        Some(resolver) => match resolver.resolve(parts, Origin { request_id, from }) {
            Resolution::Ready(actor) => actor,
            Resolution::Later(actor) => actor.await,
        },
    }
}

/// Responds to a request. After an error the caller reads the rest of the body.
///
/// # Errors
/// The errors of the policy and of the route.
pub(super) async fn run(request: &Request<'_>, body: &mut Body) -> Result<Response<Body>> {
    let Request {
        app,
        mounted,
        parts,
        id,
        from,
        ..
    } = *request;
    let actor = match request.in_process {
        Some(called) => Arc::clone(called.actor),
        None if mounted.finds_caller => actor(app, parts, id, from).await?,
        None => Arc::clone(&app.anonymous),
    };
    if let Some(limiter) = request.limiter() {
        limiter.admit(&actor, from, (app.clock)()).await?;
    }
    let mut cx = identify(request, &actor, Some(parts.uri.path()))?;
    let emitted = mounted.emits.then(|| cx.first_event_cell());
    // A public route may return different records to signed-in callers, so the response must not be
    // cached.
    let public = mounted.endpoint.is_public();
    let personal = public && (actor.id.is_some() || mounted.varies());
    let answer = match &mounted.checks {
        None => call(request, body, cx).await,
        Some(checks) => {
            checks.guard(&cx)?;
            let cx = Box::pin(checks.with_context(parts, cx)).await?;
            let rest = call(request, body, cx.clone());
            let rest = Box::pin(async {
                let response = rest.await?;
                match cx.once() {
                    None => Ok(response),
                    Some(once) => super::once::reveal(once, response).await,
                }
            });
            checks.around(request, &cx, rest).await
        }
    };
    if public && actor.has_invalid_credential() {
        return Ok(Box::pin(unrecognised(answer, emitted, body)).await);
    }
    let mut response = announce(answer?, emitted.and_then(|event| event.get().cloned()));
    if personal {
        response
            .headers_mut()
            .entry(CACHE_CONTROL)
            .or_insert(NO_STORE);
    }
    Ok(response)
}

/// Returns the call context of an actor who passes the path guards, auth and roles. With `path`,
/// the path guards that match it are checked; without it, all path guards of the route.
///
/// # Errors
/// The errors of these checks.
fn identify(request: &Request<'_>, actor: &Arc<Actor>, path: Option<&str>) -> Result<Cx> {
    let (app, mounted) = (request.app, request.mounted);
    let cx =
        Cx::new(Arc::clone(actor), (app.clock)(), request.id.shared()).called_from(request.from);
    if let Some(guards) = &mounted.path_guards {
        guards.admit(&cx, path)?;
    }
    if let Some(auth) = &mounted.auth {
        auth(actor)?;
    }
    let roles = mounted.endpoint.policy.roles;
    if !roles.is_empty() {
        (app.auth.require_role)(actor, roles)?;
    }
    Ok(cx)
}

/// Checks the policy of a route of an entity without running it: the checks of [`run`] and [`call`]
/// that need neither a body nor a record. Returns the call context, limited by the permission of
/// the route. If `has_record_id` is true, the path contains the id of a particular record.
///
/// # Errors
/// The errors of the policy; `internal` if the permission depends on the record.
pub(super) async fn admit(
    request: &Request<'_>,
    actor: &Arc<Actor>,
    has_record_id: bool,
) -> Result<Cx> {
    let (app, mounted) = (request.app, request.mounted);
    if let Some(limiter) = request.limiter() {
        limiter.admit(actor, request.from, (app.clock)()).await?;
    }
    let path = has_record_id.then(|| request.parts.uri.path());
    let mut cx = identify(request, actor, path)?;
    if let Some(checks) = &mounted.checks {
        checks.guard(&cx)?;
        cx = checks.with_context(request.parts, cx).await?;
        let related_request = RelatedRequest {
            cx: &cx,
            parts: request.parts,
            adapters: &app.adapters,
        };
        checks
            .pass(&mounted.endpoint, &related_request, &cx)
            .await?;
    }
    if let Plan::Entity(target, _) = &mounted.plan
        && target.restricted
    {
        cx = within_parents(target, request.params, cx)?;
        target.table.admit(&cx, &mounted.endpoint.name)?;
    }
    let Some(permit) = mounted.permit() else {
        return Ok(cx);
    };
    let cx = permit.check_before_record(cx).await?;
    match mounted.endpoint.action {
        Action::List => permit.list(&cx).await,
        _ if permit.needs_record() => Err(Error::internal(
            "the permission of the route depends on the record",
        )),
        _ => Ok(cx),
    }
}

/// The response of a public route to a caller with an invalid credential: the response to an
/// anonymous caller, with a header that reports the credential.
async fn unrecognised(
    answer: Result<Response<Body>>,
    emitted: Option<Arc<OnceLock<Uuid>>>,
    body: &mut Body,
) -> Response<Body> {
    let mut response = match answer {
        Ok(response) => announce(response, emitted.and_then(|event| event.get().cloned())),
        Err(error) => {
            if !body.is_end_stream() {
                body::drain(body).await;
            }
            error.into_response()
        }
    };
    response::invalid_credential(&mut response);
    response
}

/// Responds to a request that roles, guards and middleware have accepted.
async fn call(request: &Request<'_>, body: &mut Body, mut cx: Cx) -> Result<Response<Body>> {
    let Request {
        app,
        mounted,
        parts,
        ..
    } = *request;
    if let Plan::Entity(target, _) = &mounted.plan
        && target.restricted
    {
        cx = within_parents(target, request.params, cx)?;
        // Checked before the body is read: a caller without access gets no message about the body.
        target.table.admit(&cx, &mounted.endpoint.name)?;
    }
    if let Some(permit) = mounted.permit() {
        cx = Box::pin(permit.check_before_record(cx)).await?;
    }
    if let Plan::Entity(target, _) = &mounted.plan
        && !target.sources.is_empty()
    {
        cx = Box::pin(target.sources.admit(RelatedRequest {
            cx: &cx,
            parts,
            adapters: &app.adapters,
        }))
        .await?;
    }
    if let Some(auditing) = &mounted.audit {
        cx = cx.audited(auditing);
    }
    if let Plan::Plugin(plan) = &mounted.plan {
        return Box::pin(plugin_route(request, plan, body, cx)).await;
    }
    if let (Plan::Extra(router), None) = (&mounted.plan, &mounted.idempotency) {
        // The function reads the body itself, as a stream.
        return Box::pin(extra_route(request, router, std::mem::take(body), cx)).await;
    }
    // Rare steps are boxed, so that the future of a read by key stays small.
    let read = |body| {
        Box::pin(body::read(
            body,
            mounted.max_body,
            mounted.endpoint.policy.timeout,
            &app.body_memory,
        ))
    };
    let body = if body.is_end_stream() {
        Bytes::new()
    } else {
        read(std::mem::take(body)).await?
    };
    let request = EntityRequest {
        head: *request,
        body,
        cx,
    };
    match &mounted.idempotency {
        None => perform(&request).await,
        Some(keyed) => Box::pin(keyed.run(request)).await,
    }
}

/// Runs the route. The policy has been checked, and the body has been read.
///
/// # Errors
/// The errors of the route.
pub(super) async fn perform(request: &EntityRequest<'_>) -> Result<Response<Body>> {
    let (target, plan) = match &request.head.mounted.plan {
        Plan::Entity(target, plan) => (target, plan),
        Plan::Extra(router) => {
            let body = Body::from(request.body.clone());
            let route = extra_route(&request.head, router, body, request.cx.clone());
            return Box::pin(route).await;
        }
        // `call` has handled this action.
        Plan::Plugin(_) => {
            return Err(Error::internal(
                "a plugin's route was called as one of an entity",
            ));
        }
    };
    let answered = match plan {
        EntityPlan::Get => request.get(target).await,
        EntityPlan::List(list) => Box::pin(request.list(target, list)).await,
        EntityPlan::Create(location) => Box::pin(request.create(target, location)).await,
        EntityPlan::Update => Box::pin(request.update(target)).await,
        EntityPlan::Delete => Box::pin(request.delete(target)).await,
        EntityPlan::Operation(plan) => Box::pin(request.operation(target, plan)).await,
    };
    answered.map_err(|error| redact(target, error))
}

/// Removes private fields from the details of an error: stores name all fields of a unique
/// constraint.
fn redact(target: &Target, error: Error) -> Error {
    let private = |problem: &&Problem| {
        problem.code == "unique"
            && target
                .table
                .desc
                .fields
                .iter()
                .any(|f| f.wire == problem.path && f.flags.has(Flags::PRIVATE))
    };
    if !error.details().iter().any(|problem| private(&problem)) {
        return error;
    }
    let mut details: Vec<Problem> = error
        .details()
        .iter()
        .filter(|problem| !private(problem))
        .cloned()
        .collect();
    if details.is_empty() {
        details.push(Problem::new("", "unique", "is already taken"));
    }
    error.with_details(details)
}

/// Adds the id of the first event of a call to its response.
pub(super) fn announce(mut response: Response<Body>, event: Option<Uuid>) -> Response<Body> {
    // A uuid is always a valid header value.
    if let Some(id) = event
        && let Ok(id) = HeaderValue::from_str(id.as_str())
    {
        response.headers_mut().insert("x-event-id", id);
    }
    response
}

/// Adds the keys of the parents in the path to the context.
///
/// # Errors
/// `not_found` when a path parameter cannot be a key of its parent.
fn within_parents(target: &Target, params: Params<'_>, mut cx: Cx) -> Result<Cx> {
    for (position, field) in &target.parents {
        let desc = target.table.desc;
        let text = params
            .get(*position)
            .and_then(path::decode)
            .ok_or_else(Error::not_found)?;
        let value = parse_scalar(&desc.fields[*field], &text).map_err(|_| Error::not_found())?;
        // One record has one path: `007` is not `7`.
        if matches!(value, Value::Int(n) if itoa::Buffer::new().format(n) != text) {
            return Err(Error::not_found());
        }
        cx = cx.within_value(desc, *field, value);
    }
    Ok(cx)
}

/// Calls a plugin's route. Reads the body only if the route declares one.
async fn plugin_route(
    request: &Request<'_>,
    plan: &PluginRoutePlan,
    body: &mut Body,
    cx: Cx,
) -> Result<Response<Body>> {
    let (max, body_memory) = (request.mounted.max_body, &request.app.body_memory);
    let limit = request.mounted.endpoint.policy.timeout;
    let answer = if plan.is_raw() {
        let shared = Arc::new(Mutex::new(std::mem::take(body)));
        let raw = RawBody {
            body: Arc::clone(&shared),
            max,
            limit,
            body_memory: body_memory.clone(),
        };
        let answer = plan.run(request, cx, b"", Some(raw)).await;
        *body = std::mem::take(&mut *shared.lock());
        answer
    } else {
        let takes = plan.takes_body() && !body.is_end_stream();
        let bytes = if takes {
            body::read(std::mem::take(body), max, limit, body_memory).await?
        } else {
            Bytes::new()
        };
        plan.run(request, cx, &bytes, None).await
    };
    if !body.is_end_stream() {
        body::drain(body).await;
    }
    answer
}

/// Calls the app's own function of an extra route.
async fn extra_route(
    request: &Request<'_>,
    router: &axum::Router,
    mut body: Body,
    cx: Cx,
) -> Result<Response<Body>> {
    let max = request.mounted.endpoint.policy.max_body;
    if body.size_hint().lower() > max {
        body::drain(&mut body).await;
        return Err(Error::too_large(Some(max)));
    }
    let mut parts = request.parts.clone();
    parts.extensions.insert(cx);
    parts.extensions.insert(request.app.adapters.clone());
    parts.extensions.insert(request.id.clone());
    let body = Body::new(Limited::new(
        body,
        usize::try_from(max).unwrap_or(usize::MAX),
    ));
    let inner = axum::http::Request::from_parts(parts, body);
    let Ok(response) = router.clone().call(inner).await;
    Ok(response)
}
