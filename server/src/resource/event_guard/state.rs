//! The values of a record that the conditions of an event need.

use std::fmt;

use serde_json::{Map, Value as Json};

use crate::entity::{EntityDesc, FieldSet, Kind};
use crate::filter::Filter;
use crate::filter::eval::matches;
use crate::store::Row;
use crate::{Timestamp, Value, ValueRef};

/// The values of a record that the conditions read.
pub struct EventState(pub(super) Box<[(usize, Value)]>);

impl EventState {
    /// Reads fields of a record from an object with wire names, such as
    /// [`EntityEvent::after`](crate::EntityEvent::after), for a plugin's own conditions. `None` if
    /// one of them is missing or has another type.
    pub fn read(desc: &EntityDesc, fields: FieldSet, record: &Map<String, Json>) -> Option<Self> {
        let wanted = (0..desc.fields.len()).filter(|at| fields.has(*at));
        let value = |at: usize| {
            let field = &desc.fields[at];
            Some((at, value_of(field.kind, record.get(field.wire)?)?))
        };
        wanted.map(value).collect::<Option<_>>().map(Self)
    }

    /// Whether the record satisfies a condition that depends on its fields alone.
    pub fn satisfies(&self, condition: &Filter) -> bool {
        matches(condition, self, &[])
    }

    /// The text of a field that contains a key; `None` for null, and for a field that was not read.
    pub fn key(&self, field: usize) -> Option<String> {
        self.get(field).and_then(text_of)
    }

    pub(super) fn get(&self, field: usize) -> Option<&Value> {
        let found = self.0.iter().find(|(at, _)| *at == field);
        found.map(|(_, value)| value)
    }
}

impl Row for EventState {
    fn value(&self, field: usize) -> ValueRef<'_> {
        self.get(field).map_or(ValueRef::Null, Value::as_ref)
    }
}

impl fmt::Debug for EventState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventState").finish_non_exhaustive()
    }
}

/// The value of a field, from JSON in the form of the store's rows; `None` for another type.
pub(super) fn value_of(kind: Kind, json: &Json) -> Option<Value> {
    Some(match (kind, json) {
        (_, Json::Null) => Value::Null,
        (Kind::String | Kind::Enum(_), Json::String(text)) => Value::Text(text.clone()),
        (Kind::Boolean, Json::Bool(value)) => Value::Bool(*value),
        (Kind::Integer, Json::Number(number)) => Value::Int(number.as_i64()?),
        (Kind::Number, Json::Number(number)) => Value::Float(number.as_f64()?),
        (Kind::Date, Json::String(text)) => Value::Date(Timestamp::parse(text).ok()?),
        (Kind::StringArray, Json::Array(items)) => {
            let text = |item: &Json| item.as_str().map(str::to_owned);
            Value::Strings(items.iter().map(text).collect::<Option<_>>()?)
        }
        (Kind::Json | Kind::Items(_), value) => Value::Json(value.to_string()),
        _ => return None,
    })
}

/// The text of a value of a tenant or of a scope; `None` for null.
pub(super) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Text(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        other => {
            let mut json = Vec::new();
            crate::json::write_value(other.as_ref(), &mut json);
            Some(String::from_utf8_lossy(&json).into_owned())
        }
    }
}
