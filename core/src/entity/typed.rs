//! The typed form of an entity, which `#[entity]` implements.

use crate::descriptor::EntityDesc;
use crate::field::FieldType;
use crate::row::Row;
use crate::{DecodeError, Value};

/// A record type; implemented by `#[entity]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an entity",
    label = "not an entity",
    note = "put #[entity] on the struct"
)]
pub trait Entity: Sized + Send + Sync + 'static {
    /// The descriptor of the entity.
    const DESC: &'static EntityDesc;
    /// The generated adapter: `Adapter<Self>` of the server, with a method per operation. `()`
    /// without the server.
    type Adapter;
    /// The type of the primary key.
    type Id: FieldType;
    /// The input of `create`, with one member per creatable field.
    type Create: Input;
    /// The input of `update`, with one member per updatable field.
    type Patch: Input;

    /// Builds the record from a row with the values in field order.
    ///
    /// # Errors
    /// If a stored value does not have the declared form.
    fn read(row: &dyn Row) -> Result<Self, DecodeError>;
}

/// The implementation that `#[entity]` generates. [`Entity`] is implemented for all such types at
/// once, with the attribute `#[diagnostic::do_not_recommend]`. So if a type is not an entity, rustc
/// does not list all entities. Generated code cannot contain this attribute, because crates without
/// the implicit prelude cannot use it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an entity",
    label = "not an entity",
    note = "put #[entity] on the struct"
)]
#[doc(hidden)]
pub trait EntityParts: Sized + Send + Sync + 'static {
    /// See [`Entity`].
    const DESC: &'static EntityDesc;
    /// See [`Entity`].
    type Adapter;
    /// See [`Entity`].
    type Id: FieldType;
    /// See [`Entity`].
    type Create: Input;
    /// See [`Entity`].
    type Patch: Input;

    /// See [`Entity`].
    ///
    /// # Errors
    /// If a stored value does not have the declared form.
    fn read(row: &dyn Row) -> Result<Self, DecodeError>;
}

#[diagnostic::do_not_recommend]
impl<T: EntityParts> Entity for T {
    const DESC: &'static EntityDesc = T::DESC;
    type Adapter = T::Adapter;
    type Id = T::Id;
    type Create = T::Create;
    type Patch = T::Patch;

    #[inline]
    fn read(row: &dyn Row) -> Result<Self, DecodeError> {
        T::read(row)
    }
}

/// The implementation that `#[projection]` generates, like [`EntityParts`] for `#[entity]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a projection",
    label = "not a projection",
    note = "put #[projection(..)] on the struct"
)]
#[doc(hidden)]
pub trait ProjectionParts {
    /// See [`Projection`].
    type Entity: Entity;
    /// See [`Projection`].
    const NAME: &'static str;
    /// See [`Projection`].
    const FIELDS: &'static [&'static str];
}

#[diagnostic::do_not_recommend]
impl<T: ProjectionParts> Projection for T {
    type Entity = T::Entity;
    const NAME: &'static str = T::NAME;
    const FIELDS: &'static [&'static str] = T::FIELDS;
}

/// A named list of an entity's fields, for `output = PostCard`; implemented by `#[projection]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a projection",
    label = "not a projection",
    note = "put #[projection(..)] on the struct"
)]
pub trait Projection {
    /// The entity of the fields.
    type Entity: Entity;
    /// The name of the struct.
    const NAME: &'static str;
    /// The fields, by their declared names.
    const FIELDS: &'static [&'static str];
}

/// A typed input that converts to values by field position.
pub trait Input {
    /// Calls `set(field, value)` for each member that is present.
    fn write(self, set: &mut dyn FnMut(usize, Value));
}

/// A parameter that a caller may omit. `Omitted` drops its condition; `Null` matches records that
/// hold null.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Param<T> {
    /// The caller omits it.
    #[default]
    Omitted,
    /// The caller sends null.
    Null,
    /// The caller sends a value.
    Value(T),
}

impl<T: FieldType> Param<T> {
    /// Converts to the form of the runtime: `None` if omitted.
    pub fn into_arg(self) -> Option<Value> {
        match self {
            Self::Omitted => None,
            Self::Null => Some(Value::Null),
            Self::Value(v) => Some(v.into_value()),
        }
    }
}

impl From<&str> for Param<String> {
    fn from(value: &str) -> Self {
        Self::Value(value.to_owned())
    }
}

impl<T> From<T> for Param<T> {
    fn from(value: T) -> Self {
        Self::Value(value)
    }
}

/// A record or a list of records, as the type of a described body.
#[doc(hidden)]
pub trait OfRecords {
    /// The entity.
    const DESC: &'static EntityDesc;
    /// Whether it is a list.
    const MANY: bool;
}

impl<E: Entity> OfRecords for E {
    const DESC: &'static EntityDesc = <E as Entity>::DESC;
    const MANY: bool = false;
}

impl<E: Entity> OfRecords for Vec<E> {
    const DESC: &'static EntityDesc = E::DESC;
    const MANY: bool = true;
}
