//! Literals of declarations as values.

use crate::entity::{Field, FieldType};
use crate::{Timestamp, Value};

/// A literal of a field: rustc judges its type.
pub fn literal<F: Field>(value: <F::Ty as FieldType>::Inner) -> Value {
    value.into_value()
}

/// A literal of an item's field.
pub fn item_literal<T: FieldType>(value: T::Inner) -> Value {
    value.into_value()
}

/// A text.
pub fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

/// A list of texts.
pub fn texts(values: &[&str]) -> Value {
    Value::Strings(values.iter().map(|v| (*v).to_owned()).collect())
}

/// The empty list of items.
pub fn no_items() -> Value {
    Value::Json("[]".to_owned())
}

/// A new uuid, version 7.
pub fn uuid() -> Value {
    Value::Text(uuid::Uuid::now_v7().as_hyphenated().to_string())
}

/// A new cuid2.
pub fn cuid() -> Value {
    Value::Text(cuid2::create_id())
}

/// An instant, read at compile time.
pub fn date(millis: i64) -> Value {
    Value::Date(Timestamp::from_millis(millis))
}
