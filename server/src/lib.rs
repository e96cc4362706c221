//! Linchpin: declare entities and operations as annotated Rust; get checked adapters, HTTP routes
//! and durable stores.

#[cfg(feature = "server")]
mod address;
#[cfg(feature = "server")]
mod app;
#[cfg(feature = "server")]
pub mod audit;
#[cfg(feature = "server")]
mod auth;
mod cx;
#[cfg(feature = "server")]
pub mod event;
pub mod http;
#[cfg(feature = "server")]
pub mod openapi;
pub mod operation;
#[cfg(feature = "server")]
pub mod permission;
pub mod prelude;
#[cfg(feature = "server")]
pub mod resource;
#[cfg(feature = "server")]
pub mod search;
pub mod store;
#[cfg(feature = "server")]
pub mod testing;

#[doc(hidden)]
pub mod __private;

#[cfg(feature = "server")]
pub use app::{
    App, Command, Config, Durability, Environment, MiddlewareCx, Plugin, PostCx, Postgres,
    Registrar, Route, RoutesCx, Running, SigningSecret,
};
#[cfg(feature = "server")]
pub use auth::JwtAuth;
/// The axum that handlers of `#[route]` and routers of plugins are written for, so that versions
/// always agree.
#[cfg(feature = "server")]
pub use axum;
pub use cx::Cx;
#[cfg(feature = "server")]
pub use event::{
    ActorRef, AppEvent, EntityEvent, Event, EventBus, EventSink, Lagged, Subscription,
};
pub use linchpin_core::store::DatabaseUrl;
pub use linchpin_core::{
    Actor, ActorKind, Attached, Code, ContextDesc, ContextValue, DecodeError, Embedded, Entity,
    EntityEntry, Error, Field, FieldEnum, Json, Operation, Package, Page, PageArgs, Param,
    ParseTimestampError, Problem, Result, Roles, Timestamp, TypeAt, Uuid, Value, ValueAt, ValueRef,
    context, entity, filter, validate,
};
#[cfg(feature = "server")]
pub use linchpin_core::{Attachment, BoxFuture, EntityGap, Gap, StartupError};
#[cfg(feature = "server")]
pub(crate) use linchpin_core::{json, suggest};
pub use linchpin_macros::{
    Embedded, FieldEnum, Roles, entity, operation, package, projection, route,
};
#[cfg(feature = "server")]
pub use permission::{AccessRequest, Decision, Evaluator, RankRequest};
#[cfg(feature = "server")]
pub use resource::{Adapter, Adapters, ResultFuture};

extern crate self as linchpin;
