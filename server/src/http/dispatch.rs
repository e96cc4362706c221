//! What every route of an entity shares: policy, inputs, the call, the answer.
//!
//! The order of checks is the contract's: actor, rate limit, auth, roles, guards, middleware, body,
//! unknown parameters, content type, syntax, validation, precondition, statement. A request that
//! fails one of them has changed nothing.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use axum::body::{Body, HttpBody};
use axum::http::header::CACHE_CONTROL;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Request, Response};
use axum::response::IntoResponse;
use bytes::Bytes;
use http_body_util::Limited;
use tower_service::Service;

use super::asked::Asked;
use super::auth::{Origin, Resolution};
use super::foreign::Asking;
use super::mounted::{EntityPlan, Mounted, Plan, Target};
use super::plugged::PluggedPlan;
use super::request_id::RequestId;
use super::response;
use super::router::{App, Params};
use super::serve::NO_STORE;
use super::{body, path};
use crate::entity::Flags;
use crate::validate::parse_scalar;
use crate::{Actor, Cx, Error, Problem, Result, Uuid, Value};

/// The actor behind a request.
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

/// Answers one request to an endpoint.
pub(super) async fn run(
    app: &Arc<App>,
    mounted: &Mounted,
    params: Params<'_>,
    parts: &Parts,
    body: &mut Body,
    id: &RequestId,
    from: Option<IpAddr>,
) -> Result<Response<Body>> {
    let policy = &mounted.endpoint.policy;
    let actor = actor(app, parts, id, from).await?;
    if let Some(limiter) = &mounted.limiter {
        limiter.admit(&actor, from, (app.clock)()).await?;
    }
    let mut cx = Cx::new(Arc::clone(&actor), (app.clock)(), id.shared()).called_from(from);
    if let Some(before) = &mounted.before {
        before.admit(&cx, Some(parts.uri.path()))?;
    }
    if let Some(check) = &mounted.check {
        check(&actor)?;
    }
    if !policy.roles.is_empty() {
        (app.auth.require_role)(&actor, policy.roles)?;
    }
    let emitted = mounted.emits.then(|| cx.watch());
    // Where strangers may call, others still see what is for them alone.
    let public = mounted.endpoint.is_public();
    let personal = public && (actor.id.is_some() || mounted.varies());
    let answer = match &mounted.gates {
        None => call(app, mounted, params, parts, body, cx, id).await,
        Some(gates) => {
            gates.guard(&cx)?;
            let cx = Box::pin(gates.known(parts, cx)).await?;
            let rest = call(app, mounted, params, parts, body, cx.clone(), id);
            let rest = Box::pin(async {
                let response = rest.await?;
                match cx.once() {
                    None => Ok(response),
                    Some(once) => once.reveal(response).await,
                }
            });
            gates.around(app, &mounted.endpoint, parts, &cx, rest).await
        }
    };
    if public && actor.has_invalid_credential() {
        return Ok(Box::pin(unrecognised(answer, emitted, body)).await);
    }
    let mut response = announce(answer?, emitted.and_then(|place| place.get().cloned()));
    if personal {
        response
            .headers_mut()
            .entry(CACHE_CONTROL)
            .or_insert(NO_STORE);
    }
    Ok(response)
}

/// The answer of a public route to a caller whose credential cannot be used: that of an anonymous
/// caller, which says so.
async fn unrecognised(
    answer: Result<Response<Body>>,
    emitted: Option<Arc<OnceLock<Uuid>>>,
    body: &mut Body,
) -> Response<Body> {
    let mut response = match answer {
        Ok(response) => announce(response, emitted.and_then(|place| place.get().cloned())),
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

/// Answers a request that roles, guards and middleware have let through.
async fn call(
    app: &Arc<App>,
    mounted: &Mounted,
    params: Params<'_>,
    parts: &Parts,
    body: &mut Body,
    mut cx: Cx,
    id: &RequestId,
) -> Result<Response<Body>> {
    if let Plan::Entity(on, _) = &mounted.plan
        && on.guarded
    {
        cx = within(on, params, cx)?;
        // Before the body is looked at: who may not call at all learns nothing about it.
        on.table.admit(&cx, &mounted.endpoint.name)?;
    }
    if let Some(permit) = mounted.permit() {
        cx = Box::pin(permit.enter(cx)).await?;
    }
    if let Plan::Entity(on, _) = &mounted.plan
        && !on.sources.is_empty()
    {
        cx = Box::pin(on.sources.admit(Asking {
            cx: &cx,
            parts,
            adapters: &app.adapters,
        }))
        .await?;
    }
    if let Some(auditing) = &mounted.audit {
        cx = cx.audited(auditing);
    }
    if let Plan::Plugged(plan) = &mounted.plan {
        return Box::pin(plugged(app, mounted, plan, params, parts, body, (cx, id))).await;
    }
    if let (Plan::Extra(router), None) = (&mounted.plan, &mounted.idempotency) {
        // It reads the body itself, as it comes.
        return Box::pin(extra(
            app,
            mounted,
            router,
            parts,
            std::mem::take(body),
            cx,
            id,
        ))
        .await;
    }
    // What most requests do not need is boxed, so that the future of a read by key stays small.
    let read = |body| {
        Box::pin(body::read(
            body,
            mounted.max_body,
            mounted.endpoint.policy.timeout,
            &app.room,
        ))
    };
    let body = if body.is_end_stream() {
        Bytes::new()
    } else {
        read(std::mem::take(body)).await?
    };
    let asked = Asked {
        app,
        mounted,
        params,
        parts,
        body,
        cx,
    };
    match &mounted.idempotency {
        None => perform(&asked, id).await,
        Some(gate) => Box::pin(gate.run(asked, id)).await,
    }
}

/// What a route does, once it is known who calls and what they sent.
pub(super) async fn perform(asked: &Asked<'_>, id: &RequestId) -> Result<Response<Body>> {
    let (on, plan) = match &asked.mounted.plan {
        Plan::Entity(on, plan) => (on, plan),
        Plan::Extra(router) => {
            let body = Body::from(asked.body.clone());
            return Box::pin(extra(
                asked.app,
                asked.mounted,
                router,
                asked.parts,
                body,
                asked.cx.clone(),
                id,
            ))
            .await;
        }
        // Answered before there is anything to repeat.
        Plan::Plugged(_) => {
            return Err(Error::internal(
                "a plugin's route was asked as one of an entity",
            ));
        }
    };
    let answered = match plan {
        EntityPlan::Get => asked.get(on).await,
        EntityPlan::List(list) => Box::pin(asked.list(on, list)).await,
        EntityPlan::Create(births) => Box::pin(asked.create(on, births)).await,
        EntityPlan::Update => Box::pin(asked.update(on)).await,
        EntityPlan::Delete => Box::pin(asked.delete(on)).await,
        EntityPlan::Operation(plan) => Box::pin(asked.operation(on, plan)).await,
    };
    answered.map_err(|error| told(on, error))
}

/// What is told of a unique that is taken: stores name all of its fields, and clients are not to
/// know of private ones.
fn told(on: &Target, error: Error) -> Error {
    let private = |problem: &&Problem| {
        problem.code == "unique"
            && on
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

/// Names the first event of a call in its answer.
pub(super) fn announce(mut response: Response<Body>, event: Option<Uuid>) -> Response<Body> {
    // A uuid is a header value always.
    if let Some(id) = event
        && let Ok(id) = HeaderValue::from_str(id.as_str())
    {
        response.headers_mut().insert("x-event-id", id);
    }
    response
}

/// The call below the parents that the path names.
///
/// # Errors
/// `not_found` when one can name no parent.
fn within(on: &Target, params: Params<'_>, mut cx: Cx) -> Result<Cx> {
    for (position, field) in &on.parents {
        let desc = on.table.desc;
        let text = params
            .get(*position)
            .and_then(path::decode)
            .ok_or_else(Error::not_found)?;
        let value = parse_scalar(&desc.fields[*field], &text).map_err(|_| Error::not_found())?;
        // One record has one path.
        if matches!(value, Value::Int(n) if itoa::Buffer::new().format(n) != text) {
            return Err(Error::not_found());
        }
        cx = cx.within_value(desc, *field, value);
    }
    Ok(cx)
}

/// Hands a request to a plugin's function: with its body read, or without looking at one.
async fn plugged(
    app: &App,
    mounted: &Mounted,
    plan: &PluggedPlan,
    params: Params<'_>,
    parts: &Parts,
    body: &mut Body,
    (cx, id): (Cx, &RequestId),
) -> Result<Response<Body>> {
    let takes = plan.takes_body() && !body.is_end_stream();
    let limit = mounted.endpoint.policy.timeout;
    let bytes = if takes {
        body::read(std::mem::take(body), mounted.max_body, limit, &app.room).await?
    } else {
        Bytes::new()
    };
    let from = cx.address();
    let answer = plan
        .run((cx, app.adapters.clone(), id), params, parts, from, &bytes)
        .await;
    if !body.is_end_stream() {
        body::drain(body).await;
    }
    answer
}

/// Hands a request to the user's function.
async fn extra(
    app: &App,
    mounted: &Mounted,
    router: &axum::Router,
    parts: &Parts,
    mut body: Body,
    cx: Cx,
    id: &RequestId,
) -> Result<Response<Body>> {
    let max = mounted.endpoint.policy.max_body;
    if body.size_hint().lower() > max {
        body::drain(&mut body).await;
        return Err(Error::too_large(Some(max)));
    }
    let mut parts = parts.clone();
    parts.extensions.insert(cx);
    parts.extensions.insert(app.adapters.clone());
    parts.extensions.insert(id.clone());
    let body = Body::new(Limited::new(
        body,
        usize::try_from(max).unwrap_or(usize::MAX),
    ));
    let Ok(response) = router.clone().call(Request::from_parts(parts, body)).await;
    Ok(response)
}
