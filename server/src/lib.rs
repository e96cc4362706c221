//! The server of Linchpin: executors of operations, HTTP, the OpenAPI document, events and the app.
//!
//! Apps and plugins use the crate `linchpin`, which re-exports what they need from here.

mod address;
mod app;
pub mod audit;
mod clock;
mod cx;
mod emitter;
pub mod event;
pub mod http;
mod indexing;
mod lease;
pub mod openapi;
pub mod operation;
pub mod permission;
pub mod resource;
pub mod seal;
pub mod search;
pub mod settings;
mod startup;
pub mod store;
pub mod testing;

#[doc(hidden)]
pub mod __private;

pub use app::{
    App, Command, Config, Durability, Environment, MiddlewareCx, MountedRoute, Plugin, PostCx,
    Postgres, Registrar, Route, RouteOverride, RoutesCx, Running, SigningSecret,
};
/// The axum version for handlers of `#[route]` and routers of plugins, so that apps use the same
/// version as the server.
pub use axum;
pub use cx::Cx;
pub use emitter::{AppEvent, EventBus, Lagged, Subscription};
pub use event::{Event, EventSink};
pub use linchpin_core::event::{ActorRef, EntityEvent};
pub use linchpin_core::store::DatabaseUrl;
pub use linchpin_core::{
    Actor, ActorKind, Attached, Code, ContextDesc, ContextValue, DecodeError, Embedded, Entity,
    EntityEntry, Error, Field, FieldEnum, Json, Operation, Package, Page, PageArgs, Param,
    ParseTimestampError, Problem, Result, Roles, Timestamp, TypeAt, Uuid, Value, ValueAt, ValueRef,
    context, entity, filter, validate,
};
pub use linchpin_core::{Attachment, BoxFuture, EntityGap, Gap, StartupError};
pub(crate) use linchpin_core::{json, suggest};
pub use linchpin_migrate as migrate;
pub use linchpin_migrate::SchemaCheck;
pub use permission::{AccessRequest, Decision, Evaluator, RankRequest};
pub use resource::{Adapter, Adapters, ResultFuture};

// Macro expansions use the path `::linchpin`, and the server uses the macros for its own entities.
extern crate self as linchpin;
