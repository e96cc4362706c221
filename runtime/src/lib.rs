//! Linchpin: declare entities and operations as annotated Rust; get checked adapters, HTTP routes and durable stores.

mod actor;
#[cfg(feature = "server")]
mod address;
#[cfg(feature = "server")]
mod app;
#[cfg(feature = "server")]
pub mod audit;
#[cfg(feature = "server")]
mod auth;
mod context;
mod cx;
pub mod entity;
mod error;
#[cfg(feature = "server")]
pub mod event;
pub mod filter;
pub mod http;
mod json;
#[cfg(feature = "server")]
pub mod openapi;
pub mod operation;
mod package;
#[cfg(feature = "server")]
pub mod permission;
pub mod prelude;
#[cfg(feature = "server")]
pub mod resource;
mod roles;
#[cfg(feature = "server")]
pub mod search;
mod steady;
pub mod store;
#[cfg(feature = "server")]
pub mod testing;
mod timestamp;
pub mod validate;
mod value;

#[doc(hidden)]
pub mod __private;

pub use actor::{Actor, ActorKind, Attached};
#[cfg(feature = "server")]
pub use app::{
    App, Command, Config, Database, DatabaseUrl, Durability, EntityGap, Environment, Gap, MiddlewareCx, Plugin, PostCx, Postgres,
    Registrar, Route, RoutesCx, Running, SigningSecret, StartupError,
};
#[cfg(feature = "server")]
pub use auth::JwtAuth;
/// The axum that handlers of `#[route]` and routers of plugins are written for, so that versions always agree.
#[cfg(feature = "server")]
pub use axum;
pub use context::{ContextDesc, ContextValue};
pub use cx::Cx;
pub use entity::{Embedded, Entity, Field, FieldEnum, Json, Page, PageArgs, Param, TypeAt, Uuid, ValueAt};
pub use error::{Code, Error, Problem, Result};
#[cfg(feature = "server")]
pub use event::{ActorRef, AppEvent, EntityEvent, Event, EventBus, EventSink, Lagged, Subscription};
pub use linchpin_macros::{Embedded, FieldEnum, Roles, entity, operation, package, projection, route};
pub use operation::Operation;
pub use package::{EntityEntry, Package};
#[cfg(feature = "server")]
pub use permission::{AccessRequest, Decision, Evaluator, RankRequest};
#[cfg(feature = "server")]
pub use resource::{Adapter, Adapters, BoxFuture, ResultFuture};
pub use roles::Roles;
pub use timestamp::{ParseTimestampError, Timestamp};
pub use value::{DecodeError, Value, ValueRef};

extern crate self as linchpin;
