//! The one layer around every request: request id, log, timeout, panics, CORS, 404, 405, `HEAD` and
//! `OPTIONS`.
//!
//! It is one function and not a stack of layers, because each layer would box a future and read the
//! headers again.

use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use axum::body::{Body, HttpBody};
use axum::http::header::{ALLOW, CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use axum::middleware::{Next, from_fn};
use tower_service::Service;

use super::body;
use super::caller;
use super::cors::{self, Grant};
use super::dispatch;
use super::endpoint::{Action, Endpoint, Policy};
use super::mounted::Mounted;
use super::path;
use super::protection::protected;
use super::request;
use super::request_id::{self, RequestId};
use super::response;
use super::router::{App, Found, Refusal, method_not_allowed};
use crate::{Code, Cx, Error, Result};

pub(super) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
const TRUE: HeaderValue = HeaderValue::from_static("true");
const ANY_METHOD: HeaderValue =
    HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
/// The path of the liveness check, which also succeeds while the app stops.
pub(crate) const LIVE: &str = "/health/live";
/// The maximum length of a query string, in bytes.
const MAX_QUERY: usize = 8192;

/// Marks the response of the plugins' router to a path that it does not have.
#[derive(Clone)]
pub(super) struct Unrouted;

/// Marks a request to a plugin's router that has no context because of an error. The [`Cx`]
/// extractor returns this error.
#[derive(Clone)]
pub(super) struct Denied {
    pub(super) error: Arc<Error>,
    /// Whether a provider of context values has refused the request. Then no handler runs.
    by_provider: bool,
}

/// Runs the context providers before these routes: if a provider refuses a request, no handler
/// runs, whether or not it uses a [`Cx`]. This includes fallbacks of inner routers. A path without
/// a handler is still 404.
pub(crate) fn after_providers(routes: axum::Router) -> axum::Router {
    routes.layer(from_fn(|request: Request<Body>, next: Next| async move {
        match request.extensions().get::<Denied>() {
            Some(Denied {
                error,
                by_provider: true,
            }) => Err(super::extract::copy(error)),
            _ => Ok(next.run(request).await),
        }
    }))
}

/// Responds to a request.
///
/// The future is boxed once per request, so it is kept small: inner futures borrow, and rare paths
/// are boxed separately.
pub(super) fn serve(
    app: Arc<App>,
    request: Request<Body>,
    from: Option<IpAddr>,
) -> impl Future<Output = Response<Body>> + Send {
    let started = Instant::now();
    let (mut parts, mut body) = request.into_parts();
    if let Some(path) = path::normalized(parts.uri.path()) {
        parts.uri = path::with_path(&parts.uri, &path);
    }
    let id = RequestId::of(&parts.headers);
    async move {
        if parts.uri.query().is_some_and(|q| q.len() > MAX_QUERY) {
            let error = Error::new(Code::UriTooLong, "The query string is longer than 8 KiB");
            return finish(
                Err(error),
                &Exchange {
                    mounted: None,
                    method: &parts.method,
                    id: &id,
                    started,
                },
                grant(&app, &parts),
            );
        }
        if app.stops.load(Ordering::Relaxed) && parts.uri.path() != LIVE {
            let error = Error::unavailable("the app is stopping");
            return finish(
                Err(error),
                &Exchange {
                    mounted: None,
                    method: &parts.method,
                    id: &id,
                    started,
                },
                grant(&app, &parts),
            );
        }
        let refusal = match app.find(&parts.method, parts.uri.path()) {
            Found::Endpoint(mounted, params) => {
                let request = request::Request {
                    app: &app,
                    mounted,
                    params,
                    parts: &parts,
                    id: &id,
                    from,
                    in_process: None,
                };
                let answer = match app.check_may_serve(started) {
                    Err(ended) => Err(ended),
                    Ok(()) => {
                        let work = pin!(dispatch::run(&request, &mut body));
                        protected(mounted.endpoint.policy.timeout, work)
                            .await
                            .and_then(|done| done)
                    }
                };
                if answer.is_err() && !body.is_end_stream() {
                    Box::pin(body::drain(&mut body)).await;
                }
                let exchange = Exchange {
                    mounted: Some(mounted),
                    method: &parts.method,
                    id: &id,
                    started,
                };
                return finish(answer, &exchange, grant(&app, &parts));
            }
            Found::Other(refusal) => Some(refusal),
            Found::Nowhere => None,
        };
        let (method, grant) = (parts.method.clone(), grant(&app, &parts));
        let is_server_options = method == Method::OPTIONS && parts.uri.path() == "*";
        let request = Unmatched {
            app: &app,
            parts,
            body,
            id: &id,
            from,
        };
        let answer = match refusal {
            Some(refusal) => Box::pin(other_method(refusal, request)).await,
            // `OPTIONS *` is about the server, not about a route.
            None if is_server_options => Ok(response::allow(
                response::empty(StatusCode::NO_CONTENT),
                &ANY_METHOD,
            )),
            None => Box::pin(call_plugin_routers(request)).await,
        };
        finish(
            answer,
            &Exchange {
                mounted: None,
                method: &method,
                id: &id,
                started,
            },
            grant,
        )
    }
}

/// Responds to a call from within the process. Its route is known; if the path leads to another
/// route, the response is 404.
pub(super) async fn in_process(
    app: &Arc<App>,
    endpoint: &Endpoint,
    (parts, mut body): (Parts, Body),
    id: &RequestId,
    (from, called): (Option<IpAddr>, request::InProcess<'_>),
) -> Response<Body> {
    let started = Instant::now();
    let Some((mounted, params)) = caller::find_same_route(app, endpoint, &parts) else {
        return response::error(&Error::not_found(), id.as_str());
    };
    let request = request::Request {
        app,
        mounted,
        params,
        parts: &parts,
        id,
        from,
        in_process: Some(called),
    };
    let work = pin!(dispatch::run(&request, &mut body));
    let answer = protected(mounted.endpoint.policy.timeout, work)
        .await
        .and_then(|done| done);
    let exchange = Exchange {
        mounted: Some(mounted),
        method: &parts.method,
        id,
        started,
    };
    finish(answer, &exchange, None)
}

/// A request whose path and method belong to no endpoint. A router of a plugin may have them.
struct Unmatched<'a> {
    app: &'a App,
    parts: Parts,
    body: Body,
    id: &'a RequestId,
    from: Option<IpAddr>,
}

/// Responds to a request whose path has endpoints, but not for its method. A router of a plugin may
/// have that method.
async fn other_method(refusal: &Refusal, request: Unmatched<'_>) -> Result<Response<Body>> {
    let (options, id) = (request.parts.method == Method::OPTIONS, request.id);
    let mut allow = refusal.allow.clone();
    if request.app.extra.is_some() {
        let answer = call_plugin_routers(request).await?;
        if answer.extensions().get::<Unrouted>().is_none() {
            if !matches!(
                answer.status(),
                StatusCode::METHOD_NOT_ALLOWED | StatusCode::NO_CONTENT
            ) {
                return Ok(answer);
            }
            if let Some(theirs) = answer.headers().get(ALLOW) {
                allow = merge_allow(&allow, Some(theirs));
            }
        }
    }
    let answer = if options {
        response::empty(StatusCode::NO_CONTENT)
    } else {
        response::error(&method_not_allowed(), id.as_str())
    };
    let mut answer = response::allow(answer, &allow);
    answer.headers_mut().extend(refusal.headers.clone());
    Ok(answer)
}

/// Calls the routers of plugins, or responds 404.
async fn call_plugin_routers(request: Unmatched<'_>) -> Result<Response<Body>> {
    let Unmatched {
        app,
        parts,
        body,
        id,
        from,
    } = request;
    let Some(extra) = &app.extra else {
        return Err(Error::not_found());
    };
    if !is_app_route(app, &parts) {
        app.check_may_serve(Instant::now())?;
    }
    let options = parts.method == Method::OPTIONS;
    let work = async {
        let mut request = Request::from_parts(parts, body);
        request.extensions_mut().insert(id.clone());
        request.extensions_mut().insert(app.adapters.clone());
        let (mut parts, body) = request.into_parts();
        let guards = app
            .guards
            .as_ref()
            .filter(|guards| guards.apply_to(parts.uri.path()));
        // The health check must not wait for a provider.
        let providers = app.context.as_ref().filter(|_| !is_app_route(app, &parts));
        let mut invalid = false;
        match dispatch::actor(app, &parts, id, from).await {
            Ok(actor) => {
                invalid = actor.has_invalid_credential();
                let cx = Cx::new(actor, (app.clock)(), id.shared()).called_from(from);
                if let Some(guards) = guards {
                    guards.admit(&cx, Some(parts.uri.path()))?;
                }
                let with_values = match providers {
                    Some(providers) => providers.with_provided_values(&parts, cx).await,
                    None => Ok(cx),
                };
                match with_values {
                    Ok(cx) => drop(parts.extensions.insert(cx)),
                    Err(error) => drop(parts.extensions.insert(Denied {
                        error: Arc::new(error),
                        by_provider: true,
                    })),
                }
            }
            Err(error) if guards.is_some() => return Err(error),
            // A handler that extracts the caller gets this error; a public handler does not. A
            // provider may refuse the request as well.
            Err(error) => {
                let anonymous_cx = Cx::new(Arc::clone(&app.anonymous), (app.clock)(), id.shared())
                    .called_from(from);
                let by_provider = match providers {
                    Some(providers) => providers
                        .with_provided_values(&parts, anonymous_cx)
                        .await
                        .is_err(),
                    None => false,
                };
                parts.extensions.insert(Denied {
                    error: Arc::new(error),
                    by_provider,
                });
            }
        }
        let Ok(mut answer) = extra.clone().call(Request::from_parts(parts, body)).await;
        if invalid {
            response::invalid_credential(&mut answer);
        }
        if guards.is_some() && !answer.headers().contains_key(CACHE_CONTROL) {
            answer.headers_mut().insert(CACHE_CONTROL, NO_STORE);
        }
        Ok(answer)
    };
    let answer = match protected(Policy::DEFAULT.timeout, pin!(work)).await? {
        // A CORS preflight has no credential. The response does not come from the router, because a
        // handler may accept every method.
        Err(_) if options => {
            response::allow(response::empty(StatusCode::METHOD_NOT_ALLOWED), &ANY_METHOD)
        }
        answer => answer?,
    };
    if answer.status() != StatusCode::METHOD_NOT_ALLOWED {
        return Ok(answer);
    }
    let allow = merge_allow(
        &HeaderValue::from_static("OPTIONS"),
        answer.headers().get(ALLOW),
    );
    if options {
        return Ok(response::allow(
            response::empty(StatusCode::NO_CONTENT),
            &allow,
        ));
    }
    Ok(response::allow(answer, &allow))
}

/// Whether a request is for a handler of the app itself, which needs no caller. Plugins may have
/// other public handlers.
fn is_app_route(app: &App, parts: &Parts) -> bool {
    matches!(parts.method, Method::GET | Method::HEAD) && app.own.contains(&parts.uri.path())
}

/// The methods of both lists, in a fixed order.
fn merge_allow(ours: &HeaderValue, theirs: Option<&HeaderValue>) -> HeaderValue {
    let texts = [Some(ours), theirs];
    let has = |method: &str| {
        texts
            .iter()
            .flatten()
            .filter_map(|v| v.to_str().ok())
            .flat_map(|t| t.split(','))
            .any(|m| m.trim() == method)
    };
    let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    let text = methods
        .into_iter()
        .filter(|m| has(m))
        .collect::<Vec<_>>()
        .join(", ");
    HeaderValue::try_from(text).unwrap_or_else(|_| ours.clone())
}

/// The CORS permissions for the response, if CORS is configured.
fn grant(app: &App, parts: &Parts) -> Option<Grant> {
    cors::grant(&app.cors, &parts.method, &parts.headers)
}

/// The facts of a request that its response and its log entry need.
#[derive(Clone, Copy)]
struct Exchange<'a> {
    /// `None` if no endpoint of the route table responds.
    mounted: Option<&'a Mounted>,
    method: &'a Method,
    id: &'a RequestId,
    started: Instant,
}

/// Converts the result into the response, and logs it.
fn finish(
    answer: Result<Response<Body>>,
    exchange: &Exchange<'_>,
    grant: Option<Grant>,
) -> Response<Body> {
    let Exchange {
        mounted,
        method,
        id,
        ..
    } = *exchange;
    let mut raised = None;
    let mut response = match answer {
        Ok(mut response) => {
            if !response.extensions().is_empty() {
                (response, raised) = response::raised(response, id);
            }
            response
        }
        Err(error) => {
            let response = response::error(&error, id.as_str());
            raised = Some(Arc::new(error));
            response
        }
    };
    if *method == Method::HEAD {
        response = response::without_body(response);
    }
    let headers = response.headers_mut();
    headers.insert(request_id::HEADER, id.header());
    headers.insert(X_CONTENT_TYPE_OPTIONS, response::NOSNIFF);
    // An error response may depend on the caller, so it must not be cached.
    if mounted.is_some_and(|m| raised.is_some() || !m.endpoint.is_public())
        && !headers.contains_key(CACHE_CONTROL)
    {
        headers.insert(CACHE_CONTROL, NO_STORE);
    }
    if mounted.is_some_and(|m| m.endpoint.policy.deprecated) {
        headers.insert(DEPRECATION, TRUE);
    }
    if let Some(Action::Plugin(desc)) = mounted.map(|m| m.endpoint.action) {
        for (name, value) in desc.headers {
            let name = HeaderName::from_static(name);
            if !headers.contains_key(&name) {
                headers.insert(name, HeaderValue::from_static(value));
            }
        }
    }
    if let Some(grant) = grant {
        grant.apply(response.status(), response.headers_mut());
    }
    log(response.status(), raised.as_deref(), exchange);
    response
}

/// Writes one log event per request. It contains the route's template and never the path, because
/// parameters may be sensitive.
fn log(status: StatusCode, error: Option<&Error>, exchange: &Exchange<'_>) {
    let Exchange {
        mounted,
        method,
        id,
        started,
    } = *exchange;
    let route = mounted.map_or("", |m| &m.endpoint.path);
    macro_rules! event {
        ($level:ident, $text:literal $(, $name:ident = $value:expr)*) => {
            tracing::$level!(
                request_id = id.as_str(),
                method = method.as_str(),
                route,
                status = status.as_u16(),
                code = error.map(|e| e.code().as_str()),
                duration_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
                $($name = $value,)*
                $text
            )
        };
    }
    if error.is_some_and(body::is_late) {
        event!(
            warn,
            "request refused",
            cause = "its body did not arrive in time"
        );
    } else if status.is_server_error() {
        let cause = error.map(causes).unwrap_or_default();
        event!(error, "request failed", cause = cause.as_str());
    } else if status.is_client_error() {
        event!(info, "request refused");
    } else {
        event!(debug, "request served");
    }
}

pub(super) fn causes(error: &Error) -> String {
    linchpin_core::causes(error).fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
