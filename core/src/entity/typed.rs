//! The typed face of an entity: what `#[entity]` implements.

use super::{EntityDesc, FieldType};
use crate::row::Row;
use crate::{DecodeError, Value};

/// A record type; implemented by `#[entity]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an entity",
    label = "not an entity",
    note = "put #[entity] on the struct"
)]
pub trait Entity: Sized + Send + Sync + 'static {
    /// Everything the entity declares.
    const DESC: &'static EntityDesc;
    /// The generated adapter: `Adapter<Self>` of the server with a method per operation; `()`
    /// without the server.
    type Adapter;
    /// The type of the primary key.
    type Id: FieldType;
    /// Input of `create`: one member per creatable field.
    type Create: Input;
    /// Input of `update`: one member per updatable field.
    type Patch: Input;

    /// Builds the record from a row whose values stand in field order.
    ///
    /// # Errors
    /// When a stored value has another form than declared.
    fn read(row: &dyn Row) -> Result<Self, DecodeError>;
}

/// What `#[entity]` writes. It stands apart from [`Entity`] so that rustc does not list all
/// entities where one is missing: the attribute for that is one that crates without the implicit
/// prelude cannot write.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an entity",
    label = "not an entity",
    note = "put #[entity] on the struct"
)]
#[doc(hidden)]
pub trait EntityParts: Sized + Send + Sync + 'static {
    /// As of [`Entity`].
    const DESC: &'static EntityDesc;
    /// As of [`Entity`].
    type Adapter;
    /// As of [`Entity`].
    type Id: FieldType;
    /// As of [`Entity`].
    type Create: Input;
    /// As of [`Entity`].
    type Patch: Input;

    /// As of [`Entity`].
    ///
    /// # Errors
    /// When a stored value has another form than declared.
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

/// What `#[projection]` writes, as [`EntityParts`] is what `#[entity]` does.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a projection",
    label = "not a projection",
    note = "put #[projection(..)] on the struct"
)]
#[doc(hidden)]
pub trait ProjectionParts {
    /// As of [`Projection`].
    type Entity: Entity;
    /// As of [`Projection`].
    const NAME: &'static str;
    /// As of [`Projection`].
    const FIELDS: &'static [&'static str];
}

#[diagnostic::do_not_recommend]
impl<T: ProjectionParts> Projection for T {
    type Entity = T::Entity;
    const NAME: &'static str = T::NAME;
    const FIELDS: &'static [&'static str] = T::FIELDS;
}

/// Fields of an entity under a name, for `output = PostCard`; implemented by `#[projection]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a projection",
    label = "not a projection",
    note = "put #[projection(..)] on the struct"
)]
pub trait Projection {
    /// Whose fields they are.
    type Entity: Entity;
    /// What the struct is called.
    const NAME: &'static str;
    /// The fields, by their names in the declaration.
    const FIELDS: &'static [&'static str];
}

/// Typed input that turns into values by field position.
pub trait Input {
    /// Calls `set(field, value)` for each member that is present.
    fn write(self, set: &mut dyn FnMut(usize, Value));
}

/// A parameter that a caller may leave out: `Omitted` drops its condition, `Null` matches records
/// holding null.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Param<T> {
    /// Not given.
    #[default]
    Omitted,
    /// Given as null.
    Null,
    /// Given.
    Value(T),
}

impl<T: FieldType> Param<T> {
    /// As the runtime takes it: `None` when omitted.
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

/// A record, or a list of records: what a described body can hold besides plain values.
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
