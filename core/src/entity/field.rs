//! Field types: which Rust types a field may have, and the markers that name fields in code.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Comparand, Entity, FieldDesc};
use crate::filter::{Filter, Op, Operand, Source};
use crate::validate::canonical_value;
use crate::{DecodeError, Timestamp, Value, ValueRef};

/// What a field holds; decides wire form, storage form and the operators it has.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Text.
    String,
    /// `true` or `false`.
    Boolean,
    /// A whole number within ±(2^53−1).
    Integer,
    /// A finite double.
    Number,
    /// An instant.
    Date,
    /// One of a closed set of texts.
    Enum(&'static EnumDesc),
    /// A list of strings.
    StringArray,
    /// Any JSON.
    Json,
    /// A list of objects.
    Items(&'static [FieldDesc]),
}

impl Kind {
    /// The contract's name of the type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Date => "date",
            Self::Enum(_) => "enum",
            Self::StringArray => "string_array",
            Self::Json => "json",
            Self::Items(_) => "items",
        }
    }

    /// Whether a value of this type may meet a field of another: the same type, or an element of a
    /// string array.
    #[doc(hidden)]
    pub fn meets(self, field: Self) -> bool {
        match (self, field) {
            (Self::Enum(a), Self::Enum(b)) => a.variants == b.variants,
            (Self::String, Self::StringArray) => true,
            (a, b) => a.name() == b.name(),
        }
    }

    /// The fields of the items; none for other types.
    pub const fn item_fields(self) -> &'static [FieldDesc] {
        match self {
            Self::Items(fields) => fields,
            _ => &[],
        }
    }

    /// Whether values compare: everything but lists and JSON.
    pub const fn is_scalar(self) -> bool {
        !matches!(self, Self::StringArray | Self::Json | Self::Items(_))
    }
}

/// The variants of an enum field, as they stand on the wire.
#[derive(Debug)]
pub struct EnumDesc {
    /// `Status`.
    pub name: &'static str,
    /// In declaration order.
    pub variants: &'static [&'static str],
}

/// A Rust type that a field may have.
///
/// Implemented for `String`, [`Uuid`], `bool`, `i64`, `f64`, [`Timestamp`], `Vec<String>`,
/// `serde_json::Value`, [`Json<T>`], `#[derive(FieldEnum)]` enums, `Vec` of a `#[derive(Embedded)]`
/// struct, and `Option` of each.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an entity field",
    label = "not a field type; an enum of yours is one with `#[derive(FieldEnum)]`, and a whole number is an `i64`",
    note = "use String, Uuid, bool, i64, f64, Timestamp, Vec<String>, Json<T>, a #[derive(FieldEnum)] enum, a Vec of a #[derive(Embedded)] struct, or an Option of one",
    note = "if `{Self}` is an entity, its key is the field: `author_id: String`, with `#[entity(belongs_to(author: {Self}, key = author_id))]`"
)]
pub trait FieldType: Sized {
    /// What it holds.
    const KIND: Kind;
    /// Whether it is an `Option`.
    const OPTIONAL: bool = false;
    /// The type of a value that is there: `T` of `Option<T>`, else the type itself.
    type Inner: FieldType;
    /// To a dynamic value.
    fn into_value(self) -> Value;
    /// What a computed field of the type holds while its value is worked out.
    #[doc(hidden)]
    fn blank() -> ValueRef<'static> {
        match Self::KIND {
            _ if Self::OPTIONAL => ValueRef::Null,
            Kind::String => ValueRef::Text(""),
            Kind::Boolean => ValueRef::Bool(false),
            Kind::Integer => ValueRef::Int(0),
            Kind::Number => ValueRef::Float(0.0),
            Kind::Date => ValueRef::Date(Timestamp::from_millis(0)),
            Kind::Enum(desc) => ValueRef::Text(desc.variants.first().copied().unwrap_or_default()),
            Kind::StringArray | Kind::Items(_) => ValueRef::Strings(&[]),
            Kind::Json => ValueRef::Json("null"),
        }
    }
    /// From a stored value.
    ///
    /// # Errors
    /// When the stored value has another form.
    fn from_value(value: ValueRef<'_>) -> Result<Self, DecodeError>;
}

/// The type of a value that a field holds when it holds one: `Status` for `post::status`, whether
/// or not it is optional.
pub type ValueOf<F> = <<F as Field>::Ty as FieldType>::Inner;

/// The marker of one field, made by `#[entity]`: `post::status`.
///
/// Markers build filters in code: `post::status.eq(Status::Draft)`.
pub trait Field: Sized + 'static {
    /// The entity it belongs to.
    type Entity: Entity;
    /// Its Rust type.
    type Ty: FieldType;
    /// Its position.
    const INDEX: usize;

    /// Equality; for `None`, records holding null.
    ///
    /// `value` is of the field's type, or of one that turns `Into` it; of an optional field with or
    /// without `Some`: see [`Comparand`].
    fn eq<M>(self, value: impl Comparand<Self::Ty, M>) -> Filter {
        condition::<Self, M>(Op::Eq, value)
    }
    /// Inequality; records holding null match.
    fn ne<M>(self, value: impl Comparand<Self::Ty, M>) -> Filter {
        condition::<Self, M>(Op::Ne, value)
    }
    /// Greater than; null never matches.
    fn gt<M>(self, value: impl Comparand<Self::Ty, M>) -> Filter {
        condition::<Self, M>(Op::Gt, value)
    }
    /// Greater than or equal; null never matches.
    fn gte<M>(self, value: impl Comparand<Self::Ty, M>) -> Filter {
        condition::<Self, M>(Op::Gte, value)
    }
    /// Less than; null never matches.
    fn lt<M>(self, value: impl Comparand<Self::Ty, M>) -> Filter {
        condition::<Self, M>(Op::Lt, value)
    }
    /// Less than or equal; null never matches.
    fn lte<M>(self, value: impl Comparand<Self::Ty, M>) -> Filter {
        condition::<Self, M>(Op::Lte, value)
    }
    /// Membership in a list.
    fn one_of<M>(self, values: impl IntoIterator<Item = impl Comparand<Self::Ty, M>>) -> Filter {
        list::<Self, M>(Op::In, values)
    }
    /// Absence from a list; records holding null match unless the list holds null.
    fn none_of<M>(self, values: impl IntoIterator<Item = impl Comparand<Self::Ty, M>>) -> Filter {
        list::<Self, M>(Op::Nin, values)
    }
}

fn condition<F: Field, M>(op: Op, value: impl Comparand<F::Ty, M>) -> Filter {
    Filter::cond(
        F::INDEX,
        op,
        Operand::One(Source::Value(stored::<F>(value.comparand()))),
    )
}

fn list<F: Field, M>(op: Op, values: impl IntoIterator<Item = impl Comparand<F::Ty, M>>) -> Filter {
    let values = values
        .into_iter()
        .map(|value| Source::Value(stored::<F>(value.comparand())))
        .collect();
    Filter::cond(F::INDEX, op, Operand::List(values))
}

/// A value as it is stored.
fn stored<F: Field>(value: F::Ty) -> Value {
    canonical_value(&F::Entity::DESC.fields[F::INDEX], value.into_value())
}

/// An enum whose variants are the values of a field; derived by `#[derive(FieldEnum)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an enum field",
    label = "not a `FieldEnum`",
    note = "`transition` moves a field between the variants of a `#[derive(FieldEnum)]` enum, or between values of a bool, i64 or String"
)]
pub trait FieldEnum: Sized + Copy + 'static {
    /// The variants' wire names.
    const DESC: &'static EnumDesc;
    /// The variants, in the same order.
    const ALL: &'static [Self];
    /// Position of the variant in both.
    fn index(self) -> usize;

    /// The wire name.
    fn as_str(self) -> &'static str {
        Self::DESC.variants[self.index()]
    }
    /// The variant with this wire name.
    fn from_str(text: &str) -> Option<Self> {
        let index = Self::DESC.variants.iter().position(|v| *v == text)?;
        Self::ALL.get(index).copied()
    }
}

/// A struct that lives in a list inside a record; derived by `#[derive(Embedded)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an item of an entity field",
    label = "not an item struct",
    note = "put #[derive(Embedded)] on it if it is a struct of yours; plain values that are no texts are a `Json<Vec<{Self}>>`",
    note = "if `{Self}` is an entity, its records name this one: `#[entity(has_many(items: {Self}, key = owner_id))]`"
)]
pub trait Embedded: Sized + Serialize + DeserializeOwned {
    /// Its fields.
    const FIELDS: &'static [FieldDesc];
    /// Changes of one item: `RevisionPatch` for `Revision`.
    type Patch: ItemPatch;
}

/// Changes of one item, made beside its struct by `#[derive(Embedded)]`.
pub trait ItemPatch {
    /// Hands over the members that are present, by their names on the wire.
    fn members(self, put: &mut dyn FnMut(&'static str, Value));
}

/// A list of items; for the types of generated methods.
pub trait Items {
    /// One item.
    type Item: Embedded;
}

impl<T: Embedded> Items for Vec<T> {
    type Item = T;
}

/// The type of one item of a field: `Revision` for `post::revisions`.
pub type ItemOf<F> = <ValueOf<F> as Items>::Item;

/// The type of changes of one item of a field: `RevisionPatch` for `post::revisions`.
pub type ItemPatchOf<F> = <ItemOf<F> as Embedded>::Patch;

/// A serde type stored as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Json<T>(pub T);

/// A string that is a hyphenated uuid: in lower case, however it was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Uuid(String);

impl<'de> serde::Deserialize<'de> for Uuid {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("must be a hyphenated uuid"))
    }
}

impl Uuid {
    /// A fresh version 7 uuid.
    pub fn new_v7() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }

    /// Reads a uuid in hyphenated form.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 36)
            .then(|| uuid::Uuid::try_parse(text).ok())
            .flatten()
            .map(|u| Self(u.to_string()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Uuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl FieldType for String {
    type Inner = Self;
    const KIND: Kind = Kind::String;
    fn into_value(self) -> Value {
        Value::Text(self)
    }
    fn from_value(value: ValueRef<'_>) -> Result<Self, DecodeError> {
        match value {
            ValueRef::Text(t) => Ok(t.to_owned()),
            _ => Err(DecodeError::expected("string")),
        }
    }
}

impl FieldType for Uuid {
    type Inner = Self;
    const KIND: Kind = Kind::String;
    fn into_value(self) -> Value {
        Value::Text(self.0)
    }
    fn from_value(value: ValueRef<'_>) -> Result<Self, DecodeError> {
        match value {
            ValueRef::Text(t) => Ok(Self(t.to_owned())),
            _ => Err(DecodeError::expected("uuid")),
        }
    }
}

impl FieldType for bool {
    type Inner = Self;
    const KIND: Kind = Kind::Boolean;
    fn into_value(self) -> Value {
        Value::Bool(self)
    }
    fn from_value(value: ValueRef<'_>) -> Result<Self, DecodeError> {
        match value {
            ValueRef::Bool(b) => Ok(b),
            _ => Err(DecodeError::expected("boolean")),
        }
    }
}

impl FieldType for i64 {
    type Inner = Self;
    const KIND: Kind = Kind::Integer;
    fn into_value(self) -> Value {
        Value::Int(self)
    }
    fn from_value(value: ValueRef<'_>) -> Result<Self, DecodeError> {
        match value {
            ValueRef::Int(i) => Ok(i),
            _ => Err(DecodeError::expected("integer")),
        }
    }
}

impl FieldType for f64 {
    type Inner = Self;
    const KIND: Kind = Kind::Number;
    fn into_value(self) -> Value {
        // Negative zero is stored as zero; adding zero changes nothing else.
        Value::Float(self + 0.0)
    }
    fn from_value(value: ValueRef<'_>) -> Result<Self, DecodeError> {
        match value {
            ValueRef::Float(f) => Ok(f),
            ValueRef::Int(i) => Ok(i as f64),
            _ => Err(DecodeError::expected("number")),
        }
    }
}

impl FieldType for Timestamp {
    type Inner = Self;
    const KIND: Kind = Kind::Date;
    fn into_value(self) -> Value {
        Value::Date(self)
    }
    fn from_value(value: ValueRef<'_>) -> Result<Self, DecodeError> {
        match value {
            ValueRef::Date(d) => Ok(d),
            _ => Err(DecodeError::expected("date")),
        }
    }
}

impl FieldType for Vec<String> {
    type Inner = Self;
    const KIND: Kind = Kind::StringArray;
    fn into_value(self) -> Value {
        Value::Strings(self)
    }
    fn from_value(value: ValueRef<'_>) -> Result<Self, DecodeError> {
        match value {
            ValueRef::Strings(list) => Ok(list.to_vec()),
            ValueRef::Json(text) => {
                serde_json::from_str(text).map_err(|_| DecodeError::expected("list of strings"))
            }
            _ => Err(DecodeError::expected("list of strings")),
        }
    }
}

impl FieldType for serde_json::Value {
    type Inner = Self;
    const KIND: Kind = Kind::Json;
    fn into_value(self) -> Value {
        Value::Json(self.to_string())
    }
    fn from_value(value: ValueRef<'_>) -> Result<Self, DecodeError> {
        from_json(value, "json")
    }
}

impl<T: Serialize + DeserializeOwned> FieldType for Json<T> {
    type Inner = Self;
    const KIND: Kind = Kind::Json;
    fn into_value(self) -> Value {
        to_json(&self.0)
    }
    fn from_value(value: ValueRef<'_>) -> Result<Self, DecodeError> {
        from_json(value, "value of its type").map(Json)
    }
}

impl<T: Embedded> FieldType for Vec<T> {
    type Inner = Self;
    const KIND: Kind = Kind::Items(T::FIELDS);
    fn into_value(self) -> Value {
        to_json(&self)
    }
    fn from_value(value: ValueRef<'_>) -> Result<Self, DecodeError> {
        from_json(value, "list of items")
    }
}

impl<T: FieldType> FieldType for Option<T> {
    type Inner = T::Inner;
    const KIND: Kind = T::KIND;
    const OPTIONAL: bool = true;
    fn into_value(self) -> Value {
        self.map_or(Value::Null, T::into_value)
    }
    fn from_value(value: ValueRef<'_>) -> Result<Self, DecodeError> {
        if value.is_null() {
            Ok(None)
        } else {
            T::from_value(value).map(Some)
        }
    }
}

// A type whose Serialize fails (a map with non-string keys, say) is stored as null; validation then
// refuses it.
fn to_json<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).map_or(Value::Null, |v| Value::Json(v.to_string()))
}

fn from_json<T: DeserializeOwned>(
    value: ValueRef<'_>,
    expected: &'static str,
) -> Result<T, DecodeError> {
    match value {
        ValueRef::Json(text) => {
            serde_json::from_str(text).map_err(|_| DecodeError::expected(expected))
        }
        _ => Err(DecodeError::expected(expected)),
    }
}
