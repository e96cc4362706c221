//! The part of Linchpin that is data and pure functions: values, declarations of entities and
//! operations, filters and their evaluator, validation, route policies, and the
//! [`Store`](store::Store) trait.
//!
//! It does not depend on a database or an async runtime. It depends on an HTTP library only with
//! the feature `axum`, which converts an error to a response. So it also builds for
//! `wasm32-unknown-unknown`, where JavaScript provides randomness and the clock. Apps use the crate
//! `linchpin`, which re-exports the parts that they need.

mod actor;
mod attachment;
mod descriptor;
pub mod entity;
mod error;
pub mod event;
mod field;
pub mod filter;
#[doc(hidden)]
pub mod indexed;
#[doc(hidden)]
pub mod json;
pub mod layout;
pub mod operation;
pub mod package;
pub mod policy;
#[cfg(feature = "axum")]
#[doc(hidden)]
pub mod response;
mod roles;
mod route;
mod row;
pub mod schema;
mod startup;
mod steady;
pub mod store;
pub mod suggest;
mod timestamp;
pub mod validate;
mod value;

#[doc(hidden)]
pub mod __private;

pub use actor::{Actor, ActorKind, Attached};
pub use attachment::Attachment;
pub use entity::{Entity, Field, Page, PageArgs, Param, TypeAt, ValueAt};
#[doc(hidden)]
pub use error::causes;
pub use error::{Code, Error, Problem, Result};
pub use field::{ContextDesc, ContextValue, Embedded, FieldEnum, Json, Uuid};
pub use operation::Operation;
pub use package::{EntityEntry, Package};
pub use roles::Roles;
#[doc(hidden)]
pub use startup::one_of;
pub use startup::{EntityGap, Gap, StartupError};
pub use timestamp::{ParseTimestampError, Timestamp, Truncate};
pub use value::{DecodeError, Value, ValueRef};

/// A boxed future that is `Send`: the return type of asynchronous trait methods.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
