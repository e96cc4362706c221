//! Descriptors: the declaration of an entity as data that can be printed, compared and
//! const-evaluated.
//!
//! `#[entity]` writes them; the runtime and the checks read them. All are plain statics.

mod condition;
mod entity;
mod paging;
mod relation;
mod summary;
mod visibility;

pub use condition::{FilterSpec, Op, OperandSpec, SourceSpec};
pub use entity::{
    EntityDesc, IndexDesc, Pagination, RecordCheck, SearchDesc, SortDesc, UniqueDesc, VersionDesc,
};
pub use paging::Paging;
pub use relation::{Link, Many, OnDelete, One, Relation};
pub use summary::{Least, Summary};
pub use visibility::{Action, Gate, Scope, ScopeFrom, SoftDelete, Tenant, Ttl};
