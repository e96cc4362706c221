//! Linchpin: declare entities and operations as annotated Rust; get checked adapters, HTTP routes and durable stores.

#[cfg(feature = "server")]
mod app;
mod cx;
pub mod entity;
mod error;
pub mod filter;
pub mod http;
mod json;
#[cfg(feature = "server")]
pub mod openapi;
pub mod operation;
mod package;
pub mod prelude;
#[cfg(feature = "server")]
pub mod resource;
pub mod store;
mod timestamp;
pub mod validate;
mod value;

#[doc(hidden)]
pub mod __private;

pub use cx::{Actor, ActorKind, Cx};
pub use entity::{Embedded, Entity, Field, FieldEnum, Json, Page, PageArgs, Param, Uuid};
pub use error::{Code, Error, Problem, Result};
pub use linchpin_macros::{Embedded, FieldEnum, entity, operation, package, route};
pub use operation::Operation;
pub use package::{EntityEntry, Package};
#[cfg(feature = "server")]
pub use resource::{Adapter, Adapters};
pub use timestamp::{ParseTimestampError, Timestamp};
pub use value::{DecodeError, Value, ValueRef};

extern crate self as linchpin;
