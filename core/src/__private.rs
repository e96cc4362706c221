//! The items that expansions use. They are not a stable interface: anything here may change in a
//! patch release.
//!
//! An expansion starts with `use ::linchpin::__private as __lp;` and is data plus calls into the
//! functions below.

pub use crate::entity::{
    Action, Bound, ComputedDesc, DefaultDesc, Direction, Embedded, Entity, EntityDesc, EnumDesc,
    Field, FieldDesc, FieldEnum, FieldType, Flags, Gate, IndexDesc, Input, ItemPatch, Kind,
    ListQuery, OldRecord, OnDelete, Page, PageArgs, Pagination, Paging, Param, Projection,
    Relation, Rules, Scope, ScopeFrom, SearchDesc, SoftDelete, SortDesc, SourceLine, Summary,
    Tenant, TransformDesc, Ttl, UniqueDesc, VersionDesc,
};
pub use crate::entity::{EntityParts, ProjectionParts};
pub use crate::entity::{F, FieldAt};
use crate::entity::{TypeAt, ValueAt};
pub use crate::filter::{CtxPath, FilterSpec, Op, OperandSpec, SourceSpec};
pub use crate::operation::{
    Aggregate, ArrayWrite, AssignSpec, Batch, Collection, CollectionMethod, ComputedAggregate,
    Consume, Derive, Exists, FieldUpdate, Increment, Lookup, Merge, Method, NamedSort, OpSpec,
    Operation, Output, ParamSpec, Part, Place, Restore, RouteSpec, Search, Seg, Transition, Upsert,
    Whole,
};
pub use crate::operation::{Custom, CustomOutput, Shape, custom_params};
pub use crate::package::{
    EntityEntry, Package, assert_action, assert_apart, assert_audited, assert_operation_audited,
    assert_scoped, assert_unique, beginnings,
};
pub use crate::policy::{
    AuthDesc, EventDesc, GuardArg, GuardDesc, Idempotency, MiddlewareDesc, PermissionDesc,
    PolicyDesc, RateLimit,
};
pub use crate::roles::Roles;
pub use crate::schema::Chain;
pub use crate::store::{Function, Row, Truncate};
pub use crate::{ContextValue, DecodeError, Error, Result, Value, ValueRef};
pub use ::core::option::Option::{None, Some};
pub use ::serde;
pub use ::serde::ser::SerializeStruct;

mod checks;
mod computed;
pub mod editor;
mod events;
mod fields;
mod gates;
mod items;
mod literals;
mod operations;
mod transforms;

pub use crate::__editor as editor;
pub use checks::{
    BOOLEANS, DATES, ENUMS, INTEGERS, KEYS, LISTS, NAMES, NUMBERS, NUMERIC, ORDERED, SCALARS,
    STATES, TEXT_LISTS, TEXTS, check_pagination, expect, expect_action, expect_below,
    expect_context, expect_context_type, expect_kept, expect_key, expect_kind, expect_lasting,
    expect_links, expect_many, expect_relation, kind, named, need, refuse_if, same,
};
pub use computed::{BodyOf, ComputedBody, NoBody};
pub use events::{
    OperationOf, assert_changes, assert_schema, is_poisoned, is_untyped, operation, refuse,
};
pub use fields::fields;
pub use gates::{Along, Gated, Links, Open, expect_no_cycle, gated, is_cycle, target};
pub use items::{
    Holds, Itself, Members, NoPatch, Shown, Unnamed, deserialize_enum, enum_from_value,
    enum_to_value, serialize_enum, shown,
};
pub use literals::{
    cuid, date, item_literal, literal, no_items, of, some_literal, some_of, text, texts, uuid,
};
pub use operations::{
    ID, NOW, NULL, all, among, any, assign, cond, ctx, given, in_body, in_id, in_item, in_query,
    in_segment, is, null, on_delete, on_get, on_patch, on_post, on_put, param, seg, whole,
};

pub use transforms::{
    ANY_TRANSFORM, AnyTransform, FromValue, IntoField, Reverses, StoredAs, Transform, convert,
    field_transform, fill, reverse, run_fill, transform,
};

use crate::Problem;

/// An entity without options. Declared options replace members: `EntityDesc { .., ..entity(..) }`.
pub const fn entity(
    name: &'static str,
    path: &'static str,
    storage_name: &'static str,
    fields: &'static [FieldDesc],
    primary: usize,
    at: SourceLine,
) -> EntityDesc {
    EntityDesc {
        primary,
        at,
        ..EntityDesc::new(name, path, storage_name, fields)
    }
}

/// The source location of a declaration.
pub const fn at(file: &'static str, line: u32) -> SourceLine {
    SourceLine { file, line }
}

/// A field of an index or sort, smallest first.
pub const fn asc(field: usize) -> SortDesc {
    SortDesc { field, desc: false }
}

/// A field of an index or sort, greatest first.
pub const fn desc(field: usize) -> SortDesc {
    SortDesc { field, desc: true }
}

/// An index over fields.
pub const fn index(fields: &'static [SortDesc]) -> IndexDesc {
    IndexDesc {
        fields,
        global: false,
    }
}

/// A unique constraint over fields, by position.
pub const fn unique(fields: &'static [usize], global: bool) -> UniqueDesc {
    UniqueDesc { fields, global }
}

/// A field with the type of its marker: names, kind, optionality and line. Method calls add the
/// options.
///
/// Enums and booleans are always filterable. This function decides it, because the macro cannot see
/// the type behind a type alias.
pub const fn field<F: Field>(
    name: &'static str,
    wire: &'static str,
    column: &'static str,
    line: u32,
) -> FieldDesc {
    let mut desc = item_field::<F::Ty>(name, wire, column);
    desc.line = line;
    if matches!(desc.kind, Kind::Enum(_) | Kind::Boolean) {
        desc.flags = Flags::FILTERABLE;
    }
    desc
}

/// A field of an item struct.
pub const fn item_field<T: FieldType>(
    name: &'static str,
    wire: &'static str,
    column: &'static str,
) -> FieldDesc {
    let desc = FieldDesc::new(
        name,
        wire,
        column,
        <T as FieldType>::KIND,
        <T as FieldType>::OPTIONAL,
    );
    match desc.kind {
        Kind::Json if <T as FieldType>::ANY => desc,
        // Only the Rust type knows which JSON is valid.
        Kind::Json | Kind::Items(_) => FieldDesc {
            reads: Some(reads::<T>),
            ..desc
        },
        _ => desc,
    }
}

fn reads<T: FieldType>(value: ValueRef<'_>) -> bool {
    T::from_value(value).is_ok()
}

/// The generated version counter.
pub const fn version_field(
    name: &'static str,
    wire: &'static str,
    column: &'static str,
) -> FieldDesc {
    FieldDesc {
        flags: Flags::VERSION,
        ..FieldDesc::new(name, wire, column, Kind::Integer, false)
    }
}

/// The hidden expiry field of `ttl("1h")`, after all other fields. Only the store reads it.
pub const fn expiry_field() -> FieldDesc {
    const NAME: &str = "linchpin_expiry";
    FieldDesc {
        flags: Flags::PRIVATE.or(Flags::READ_ONLY).or(Flags::SENSITIVE),
        ..FieldDesc::new(NAME, NAME, NAME, Kind::Date, false)
    }
}

/// Reads a field from a row, by its marker.
///
/// # Errors
/// If the stored value has another form.
pub fn read<F: Field>(row: &dyn Row) -> std::result::Result<F::Ty, DecodeError> {
    <F::Ty as FieldType>::from_value(row.value(F::INDEX))
}

/// The arguments of an adapter method.
pub fn args<const COUNT: usize>(args: [Option<Value>; COUNT]) -> Vec<Option<Value>> {
    args.into()
}

/// A required argument of an adapter method, for the field at a position.
pub fn arg<E: FieldAt<N>, const N: usize>(value: impl Into<ValueAt<E, N>>) -> Option<Value> {
    Some(value.into().into_value())
}

/// A required argument of the field's own type, including the `Option` of an optional field. This
/// function does not check that the type is a field type; the code of `#[entity]` does.
pub fn own_arg<E: FieldAt<N>, const N: usize>(value: impl Into<TypeAt<E, N>>) -> Option<Value> {
    Some(value.into().into_value())
}

/// An optional argument of the field's own type; see [`own_arg`].
pub fn optional_own_arg<E: FieldAt<N>, const N: usize>(
    value: impl Into<Param<TypeAt<E, N>>>,
) -> Option<Value> {
    value.into().into_arg()
}

/// An optional argument.
pub fn optional_arg<E: FieldAt<N>, const N: usize>(
    value: impl Into<Param<ValueAt<E, N>>>,
) -> Option<Value> {
    value.into().into_arg()
}

/// A list as an argument of an adapter method.
pub fn list_arg<E: FieldAt<N>, const N: usize, T: Into<ValueAt<E, N>>>(
    values: impl IntoIterator<Item = T>,
) -> Option<Value> {
    let values: Vec<Value> = values
        .into_iter()
        .map(|value| value.into().into_value())
        .collect();
    Some(crate::validate::list_value(&values))
}

/// An optional list.
pub fn optional_list_arg<E: FieldAt<N>, const N: usize>(
    values: impl Into<Param<Vec<ValueAt<E, N>>>>,
) -> Option<Value> {
    match values.into() {
        Param::Omitted => None,
        Param::Null => Some(Value::Null),
        Param::Value(values) => list_arg::<E, N, _>(values),
    }
}

/// An item as an argument of an adapter method.
pub fn item_arg<T: Embedded>(item: &T) -> Option<Value> {
    Some(Value::Json(
        serde_json::to_value(item).unwrap_or_default().to_string(),
    ))
}

/// A partial change of an item as an argument of an adapter method.
pub fn item_patch_arg(patch: impl ItemPatch) -> Option<Value> {
    let mut members: Vec<(&'static str, Value)> = Vec::new();
    patch.members(&mut |name, value| members.push((name, value)));
    Some(crate::json::object(members))
}

/// Adds a member to an item's patch if the member is present. Items are JSON, so the type of a
/// member only needs `Serialize`.
pub fn put_member<T: serde::Serialize>(
    name: &'static str,
    value: Option<T>,
    put: &mut dyn FnMut(&'static str, Value),
) {
    if let Some(value) = value {
        put(
            name,
            Value::Json(serde_json::to_value(value).unwrap_or_default().to_string()),
        );
    }
}

/// An element of a list of strings.
pub fn text_arg(value: impl Into<String>) -> Option<Value> {
    Some(Value::Text(value.into()))
}

/// An optional element of a list of strings.
pub fn optional_text_arg(value: impl Into<Param<String>>) -> Option<Value> {
    value.into().into_arg()
}

/// Writes a member of an input struct if it is present.
pub fn put<F: Field>(value: Option<F::Ty>, set: &mut dyn FnMut(usize, Value)) {
    if let Some(value) = value {
        set(F::INDEX, value.into_value());
    }
}

/// Runs the rule of an entity over a row. The compiler checks the rule's signature.
///
/// # Errors
/// The error of the rule.
pub fn check<E: Entity>(
    row: &dyn Row,
    rule: fn(&E) -> std::result::Result<(), Problem>,
) -> std::result::Result<(), Problem> {
    let record = E::read(row).map_err(|error| Problem::new("", "check", error.to_string()))?;
    rule(&record)
}

/// Describes a computed field. `from` contains the positions of the fields that the value depends
/// on; an empty `from` means all fields that are not computed. `name` is the name of the function,
/// and `body` is the digest of its tokens.
pub const fn computed_field<F: Field>(
    name: &'static str,
    body: &'static str,
    value: fn(&dyn Row) -> std::result::Result<Value, DecodeError>,
    from: &'static [usize],
) -> ComputedDesc {
    ComputedDesc {
        name,
        body,
        value,
        blank: <F::Ty as FieldType>::blank,
        from,
    }
}

/// Runs the function of a computed field over a row. The compiler checks the function's signature.
///
/// # Errors
/// If the row cannot be read, or if not every store can hold the resulting text. The caller checks
/// the range of numbers.
pub fn compute<F: Field>(
    row: &dyn Row,
    value: fn(&F::Entity) -> F::Ty,
) -> std::result::Result<Value, DecodeError> {
    match value(&<F::Entity as Entity>::read(row)?).into_value() {
        // Adding zero turns -0 into 0, as for numbers from clients.
        Value::Float(number) => Ok(Value::Float(number + 0.0)),
        Value::Text(text) if text.contains('\0') => {
            Err(DecodeError::expected("text without U+0000"))
        }
        other => Ok(other),
    }
}

/// An operation that is listed with its entity. The compiler checks that it belongs to the entity.
pub const fn op<E: Entity, F: Entity + Itself<E>>(operation: &Operation<F>) -> &'static OpSpec {
    operation.spec()
}

/// The name and the fields of a projection for a route. The compiler checks that the projection
/// belongs to the entity.
pub const fn projected<E: Entity, P: Projection>() -> (&'static str, &'static [&'static str])
where
    P::Entity: Shown<E>,
{
    (P::NAME, P::FIELDS)
}

/// A struct for the numbers of an aggregate; the macro implements it.
pub trait NumbersRow: Sized {
    /// Reads the key, if there is one, and the members.
    ///
    /// # Errors
    /// If a value has another form.
    fn read(values: &[Value]) -> Result<Self>;
}

/// A value of a row of numbers.
pub trait Cell: Sized {
    /// # Errors
    /// If the value has another form.
    fn read(value: &Value) -> Result<Self>;
}

impl<T: FieldType> Cell for T {
    fn read(value: &Value) -> Result<Self> {
        T::from_value(value.as_ref()).map_err(Error::internal)
    }
}

/// The number of records for each value.
impl Cell for std::collections::BTreeMap<String, i64> {
    fn read(value: &Value) -> Result<Self> {
        match value {
            Value::Json(text) => serde_json::from_str(text).map_err(Error::internal),
            _ => Err(Error::internal("numbers by value were expected")),
        }
    }
}

/// Reads the next value of a row. A missing value is null.
///
/// # Errors
/// If a value has another form.
pub fn next_cell<T: Cell>(row: &mut std::slice::Iter<'_, Value>) -> Result<T> {
    T::read(row.next().unwrap_or(&Value::Null))
}

/// Reads a struct of numbers from a row, with the members in their order.
#[doc(hidden)]
#[macro_export]
macro_rules! __numbers_row {
    ($name:ident: $($member:ident),*) => {
        impl $crate::__private::NumbersRow for $name {
            fn read(row: &[$crate::Value]) -> $crate::Result<Self> {
                let mut row = row.iter();
                ::core::result::Result::Ok(Self { $($member: $crate::__private::next_cell(&mut row)?),* })
            }
        }
    };
}
pub use __numbers_row as numbers_row;

/// A parameter of a custom operation. Its type determines the kind.
///
/// # Panics
/// In const evaluation if a path or query cannot carry the type. This is the purpose of the
/// function.
#[track_caller]
pub const fn custom_param<T: FieldType>(
    params: &'static EntityDesc,
    name: &'static str,
    at: usize,
    place: Place,
) -> ParamSpec {
    let carried = matches!(place, Place::Body) || <T as FieldType>::KIND.is_scalar();
    assert!(
        carried,
        "linchpin: a path or query carries plain values only; lists and JSON belong in `input`"
    );
    let param = ParamSpec::new(name, at, place).of(params);
    if <T as FieldType>::OPTIONAL {
        param.optional().nullable()
    } else {
        param
    }
}

/// A member of `output_once`, described as a field of an entity that is not stored. Only the
/// response of the call that creates the record contains the member.
pub const fn once<T: FieldType>(name: &'static str, wire: &'static str) -> FieldDesc {
    FieldDesc::new(
        name,
        wire,
        "",
        <T as FieldType>::KIND,
        <T as FieldType>::OPTIONAL,
    )
}

/// The body of a custom operation, as a field of an entity that is not stored.
pub const fn custom_input<T: Embedded>() -> FieldDesc {
    FieldDesc::new("", "", "", Kind::Items(T::FIELDS), false)
}

/// An argument of a custom operation.
pub fn custom_arg<T: FieldType>(value: impl Into<T>) -> Option<Value> {
    Some(value.into().into_value())
}
