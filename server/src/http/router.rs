//! The route table and the service of an app. All data of a route that does not depend on a request
//! is prepared here, at start-up.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, HttpBody};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use axum::response::IntoResponse;
use futures_util::FutureExt;
use tokio::sync::watch;
use tower_service::Service;

use super::auth::{ActorResolver, RouteAuth};
use super::body::BodyMemory;
use super::caller::{self, NamedRoutes, RouteCaller};
use super::checks::Registry;
use super::context::ContextProviders;
use super::cors::Cors;
use super::endpoint::{Action, Endpoint};
use super::idempotency::Claims;
use super::layers::{self, Layers};
use super::mounted::Mounted;
use super::path;
use super::path_guard::{PathGuard, PathGuards};
use super::rate::{RateStore, RatesInProcess};
use super::serve::{self, NO_STORE, Unrouted};
use crate::audit::AuditLog;
use crate::clock::Clock;
use crate::entity::EntityDesc;
use crate::lease::{self, Lease};
use crate::operation;
use crate::resource::{Adapters, BoxFuture};
use crate::{Actor, Code, Error, Result, Timestamp};

/// The default limit of all request bodies in memory together: 256 MiB.
pub(crate) const BODIES: u64 = 256 << 20;

/// The state that all routes of an app share.
#[derive(Clone)]
pub struct HttpState {
    /// Resolves the actor of a request; without one, every caller is anonymous.
    pub resolver: Option<Arc<dyn ActorResolver>>,
    /// The checks for `auth` and `roles`.
    pub auth: RouteAuth,
    /// The named middleware, guards and roles, and the permission evaluator.
    pub registry: Registry,
    /// The adapters of all entities.
    pub adapters: Adapters,
    /// The clock, which is read once per request.
    pub clock: Clock,
    /// Routes without a policy: those of plugins, `/health`, `/openapi.json`. They get the request
    /// id, the log, the timeout and the protection from panics. `RequestId`, [`Cx`](crate::Cx) and
    /// [`Adapters`] are in the extensions.
    pub extra: axum::Router,
    /// The paths in `extra`, so that their static segments have priority over parameters of
    /// entities (`/posts/export` over `/posts/{id}`). Other paths in `extra` are used only if no
    /// entity route matches.
    pub extra_paths: Vec<String>,
    /// Guards of routes in `extra`, by path.
    pub guards: Vec<PathGuard>,
    /// Origins whose pages may read responses: one list per plugin or app. None by default.
    pub cors: Vec<Cors>,
    /// Counts calls for `rate_limit`; in this process by default.
    pub rates: Arc<dyn RateStore>,
    /// The audit log; audited routes need it.
    pub audit: Option<AuditLog>,
    /// The limit of all request bodies in memory together, in bytes. Small bodies do not count.
    /// 256 MiB by default.
    pub bodies: u64,
    /// The calls with an idempotency key; idempotent routes need it.
    pub claims: Option<Arc<Claims>>,
    /// The paths in `extra` of the app itself: `/health`, `/openapi.json`. They need no context
    /// values.
    pub own: Vec<&'static str>,
    /// Providers of context values other than the actor.
    pub context: ContextProviders,
    /// Layers of plugins around every request.
    pub layers: Layers,
    /// The lease that lets this process serve; `None` if the process needs no lease.
    pub(crate) lease: Option<Lease>,
}

impl HttpState {
    /// The state for anonymous callers, the system clock and routes of entities only.
    pub fn new(adapters: Adapters) -> Self {
        Self {
            resolver: None,
            auth: RouteAuth::default(),
            registry: Registry::default(),
            adapters,
            clock: Arc::new(Timestamp::system_now),
            extra: axum::Router::new(),
            extra_paths: Vec::new(),
            guards: Vec::new(),
            cors: Vec::new(),
            rates: Arc::new(RatesInProcess::default()),
            audit: None,
            bodies: BODIES,
            claims: None,
            own: Vec::new(),
            context: ContextProviders::default(),
            layers: Layers::default(),
            lease: None,
        }
    }
}

impl fmt::Debug for HttpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpState")
            .field("auth", &self.auth)
            .field("registry", &self.registry)
            .field("adapters", &self.adapters)
            .field("resolver", &self.resolver.is_some())
            .field("extra_paths", &self.extra_paths)
            .field("cors", &self.cors)
            .finish_non_exhaustive()
    }
}

/// The router of an application: [`service`] as the fallback of an otherwise empty axum router,
/// ready to be served, nested or layered.
///
/// # Errors
/// As [`service`].
pub fn router(endpoints: Vec<Endpoint>, state: HttpState) -> Result<axum::Router> {
    Ok(axum::Router::new().fallback_service(service(endpoints, state)?))
}

/// The service of an application.
///
/// # Errors
/// If two endpoints have the same method and path, if a path is malformed, or if a name in a policy
/// is unknown.
#[allow(clippy::needless_pass_by_value)] // callers build the list only for this call
pub fn service(endpoints: Vec<Endpoint>, mut state: HttpState) -> Result<HttpService> {
    let layers = std::mem::take(&mut state.layers);
    let app = App::new(&endpoints, state)?;
    Ok(HttpService {
        app: Arc::new_cyclic(|this| App {
            layers: layers.around(this.clone()),
            ..app
        }),
        from: None,
    })
}

/// The service that responds to every request of an application; cheap to clone.
#[derive(Clone)]
pub struct HttpService {
    app: Arc<App>,
    /// The client address of the connection that this clone serves.
    from: Option<IpAddr>,
}

impl HttpService {
    /// The same service for a connection from this address, for rate limits.
    #[must_use]
    pub fn from_address(&self, address: IpAddr) -> Self {
        // IPv4 addresses in IPv6 form are converted, so that a client always has the same address.
        Self {
            app: Arc::clone(&self.app),
            from: Some(address.to_canonical()),
        }
    }

    /// Gives a [`RouteCaller`] access to the routes.
    pub(crate) fn reachable_by(&self, caller: &RouteCaller) {
        caller.set_app(&self.app);
    }

    /// From now on, requests are refused with 503, except that for the liveness check.
    pub(crate) fn refuse_requests(&self) {
        self.app.stops.store(true, Ordering::Relaxed);
    }

    /// Waits for tasks that still run after the connections of their requests have ended.
    pub(crate) async fn idle(&self) {
        self.app.work.closed().await;
    }
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService").finish_non_exhaustive()
    }
}

impl<B> Service<Request<B>> for HttpService
where
    B: HttpBody<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response<Body>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<'static, std::result::Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let app = Arc::clone(&self.app);
        // Most requests have no body. `Body::empty` needs no allocation.
        let request = request.map(|body| {
            if body.is_end_stream() {
                Body::empty()
            } else {
                Body::new(body)
            }
        });
        match &self.app.layers {
            None => Box::pin(serve::serve(app, request, self.from).map(Ok)),
            Some(layers) => {
                Box::pin(layers::serve(app, layers.clone(), request, self.from).map(Ok))
            }
        }
    }
}

/// The state of the service.
pub(super) struct App {
    paths: matchit::Router<usize>,
    shapes: Vec<Shape>,
    /// Routes of plugins; `None` if there are none.
    pub(super) extra: Option<axum::Router>,
    /// Guards of those routes.
    pub(super) guards: Option<PathGuards>,
    pub(super) resolver: Option<Arc<dyn ActorResolver>>,
    pub(super) auth: RouteAuth,
    pub(super) adapters: Adapters,
    pub(super) clock: Clock,
    pub(super) anonymous: Arc<Actor>,
    pub(super) cors: Vec<Cors>,
    /// The remaining memory for bodies.
    pub(super) body_memory: BodyMemory,
    /// Layers of plugins around every request.
    layers: Option<axum::Router>,
    /// Paths of the app itself, which need no context values.
    pub(super) own: Vec<&'static str>,
    /// Providers of context values; `None` if there are none.
    pub(super) context: Option<Arc<ContextProviders>>,
    /// Each task that may outlive its connection holds a receiver. `HttpService::idle` waits until
    /// all receivers are dropped.
    pub(super) work: watch::Sender<()>,
    /// Whether the app stops, so that requests are refused.
    pub(super) stops: AtomicBool,
    /// The routes of entities by name, for calls within the process.
    named: OnceLock<NamedRoutes>,
    lease: Option<Lease>,
}

/// A path with its routes, one for each method.
#[derive(Default)]
struct Shape {
    params: Slots,
    methods: [Option<Box<Mounted>>; METHODS.len()],
    /// The response to other methods; `None` if the path has no endpoint.
    refusal: Option<Refusal>,
}

/// The headers of a response to a method that a path does not have.
#[derive(Clone)]
pub(super) struct Refusal {
    pub(super) allow: HeaderValue,
    /// Headers that plugin routes of the path add to each response.
    pub(super) headers: HeaderMap,
}

const METHODS: [operation::Method; 5] = [
    operation::Method::Get,
    operation::Method::Post,
    operation::Method::Put,
    operation::Method::Patch,
    operation::Method::Delete,
];

fn method_index(method: &Method) -> Option<usize> {
    Some(match *method {
        Method::GET | Method::HEAD => 0,
        Method::POST => 1,
        Method::PUT => 2,
        Method::PATCH => 3,
        Method::DELETE => 4,
        _ => return None,
    })
}

/// The path parameters of a request, not decoded.
#[derive(Clone, Copy)]
pub(super) struct Params<'p> {
    path: &'p str,
    slots: &'p Slots,
}

/// The positions of the parameters in a path. The text before the first one is static, so its
/// offset is known.
#[derive(Default)]
struct Slots {
    /// The offset of the first parameter, in bytes.
    start: usize,
    /// The segment of each parameter, counted from the segment of the first parameter.
    segments: Box<[usize]>,
    /// Whether the last parameter is at the end of the path.
    ends: bool,
}

impl Slots {
    fn of(canonical: &str) -> Self {
        let is_param = |segment: &str| segment.starts_with("{p") || segment.starts_with("{*p");
        let segments: Vec<&str> = canonical.split('/').collect();
        let Some(first) = segments.iter().position(|s| is_param(s)) else {
            return Self::default();
        };
        Self {
            start: segments[..first].iter().map(|s| s.len() + 1).sum(),
            segments: (first..segments.len())
                .filter(|i| is_param(segments[*i]))
                .map(|i| i - first)
                .collect(),
            ends: segments.last().is_some_and(|s| is_param(s)),
        }
    }
}

impl<'p> Params<'p> {
    /// The parameter at a position, not yet decoded.
    pub(super) fn get(&self, position: usize) -> Option<&'p str> {
        let from_first = self.path.get(self.slots.start..)?;
        match *self.slots.segments.get(position)? {
            0 if self.slots.ends && self.len() == 1 => Some(from_first),
            segment => from_first.split('/').nth(segment),
        }
    }

    /// The number of parameters.
    pub(super) fn len(&self) -> usize {
        self.slots.segments.len()
    }
}

/// The result of a look-up in the route table.
pub(super) enum Found<'r, 'p> {
    /// An endpoint, with its path parameters.
    Endpoint(&'r Mounted, Params<'p>),
    /// An endpoint has the path, but not the method.
    Other(&'r Refusal),
    /// No endpoint has the path; a router of a plugin may have it.
    Nowhere,
}

impl App {
    fn new(endpoints: &[Endpoint], state: HttpState) -> Result<Self> {
        let mut paths = matchit::Router::new();
        let mut shapes: Vec<Shape> = Vec::new();
        let mut positions = std::collections::BTreeMap::new();
        let context = Some(state.context.clone())
            .filter(|context| !context.is_empty())
            .map(Arc::new);
        if let Some(log) = &state.audit {
            for table in state.adapters.tables() {
                table.audited_by(log);
            }
        }
        for endpoint in endpoints {
            let (canonical, names) = path::canonical(&endpoint.path);
            let mounted = Mounted::new(endpoint, &names, endpoints, &state, context.as_ref())?;
            let at = shape_at(&canonical, &mut positions, &mut paths, &mut shapes)?;
            let method = METHODS
                .iter()
                .position(|m| *m == endpoint.method)
                .unwrap_or_default();
            if let Some(first) = &shapes[at].methods[method] {
                return Err(Error::internal(format!(
                    "duplicate route {} {}: {} ({}) and {} ({})",
                    endpoint.method.as_str(),
                    endpoint.path,
                    first.endpoint.name,
                    first.endpoint.at,
                    endpoint.name,
                    endpoint.at,
                )));
            }
            shapes[at].methods[method] = Some(Box::new(mounted));
        }
        for shape in &mut shapes {
            shape.refusal = Some(Refusal {
                allow: allow(&shape.methods),
                headers: headers(&shape.methods),
            });
        }
        for path in &state.extra_paths {
            shape_at(
                &path::canonical(path).0,
                &mut positions,
                &mut paths,
                &mut shapes,
            )?;
        }
        let guards = PathGuards::new(&state.guards, &state.auth)
            .map_err(|missing| Error::internal(missing.join("\n")))?;
        let extra = state.extra.has_routes().then(|| {
            state
                .extra
                .fallback(|| async {
                    let mut response = Error::not_found().into_response();
                    response.extensions_mut().insert(Unrouted);
                    response
                })
                .method_not_allowed_fallback(|| async { method_not_allowed().into_response() })
        });
        Ok(Self {
            paths,
            shapes,
            extra,
            guards,
            resolver: state.resolver,
            auth: state.auth,
            adapters: state.adapters,
            clock: state.clock,
            anonymous: Arc::new(Actor::anonymous()),
            cors: state.cors,
            body_memory: BodyMemory::new(state.bodies),
            layers: None,
            own: state.own,
            context,
            work: watch::Sender::new(()),
            stops: AtomicBool::new(false),
            named: OnceLock::new(),
            lease: state.lease,
        })
    }

    /// Finds a route of an entity by the name of the route.
    pub(super) fn named(&self, entity: &EntityDesc, route: &str) -> Option<&Mounted> {
        let named = self.named.get_or_init(|| {
            let mut named = NamedRoutes::new();
            for (at, shape) in self.shapes.iter().enumerate() {
                for (method, mounted) in shape.methods.iter().enumerate() {
                    if let Some(mounted) = mounted {
                        caller::add_route(&mounted.endpoint, (at, method), &mut named);
                    }
                }
            }
            named
        });
        let (at, method) = *named.get(entity.storage_name)?.get(route)?;
        self.shapes[at].methods[method].as_deref()
    }

    /// Refuses a request that began at `now` if this process may not serve any more.
    ///
    /// # Errors
    /// `unavailable`.
    #[inline]
    pub(super) fn check_may_serve(&self, now: Instant) -> Result<()> {
        match &self.lease {
            Some(lease) if !lease.holds(now) => Err(lease::ended()),
            _ => Ok(()),
        }
    }

    pub(super) fn find<'r: 'p, 'p>(&'r self, method: &Method, path: &'p str) -> Found<'r, 'p> {
        let Ok(found) = self.paths.at(path) else {
            return Found::Nowhere;
        };
        let shape = &self.shapes[*found.value];
        let params = Params {
            path,
            slots: &shape.params,
        };
        // The router accepts an empty parameter in the middle of a path; the framework does not.
        if (0..params.len()).any(|n| params.get(n).is_none_or(str::is_empty)) {
            return Found::Nowhere;
        }
        if let Some(Some(mounted)) = method_index(method).map(|s| &shape.methods[s]) {
            return Found::Endpoint(mounted, params);
        }
        shape.refusal.as_ref().map_or(Found::Nowhere, Found::Other)
    }
}

/// The position of a path in `shapes`. A new path is added to both tables.
fn shape_at(
    canonical: &str,
    positions: &mut std::collections::BTreeMap<String, usize>,
    paths: &mut matchit::Router<usize>,
    shapes: &mut Vec<Shape>,
) -> Result<usize> {
    if let Some(at) = positions.get(canonical) {
        return Ok(*at);
    }
    let at = shapes.len();
    paths
        .insert(canonical, at)
        .map_err(|e| Error::internal(format!("route {canonical}: {e}")))?;
    shapes.push(Shape {
        params: Slots::of(canonical),
        ..Shape::default()
    });
    positions.insert(canonical.to_owned(), at);
    Ok(at)
}

fn allow(methods: &[Option<Box<Mounted>>; METHODS.len()]) -> HeaderValue {
    let mut text = String::new();
    for (method, mounted) in METHODS.iter().zip(methods) {
        if mounted.is_some() {
            text.push_str(method.as_str());
            text.push_str(if *method == operation::Method::Get {
                ", HEAD, "
            } else {
                ", "
            });
        }
    }
    text.push_str("OPTIONS");
    // Method names and commas are always a valid header value.
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("OPTIONS"))
}

/// The headers that plugin routes of a path add to each response. A refusal must not be cached.
fn headers(methods: &[Option<Box<Mounted>>; METHODS.len()]) -> HeaderMap {
    let mut out = HeaderMap::new();
    for mounted in methods.iter().flatten() {
        let Action::Plugin(desc) = mounted.endpoint.action else {
            continue;
        };
        for (name, value) in desc.headers {
            let name = HeaderName::from_static(name);
            let value = if name == CACHE_CONTROL {
                NO_STORE
            } else {
                HeaderValue::from_static(value)
            };
            out.entry(name).or_insert(value);
        }
    }
    out
}

pub(super) fn method_not_allowed() -> Error {
    Error::new(Code::MethodNotAllowed, "The path has no such method")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_by_position() {
        for (shape, path, expected) in [
            ("/posts/{p0}", "/posts/a%2Fb", &["a%2Fb"][..]),
            ("/posts/{p0}", "/posts/", &[""]),
            ("/posts/{p0}/publish", "/posts/x/publish", &["x"]),
            ("/a/{p0}/b/{p1}", "/a/1/b/2", &["1", "2"]),
            ("/{p0}/{p1}/c", "/1//c", &["1", ""]),
            ("/{p0}", "/x", &["x"]),
            ("/posts", "/posts", &[]),
        ] {
            let slots = Slots::of(shape);
            let params = Params {
                path,
                slots: &slots,
            };
            let found: Vec<_> = (0..params.len()).filter_map(|n| params.get(n)).collect();
            assert_eq!(found, expected, "{shape}");
        }
    }
}
