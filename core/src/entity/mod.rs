//! Entities: descriptors, field types and typed forms.

mod comparand;
mod field;
pub mod page;
mod position;
mod typed;

pub use comparand::Comparand;
pub use field::{Field, ItemOf, ItemPatchOf, ValueOf};
pub use page::{Direction, ListQuery, Page, PageArgs, Paging, Upserted};
#[doc(hidden)]
pub use position::{F, FieldAt};
pub use position::{ItemAt, ItemPatchAt, TypeAt, ValueAt};
pub use typed::{Entity, EntityParts, Input, OfRecords, Param, Projection, ProjectionParts};

pub use crate::descriptor::{
    Action, EntityDesc, Gate, IndexDesc, Least, Link, Many, OnDelete, One, Pagination, RecordCheck,
    Relation, Scope, ScopeFrom, SearchDesc, SoftDelete, SortDesc, Summary, Tenant, Ttl, UniqueDesc,
    VersionDesc,
};
pub use crate::field::{
    Bound, ComputedDesc, DefaultDesc, Embedded, EnumDesc, EnumText, FieldDesc, FieldEnum, FieldSet,
    FieldType, Flags, ItemPatch, Items, Json, Kind, OldRecord, OldValue, Rules, SourceLine,
    TransformDesc, TransformError, TransformFn, TransformFrom, TransformInput, TransformType, Uuid,
};
#[doc(hidden)]
pub use crate::field::{Flaw, canonical, canonical_value, out_of_range};
pub(crate) use crate::field::{NOT_FINITE, TOO_GREAT};
