//! Entities: descriptors, field types and typed forms.

mod build;
mod comparand;
mod desc;
mod field;
mod field_set;
pub mod page;
mod position;
mod relation;
mod stored;
mod summary;
mod transform;
mod typed;
mod visibility;

pub use comparand::Comparand;
pub use desc::{
    Bound, ComputedDesc, DefaultDesc, EntityDesc, FieldDesc, Flags, IndexDesc, Pagination,
    RecordCheck, Rules, SearchDesc, SortDesc, SourceLine, UniqueDesc, VersionDesc,
};
pub use field::{
    Embedded, EnumDesc, Field, FieldEnum, FieldType, ItemOf, ItemPatch, ItemPatchOf, Items, Json,
    Kind, Uuid, ValueOf,
};
pub use field_set::FieldSet;
pub use page::{Direction, ListQuery, Page, PageArgs, Paging, Upserted};
#[doc(hidden)]
pub use position::{F, FieldAt};
pub use position::{ItemAt, ItemPatchAt, TypeAt, ValueAt};
pub use relation::{Link, Many, OnDelete, One, Relation};
#[doc(hidden)]
pub use stored::{Flaw, canonical, canonical_value, out_of_range};
pub(crate) use stored::{NOT_FINITE, TOO_GREAT};
pub use summary::{Least, Summary};
pub use transform::{
    EnumText, OldRecord, OldValue, TransformDesc, TransformError, TransformFn, TransformFrom,
    TransformInput, TransformType,
};
pub use typed::{Entity, EntityParts, Input, OfRecords, Param, Projection, ProjectionParts};
pub use visibility::{Action, Gate, Scope, ScopeFrom, SoftDelete, Tenant, Ttl};
