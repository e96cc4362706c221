//! Everything a declaration names: `use linchpin::prelude::*;`.

pub use crate::entity::{
    Direction, Embedded, Entity, Field, FieldEnum, Json, ListQuery, Page, PageArgs, Param, Uuid,
};
#[cfg(feature = "server")]
pub use crate::http::{Next, RouteCall, RouteGuard, require_role};
#[cfg(feature = "server")]
pub use crate::operation::{ChooserCall, CustomCall, MemoryCall, Records, SqlStore};
pub use crate::{Actor, Cx, Error, Operation, Package, Problem, Result, Timestamp};
#[cfg(feature = "server")]
pub use crate::{Adapter, Adapters, App, Config, JwtAuth};
pub use linchpin_core::Roles;
pub use linchpin_macros::{
    Embedded, FieldEnum, Roles, entity, operation, package, projection, route,
};
