//! Field types: the Rust types that a field may have.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{EnumDesc, FieldDesc, Kind};
use crate::{DecodeError, Timestamp, Value, ValueRef};

/// A Rust type that a field may have.
///
/// Implemented for `String`, [`Uuid`], `bool`, `i64`, `f64`, [`Timestamp`], `Vec<String>`,
/// `serde_json::Value`, [`Json<T>`], `#[derive(FieldEnum)]` enums, `Vec` of a `#[derive(Embedded)]`
/// struct, and `Option` of each.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an entity field",
    label = "not a field type; derive `FieldEnum` for an enum, and use `i64` for integers",
    note = "use String, Uuid, bool, i64, f64, Timestamp, Vec<String>, Json<T>, a #[derive(FieldEnum)] enum, a Vec of a #[derive(Embedded)] struct, or an Option of one",
    note = "if `{Self}` is an entity, store its key in the field: `author_id: String`, with `#[entity(belongs_to(author: {Self}, key = author_id))]`"
)]
pub trait FieldType: Sized {
    /// The kind of the field.
    const KIND: Kind;
    /// Whether this type is an `Option`.
    const OPTIONAL: bool = false;
    /// Whether every JSON value is valid for this type, so that values are not checked against it.
    #[doc(hidden)]
    const ANY: bool = false;
    /// The type inside the `Option` for `Option<T>`, else the type itself.
    type Inner: FieldType;
    /// Converts to a dynamic value.
    fn into_value(self) -> Value;
    /// The placeholder in a computed field of this type while its value is computed.
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
    /// Converts from a stored value.
    ///
    /// # Errors
    /// If the stored value has another form.
    fn from_value(value: ValueRef<'_>) -> Result<Self, DecodeError>;
}

/// An enum whose variants are the values of a field; derived by `#[derive(FieldEnum)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an enum field",
    label = "not a `FieldEnum`",
    note = "`transition` changes a `#[derive(FieldEnum)]` enum, a bool, an i64 or a String"
)]
pub trait FieldEnum: Sized + Copy + 'static {
    /// The wire names of the variants.
    const DESC: &'static EnumDesc;
    /// The variants, in the same order.
    const ALL: &'static [Self];
    /// The position of the variant in both lists.
    fn index(self) -> usize;

    /// The wire name.
    fn as_str(self) -> &'static str {
        Self::DESC.variants[self.index()]
    }
    /// Returns the variant with this wire name.
    fn from_str(text: &str) -> Option<Self> {
        let index = Self::DESC.variants.iter().position(|v| *v == text)?;
        Self::ALL.get(index).copied()
    }
}

/// A struct that is stored in a list inside a record; derived by `#[derive(Embedded)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an item of an entity field",
    label = "not an item struct",
    note = "put #[derive(Embedded)] on it if it is a struct of yours; use `Json<Vec<{Self}>>` for a list of plain values that are not strings",
    note = "if `{Self}` is an entity, declare a relation to it: `#[entity(has_many(items: {Self}, key = owner_id))]`"
)]
pub trait Embedded: Sized + Serialize + DeserializeOwned {
    /// Its fields.
    const FIELDS: &'static [FieldDesc];
    /// The type of a partial change of one item: `RevisionPatch` for `Revision`.
    type Patch: ItemPatch;
}

/// A partial change of one item. `#[derive(Embedded)]` generates it with the struct.
pub trait ItemPatch {
    /// Passes each present member to `put`, by its wire name.
    fn members(self, put: &mut dyn FnMut(&'static str, Value));
}

/// A list of items; used in the types of generated methods.
pub trait Items {
    /// The type of one item.
    type Item: Embedded;
}

impl<T: Embedded> Items for Vec<T> {
    type Item = T;
}

/// A serde type stored as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Json<T>(pub T);

/// A hyphenated UUID. It is always stored in lower case.
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
    /// Creates a new version 7 UUID.
    pub fn new_v7() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }

    /// Parses a hyphenated UUID.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 36)
            .then(|| uuid::Uuid::try_parse(text).ok())
            .flatten()
            .map(|u| Self(u.to_string()))
    }

    /// Returns the text.
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
    const ANY: bool = true;
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
    const ANY: bool = T::ANY;
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

// If a type's `Serialize` fails (for example for a map with non-string keys), the result is a
// boolean, which validation refuses for a JSON field. Null would be wrong: an optional field would
// store it.
fn to_json<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).map_or(Value::Bool(false), |v| Value::Json(v.to_string()))
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
