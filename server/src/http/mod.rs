//! HTTP: policy, and (with the `server` feature) everything between a socket and a
//! [`Table`](crate::resource::Table).
//!
//! An [`Endpoint`] is data: a path, a policy, an [`Action`]. One service answers for all of them;
//! no route has code of its own.

#[cfg(feature = "server")]
mod answer;
#[cfg(feature = "server")]
mod asked;
#[cfg(feature = "server")]
mod auth;
#[cfg(feature = "server")]
mod body;
#[cfg(feature = "server")]
mod contents;
#[cfg(feature = "server")]
pub(crate) mod context;
#[cfg(feature = "server")]
mod cors;
#[cfg(feature = "server")]
mod dispatch;
#[cfg(feature = "server")]
mod endpoint;
#[cfg(feature = "server")]
mod extra;
#[cfg(feature = "server")]
mod extract;
#[cfg(feature = "server")]
pub(crate) mod foreign;
#[cfg(feature = "server")]
mod gates;
#[cfg(feature = "server")]
mod guard;
#[cfg(feature = "server")]
mod host;
#[cfg(feature = "server")]
pub(crate) mod idempotency;
#[cfg(feature = "server")]
pub(crate) mod include;
#[cfg(feature = "server")]
mod input;
#[cfg(feature = "server")]
mod layers;
#[cfg(feature = "server")]
mod list;
#[cfg(feature = "server")]
mod middleware;
#[cfg(feature = "server")]
mod mounted;
#[cfg(feature = "server")]
mod once;
#[cfg(feature = "server")]
mod operation;
#[cfg(feature = "server")]
mod overrides;
#[cfg(feature = "server")]
mod path;
#[cfg(feature = "server")]
mod path_guard;
#[cfg(feature = "server")]
mod permitted;
#[cfg(feature = "server")]
mod plugged;
#[cfg(feature = "server")]
mod precondition;
#[cfg(feature = "server")]
mod query;
#[cfg(feature = "server")]
mod rate;
#[cfg(feature = "server")]
mod request_id;
#[cfg(feature = "server")]
mod response;
#[cfg(feature = "server")]
mod router;
#[cfg(feature = "server")]
mod serve;
#[cfg(feature = "server")]
mod unreadable;

#[cfg(feature = "server")]
pub use auth::{
    ActorResolver, ArgumentCheck, AuthCheck, GuardCall, GuardCheck, NamedCheck, Origin, Resolution,
    RoleCheck, RouteAuth,
};
#[cfg(feature = "server")]
#[doc(hidden)]
pub use contents::{
    ByMedia, ByRecord, ByShape, Content, ContentSchema, Contents, Otherwise, Probe,
};
#[cfg(feature = "server")]
pub use context::{ContextCall, ContextProviders};
#[cfg(feature = "server")]
pub use cors::Cors;
#[cfg(feature = "server")]
pub(crate) use endpoint::plugin_endpoints;
#[cfg(feature = "server")]
pub use endpoint::{Action, Endpoint, Policy, endpoints};
#[cfg(feature = "server")]
pub(crate) use extra::contents_of;
#[cfg(feature = "server")]
#[doc(hidden)]
pub use extra::{Arguments, answered, serve_route};
#[cfg(feature = "server")]
#[doc(hidden)]
pub use extra::{ContentsOf, ExtraHandler, ExtraRoute, ResponseFuture};
#[cfg(feature = "server")]
pub use gates::Registry;
#[cfg(feature = "server")]
pub(crate) use gates::missing;
#[cfg(feature = "server")]
pub(crate) use host::refused as refused_host;
#[cfg(feature = "server")]
pub use idempotency::Claims;
#[cfg(feature = "server")]
pub use layers::Layers;
pub use linchpin_core::operation::ExtraRouteSpec;
pub use linchpin_core::policy::{
    AuthDesc, EventDesc, GuardArg, GuardDesc, Idempotency, MiddlewareDesc, PermissionDesc,
    PolicyDesc, RateLimit,
};
#[cfg(feature = "server")]
pub(crate) use list::{MAX_LIST_VALUES, filterable, sortable};
#[cfg(feature = "server")]
pub use middleware::{Middleware, MiddlewareFn, Next, RouteCall};
#[cfg(feature = "server")]
pub(crate) use once::Once;
#[cfg(feature = "server")]
pub(crate) use operation::PageKey;
#[cfg(feature = "server")]
pub use overrides::{Inputs, Override, OverrideCall};
#[cfg(feature = "server")]
pub use path_guard::{PathGuard, RouteGuard, guard, require_role};
#[cfg(feature = "server")]
pub use plugged::{
    AnswerDesc, Nothing, Partial, PluginCall, PluginRoute, Reply, Route, RouteDesc, RouteInput,
};
#[cfg(feature = "server")]
pub use rate::{Caller, RateKey, RateReply, RateStore, RateVerdict, RatesInProcess};
#[cfg(feature = "server")]
pub use request_id::RequestId;
#[cfg(feature = "server")]
pub(crate) use router::BODIES;
#[cfg(feature = "server")]
pub use router::{Clock, HttpService, HttpState, router, service};
#[cfg(feature = "server")]
pub(crate) use serve::behind_providers;
#[cfg(feature = "server")]
pub(crate) use unreadable::{crowded, explain};
