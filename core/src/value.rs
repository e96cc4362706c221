//! Values of fields, as HTTP, typed code and stores exchange them.

use std::borrow::Cow;

use crate::timestamp::Timestamp;

/// An owned value of a field, a parameter or a binding.
///
/// Integers are within ±(2^53−1), numbers are finite, dates are milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Value {
    /// No value. Only optional fields can have it.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A finite double.
    Float(f64),
    /// Text: strings, enum variants and uuids.
    Text(String),
    /// An instant.
    Date(Timestamp),
    /// A list of strings.
    Strings(Vec<String>),
    /// Canonical JSON text: `json` and `items` fields.
    Json(String),
}

/// A borrowed value. A store returns it while it reads a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// No value.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A finite double.
    Float(f64),
    /// Text that still has to be quoted when written as JSON.
    Text(&'a str),
    /// An instant.
    Date(Timestamp),
    /// A list of strings.
    Strings(&'a [String]),
    /// JSON text. Stores that keep string arrays as JSON return them in this form.
    Json(&'a str),
}

impl Value {
    /// Borrows the value.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Bool(b) => ValueRef::Bool(*b),
            Self::Int(i) => ValueRef::Int(*i),
            Self::Float(f) => ValueRef::Float(*f),
            Self::Text(t) => ValueRef::Text(t),
            Self::Date(d) => ValueRef::Date(*d),
            Self::Strings(list) => ValueRef::Strings(list),
            Self::Json(text) => ValueRef::Json(text),
        }
    }

    /// Whether this is [`Value::Null`].
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The whole number, if it is one.
    pub fn as_int(&self) -> Option<i64> {
        if let Self::Int(number) = self {
            Some(*number)
        } else {
            None
        }
    }

    /// The text of a [`Value::Text`].
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(t) => Some(t),
            _ => None,
        }
    }
}

impl ValueRef<'_> {
    /// Returns an owned copy.
    pub fn to_owned(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(b) => Value::Bool(b),
            Self::Int(i) => Value::Int(i),
            Self::Float(f) => Value::Float(f),
            Self::Text(t) => Value::Text(t.to_owned()),
            Self::Date(d) => Value::Date(d),
            Self::Strings(list) => Value::Strings(list.to_vec()),
            Self::Json(text) => Value::Json(text.to_owned()),
        }
    }

    /// Whether this is [`ValueRef::Null`].
    pub fn is_null(self) -> bool {
        matches!(self, Self::Null)
    }
}

/// A stored value did not have the form its field declares.
///
/// It means that another program wrote the row. A request that reads it gets 500.
#[derive(Debug, Clone, thiserror::Error)]
#[error("stored value is not a {expected}")]
pub struct DecodeError {
    /// The declared type of the field, as text.
    pub expected: Cow<'static, str>,
}

impl DecodeError {
    /// Creates the error with the expected type.
    pub fn expected(what: impl Into<Cow<'static, str>>) -> Self {
        Self {
            expected: what.into(),
        }
    }
}
