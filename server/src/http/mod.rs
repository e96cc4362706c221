//! HTTP: the policies of routes, and everything between a socket and a
//! [`Table`](crate::resource::Table).
//!
//! An [`Endpoint`] is data: a path, a policy, an [`Action`]. One service runs all endpoints; no
//! code is generated per route.

mod answer;
mod auth;
mod body;
mod caller;
mod checks;
mod contents;
pub(crate) mod context;
mod cors;
mod credentials;
mod dispatch;
mod endpoint;
mod extra;
mod extract;
mod host;
pub(crate) mod idempotency;
pub(crate) mod include;
mod input;
mod layers;
mod list;
mod middleware;
mod mounted;
mod once;
mod operation;
mod overrides;
mod path;
mod path_guard;
mod permitted;
mod plugin_routes;
mod precondition;
mod protection;
mod query;
mod rate;
pub(crate) mod related;
mod request;
mod request_id;
mod response;
mod router;
mod serve;
mod session_watch;
mod unreadable;

pub use crate::address::one_client;
pub use crate::clock::Clock;
pub use auth::{
    ActorResolver, ArgumentCheck, AuthCheck, GuardCheck, GuardInput, NamedCheck, Origin,
    Resolution, RoleCheck, RouteAuth,
};
pub use caller::{RouteCaller, RouteReply, RouteRequest};
pub use checks::Registry;
pub(crate) use checks::missing;
#[doc(hidden)]
pub use contents::{
    ByMedia, ByRecord, ByShape, Content, ContentSchema, Contents, Otherwise, Probe,
};
pub use context::{ContextCall, ContextProviders};
pub use cors::{Cors, allows_origin};
pub use credentials::{
    Credential, CredentialChange, CredentialChanges, CredentialFeed, CredentialPlace,
    CredentialUse, Credentials,
};
pub(crate) use endpoint::plugin_endpoints;
pub use endpoint::{Action, Endpoint, Policy, endpoints};
pub(crate) use extra::contents_of;
#[doc(hidden)]
pub use extra::{Arguments, answered, serve_route};
#[doc(hidden)]
pub use extra::{ContentsOf, ExtraHandler, ExtraRoute, ResponseFuture};
pub(crate) use host::refused as refused_host;
pub use idempotency::Claims;
pub use layers::Layers;
pub use linchpin_core::operation::ExtraRouteSpec;
pub use linchpin_core::policy::{
    AuthDesc, EventDesc, GuardArg, GuardDesc, Idempotency, MiddlewareDesc, PermissionDesc,
    PolicyDesc, RateLimit,
};
pub(crate) use list::{MAX_LIST_VALUES, filterable, sortable};
pub use middleware::{Middleware, MiddlewareFn, Next, RouteCall};
pub(crate) use operation::PageKey;
pub use overrides::{Inputs, Override, OverrideCall};
pub use path_guard::{PathGuard, RouteGuard, guard, require_role};
pub use plugin_routes::{
    AnswerDesc, Nothing, Partial, PluginCall, PluginRoute, RawBody, Reply, Route, RouteBody,
    RouteDesc, RouteInput, Socket, Transport, Upgrade,
};
pub(crate) use plugin_routes::{SocketSlot, SocketTask, UPGRADE_REQUIRED, UnreadLimit};
pub use rate::{Caller, RateKey, RateReply, RateStore, RateVerdict, RatesInProcess};
pub use request_id::RequestId;
pub(crate) use router::BODIES;
pub use router::{HttpService, HttpState, router, service};
pub(crate) use serve::{LIVE, after_providers};
pub use session_watch::{SessionWatch, SessionWatches};
pub(crate) use unreadable::{too_many_connections, with_error_body};
