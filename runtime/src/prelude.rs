//! All names that declarations need: `use linchpin::prelude::*;`.

#[cfg(feature = "jwt")]
pub use crate::JwtAuth;
pub use crate::entity::{
    Direction, Embedded, Entity, Field, FieldEnum, Json, ListQuery, OldRecord, Page, PageArgs,
    Param, TransformError, Uuid,
};
#[cfg(feature = "server")]
pub use crate::http::{Next, RouteCall, RouteGuard, require_role};
#[cfg(feature = "server")]
pub use crate::operation::{ChooserCall, CustomCall, MemoryCall, Records, SqlStore};
pub use crate::{Actor, Error, Operation, Package, Problem, Result, Roles, Timestamp};
#[cfg(feature = "server")]
pub use crate::{Adapter, Adapters, App, Config, Cx};
pub use linchpin_macros::{
    Embedded, FieldEnum, computed, entity, operation, package, projection, route, transform,
};
