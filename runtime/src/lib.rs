//! Linchpin: declare entities and operations as annotated Rust; get checked adapters, HTTP routes
//! and durable stores.

pub mod prelude;

#[doc(hidden)]
pub mod __private;

#[doc(inline)]
pub use linchpin_core::{
    Actor, ActorKind, Attached, Code, ContextDesc, ContextValue, DecodeError, Embedded, Entity,
    EntityEntry, Error, Field, FieldEnum, Json, Operation, Package, Page, PageArgs, Param,
    ParseTimestampError, Problem, Result, Roles, Timestamp, TypeAt, Uuid, Value, ValueAt, ValueRef,
    context, entity, filter, suggest, validate,
};
#[cfg(feature = "jwt")]
#[doc(inline)]
pub use linchpin_jwt::JwtAuth;
#[doc(inline)]
pub use linchpin_macros::{
    Embedded, FieldEnum, Roles, entity, operation, package, projection, route,
};
/// The axum that handlers of `#[route]` and routers of plugins are written for, so that versions
/// always agree.
#[cfg(feature = "server")]
pub use linchpin_server::axum;
#[cfg(feature = "server")]
#[doc(inline)]
pub use linchpin_server::{
    AccessRequest, ActorRef, Adapter, Adapters, App, AppEvent, Attachment, BoxFuture, Command,
    Config, Cx, DatabaseUrl, Decision, Durability, EntityEvent, EntityGap, Environment, Evaluator,
    Event, EventBus, EventSink, Gap, Lagged, MiddlewareCx, Plugin, PostCx, Postgres, RankRequest,
    Registrar, ResultFuture, Route, RoutesCx, Running, SigningSecret, StartupError, Subscription,
    audit, event, http, openapi, operation, permission, resource, search, store, testing,
};

/// Route policies, as declarations hold them.
#[cfg(not(feature = "server"))]
pub mod http {
    pub use linchpin_core::operation::ExtraRouteSpec;
    pub use linchpin_core::policy::{
        AuthDesc, EventDesc, GuardArg, GuardDesc, Idempotency, MiddlewareDesc, PermissionDesc,
        PolicyDesc, RateLimit,
    };
}
#[cfg(not(feature = "server"))]
#[doc(inline)]
pub use linchpin_core::{operation, store};
