//! Fields: kinds, Rust types, descriptors, transforms, and the values of the request context that
//! declarations compare fields with.

mod build;
mod context;
mod desc;
mod kind;
mod set;
mod stored;
mod transform;
mod types;

pub use context::{ContextDesc, ContextValue, CtxPath};
pub use desc::{Bound, ComputedDesc, DefaultDesc, FieldDesc, Flags, Rules, SourceLine};
pub use kind::{EnumDesc, Kind};
pub use set::FieldSet;
pub use stored::{Flaw, canonical, canonical_value, out_of_range};
pub(crate) use stored::{NOT_FINITE, TOO_GREAT};
pub use transform::{
    EnumText, OldRecord, OldValue, TransformDesc, TransformError, TransformFn, TransformFrom,
    TransformInput, TransformType,
};
pub use types::{Embedded, FieldEnum, FieldType, ItemPatch, Items, Json, Uuid};
