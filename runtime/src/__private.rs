//! What expansions name. No promise to users: anything here may change in a patch release.
//!
//! An expansion starts with `use ::linchpin::__private as __lp;` and is data plus calls into the functions below.

pub use crate::entity::{
    Bound, DefaultDesc, Direction, Embedded, Entity, EntityDesc, EnumDesc, Field, FieldDesc, FieldEnum, FieldType, Flags, IndexDesc, Input,
    ListQuery, Page, PageArgs, Pagination, Param, Rules, SortDesc, SourceLine, UniqueDesc, VersionDesc,
};
pub use crate::filter::{CtxPath, FilterSpec, Op, OperandSpec, SourceSpec};
pub use crate::http::{AuthDesc, PolicyDesc};
#[cfg(feature = "server")]
pub use crate::http::{ExtraRoute, ExtraRouteSpec};
pub use crate::operation::{
    AssignSpec, Exists, Increment, Lookup, Method, OpSpec, Operation, ParamSpec, Place, RouteSpec, Seg, Transition,
};
pub use crate::package::{EntityEntry, Package};
#[cfg(feature = "server")]
pub use crate::resource::Adapter;
pub use crate::store::Row;
pub use crate::{Cx, DecodeError, Result, Value};
pub use ::serde;

use crate::entity::Kind;

/// A field with its marker's type: names, kind and optionality; options follow in `FieldDesc { .., ..field::<..>(..) }`.
pub const fn field<F: Field>(name: &'static str, wire: &'static str, column: &'static str) -> FieldDesc {
    FieldDesc::new(name, wire, column, <F::Ty as FieldType>::KIND, <F::Ty as FieldType>::OPTIONAL)
}

/// A field of an item struct.
pub const fn item_field<T: FieldType>(name: &'static str, wire: &'static str, column: &'static str) -> FieldDesc {
    FieldDesc::new(name, wire, column, <T as FieldType>::KIND, <T as FieldType>::OPTIONAL)
}

/// The generated version counter.
pub const fn version_field(name: &'static str, wire: &'static str, column: &'static str) -> FieldDesc {
    FieldDesc { flags: Flags::VERSION, ..FieldDesc::new(name, wire, column, Kind::Integer, false) }
}

/// Reads a field from a row, by its marker.
///
/// # Errors
/// When the stored value has another form.
pub fn read<F: Field>(row: &dyn Row) -> std::result::Result<F::Ty, DecodeError> {
    <F::Ty as FieldType>::from_value(row.value(F::INDEX))
}

/// A literal of a field: rustc judges its type.
pub fn literal<F: Field>(value: <F::Ty as FieldType>::Inner) -> Value {
    value.into_value()
}

/// A required argument of an adapter method.
pub fn arg<F: Field>(value: impl Into<<F::Ty as FieldType>::Inner>) -> Option<Value> {
    Some(value.into().into_value())
}

/// An argument that may be left out.
pub fn optional_arg<F: Field>(value: impl Into<Param<<F::Ty as FieldType>::Inner>>) -> Option<Value> {
    value.into().into_arg()
}

/// Writes a member of an input struct when it is there.
pub fn put<T: FieldType>(field: usize, value: Option<T>, set: &mut dyn FnMut(usize, Value)) {
    if let Some(value) = value {
        set(field, value.into_value());
    }
}

/// An operation listed with its entity: rustc judges that it belongs there.
pub const fn op<E: Entity>(operation: &Operation<E>) -> &'static OpSpec {
    operation.spec()
}

/// An extra route listed with its entity: rustc judges that it belongs there.
#[cfg(feature = "server")]
pub const fn extra<E: Entity>(route: &ExtraRoute<E>) -> ExtraRouteSpec {
    route.spec()
}
