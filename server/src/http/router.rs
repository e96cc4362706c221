//! From endpoints to a service: the route table, and everything about a route that can be known
//! before its first request.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use axum::response::IntoResponse;
use futures_util::FutureExt;
use tokio::sync::watch;
use tower_service::Service;

use super::auth::{ActorResolver, RouteAuth};
use super::body::Room;
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
use crate::operation;
use crate::resource::{Adapters, BoxFuture};
use crate::{Actor, Code, Error, Result, Timestamp};

/// The application clock: where `now` of a call comes from.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What bodies of requests under way may hold together, in bytes, where nothing else is configured.
pub(crate) const BODIES: u64 = 256 << 20;

/// What all routes of an application share.
#[derive(Clone)]
pub struct HttpState {
    /// Finds the actor of a request; without one, everybody is anonymous.
    pub resolver: Option<Arc<dyn ActorResolver>>,
    /// What `auth` and `roles` mean.
    pub auth: RouteAuth,
    /// What the names of middleware and permissions mean.
    pub registry: Registry,
    /// Every adapter.
    pub adapters: Adapters,
    /// Read once per request.
    pub clock: Clock,
    /// Routes with no policy of ours: those of plugins, `/health`, `/openapi.json`. They get the
    /// request id, the log, the timeout and the protection from panics, and find `RequestId`,
    /// [`Cx`](crate::Cx) and [`Adapters`] in the extensions.
    pub extra: axum::Router,
    /// The paths in `extra`, so that static segments there win over parameters of entities
    /// (`/posts/export` over `/posts/{id}`). A path left out is reached only when no entity's route
    /// matches.
    pub extra_paths: Vec<String>,
    /// What stands before routes in `extra`, by their paths.
    pub guards: Vec<PathGuard>,
    /// Origins whose pages may read answers, in lists of whoever names them; none by default.
    pub cors: Vec<Cors>,
    /// Where calls are counted for `rate_limit`; in this process by default.
    pub rates: Arc<dyn RateStore>,
    /// Where changes are told; needed by routes that are audited.
    pub audit: Option<AuditLog>,
    /// What the bodies of all requests under way may hold together, in bytes; small ones do not
    /// count. 256 MiB by default.
    pub bodies: u64,
    /// Where calls under an idempotency key are known; needed by routes that are idempotent.
    pub claims: Option<Arc<Claims>>,
    /// The paths in `extra` that are the app's own: its health, its document. Whoever reads them is
    /// not asked for values of the context.
    pub own: Vec<&'static str>,
    /// Who provides values of the context beside the actor.
    pub context: ContextProviders,
    /// What stands around every request, outside of all else.
    pub layers: Layers,
}

impl HttpState {
    /// Anonymous callers only, the system clock, nothing but entities.
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
/// When two endpoints have one method and path, a path is malformed, or a name in a policy means
/// nothing.
#[allow(clippy::needless_pass_by_value)] // the list has served its purpose here, and callers build it for this
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

/// Answers every request of an application; cheap to clone.
#[derive(Clone)]
pub struct HttpService {
    app: Arc<App>,
    /// The other end of the connection that this clone serves.
    from: Option<IpAddr>,
}

impl HttpService {
    /// The same service for one connection, whose other end is known: what limits by address
    /// counts.
    #[must_use]
    pub fn from_address(&self, address: IpAddr) -> Self {
        // One client has one address, whichever way the socket spells it.
        Self {
            app: Arc::clone(&self.app),
            from: Some(address.to_canonical()),
        }
    }

    /// Returns once nothing is going on for requests whose connections have ended.
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
        // Most requests have no body, and an empty one costs nothing.
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

/// What the service is made of.
pub(super) struct App {
    paths: matchit::Router<usize>,
    shapes: Vec<Shape>,
    /// `None` when there are no such routes, so that a miss is answered at once.
    pub(super) extra: Option<axum::Router>,
    /// What stands before them.
    pub(super) guards: Option<PathGuards>,
    pub(super) resolver: Option<Arc<dyn ActorResolver>>,
    pub(super) auth: RouteAuth,
    pub(super) adapters: Adapters,
    pub(super) clock: Clock,
    pub(super) anonymous: Arc<Actor>,
    pub(super) cors: Vec<Cors>,
    /// What is left for bodies.
    pub(super) room: Room,
    /// What plugins have put around all of it.
    layers: Option<axum::Router>,
    /// The paths of the app itself.
    pub(super) own: Vec<&'static str>,
    /// Who provides values of the context; `None` when nobody does.
    pub(super) context: Option<Arc<ContextProviders>>,
    /// What goes on without a connection holds a receiver.
    pub(super) work: watch::Sender<()>,
}

/// A path with its methods.
#[derive(Default)]
struct Shape {
    params: Slots,
    methods: [Option<Box<Mounted>>; METHODS.len()],
    /// What refuses other methods; `None` where there are none of ours.
    refusal: Option<Refusal>,
}

/// What the answer to a method says that a path does not have.
#[derive(Clone)]
pub(super) struct Refusal {
    pub(super) allow: HeaderValue,
    /// What routes of plugins say with each answer.
    pub(super) headers: HeaderMap,
}

const METHODS: [operation::Method; 5] = [
    operation::Method::Get,
    operation::Method::Post,
    operation::Method::Put,
    operation::Method::Patch,
    operation::Method::Delete,
];

fn slot(method: &Method) -> Option<usize> {
    Some(match *method {
        Method::GET | Method::HEAD => 0,
        Method::POST => 1,
        Method::PUT => 2,
        Method::PATCH => 3,
        Method::DELETE => 4,
        _ => return None,
    })
}

/// The path parameters of a request, as they stand in the path.
#[derive(Clone, Copy)]
pub(super) struct Params<'p> {
    path: &'p str,
    slots: &'p Slots,
}

/// Where the parameters of a shape stand. All before the first is static, so the first is found
/// without looking.
#[derive(Default)]
struct Slots {
    /// Where the first begins, in bytes.
    start: usize,
    /// The segments that hold them, counted from that of the first.
    segments: Box<[usize]>,
    /// Whether the last ends the path.
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

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.slots.segments.len()
    }
}

/// Where a request goes.
pub(super) enum Found<'r, 'p> {
    /// To an endpoint, with its path parameters.
    Endpoint(&'r Mounted, Params<'p>),
    /// The path has other methods.
    Other(&'r Refusal),
    /// Nowhere we know; perhaps to a plugin.
    Nowhere,
}

impl App {
    fn new(endpoints: &[Endpoint], state: HttpState) -> Result<Self> {
        let mut paths = matchit::Router::new();
        let mut shapes: Vec<Shape> = Vec::new();
        let mut known = std::collections::BTreeMap::new();
        let context = Some(state.context.clone())
            .filter(|context| !context.is_empty())
            .map(Arc::new);
        for endpoint in endpoints {
            let (canonical, names) = path::canonical(&endpoint.path);
            let mounted = Mounted::new(endpoint, &names, endpoints, &state, context.as_ref())?;
            let at = shape_at(&canonical, &mut known, &mut paths, &mut shapes)?;
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
                &mut known,
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
            room: Room::new(state.bodies),
            layers: None,
            own: state.own,
            context,
            work: watch::Sender::new(()),
        })
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
        // The router lets a parameter in the middle of a path be empty; the contract does not.
        if (0..params.len()).any(|n| params.get(n).is_none_or(str::is_empty)) {
            return Found::Nowhere;
        }
        if let Some(Some(mounted)) = slot(method).map(|s| &shape.methods[s]) {
            return Found::Endpoint(mounted, params);
        }
        shape.refusal.as_ref().map_or(Found::Nowhere, Found::Other)
    }
}

fn shape_at(
    canonical: &str,
    known: &mut std::collections::BTreeMap<String, usize>,
    paths: &mut matchit::Router<usize>,
    shapes: &mut Vec<Shape>,
) -> Result<usize> {
    if let Some(at) = known.get(canonical) {
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
    known.insert(canonical.to_owned(), at);
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
    // Method names and commas are a header value always.
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("OPTIONS"))
}

/// What the routes of plugins at a path say with each of their answers. How long one may be kept is
/// not said of a refusal.
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
