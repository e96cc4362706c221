//! A row while SQLite stands on it.

use std::cell::Cell;

use rusqlite::types::ValueRef as Sql;

use crate::entity::{EntityDesc, Flags, Kind};
use crate::store::Row;
use crate::validate::MAX_INTEGER;
use crate::{Error, Result, Timestamp, ValueRef};

/// The columns of an entity, in field order.
///
/// A file can be written by others. What could not have been written here is noted while the row is read, and
/// [`SqliteRow::sound`] makes an error of it.
pub(super) struct SqliteRow<'a, 's> {
    row: &'a rusqlite::Row<'s>,
    entity: &'static EntityDesc,
    fault: Cell<Option<Fault>>,
}

/// Which field holds what it cannot hold.
#[derive(Clone, Copy)]
struct Fault {
    field: usize,
    what: &'static str,
}

impl<'a, 's> SqliteRow<'a, 's> {
    pub(super) fn new(row: &'a rusqlite::Row<'s>, entity: &'static EntityDesc) -> Self {
        Self { row, entity, fault: Cell::new(None) }
    }

    /// Whether everything that was read of the row is a value of its field.
    ///
    /// # Errors
    /// `internal`; the cause names the column, the record and what is wrong, never the value.
    pub(super) fn sound(&self) -> Result<()> {
        self.fault.take().map_or(Ok(()), |fault| Err(self.error(fault)))
    }

    #[cold]
    fn error(&self, Fault { field, what }: Fault) -> Error {
        let entity = self.entity;
        let key = entity.primary_field();
        let hidden = key.flags.has(Flags::PRIVATE.or(Flags::SENSITIVE));
        let record = match self.row.get_ref(entity.primary) {
            Ok(Sql::Text(text)) if !hidden => format!(" of the record {:?}", String::from_utf8_lossy(text)),
            Ok(Sql::Integer(id)) if !hidden => format!(" of the record {id}"),
            _ => String::new(),
        };
        let column = entity.fields.get(field).map_or("?", |f| f.column);
        Error::internal(format!("{}.{column}{record} {what}; something else has written to the database", entity.storage_name))
    }

    fn read(&self, field: usize) -> Result<ValueRef<'_>, &'static str> {
        let (Ok(value), Some(desc)) = (self.row.get_ref(field), self.entity.fields.get(field)) else { return Err("was not read") };
        Ok(match (value, desc.kind) {
            (Sql::Null, _) if desc.optional => ValueRef::Null,
            (Sql::Null, _) => return Err("is null"),
            (Sql::Text(bytes), kind) => {
                let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8")?;
                match kind {
                    Kind::String if bytes.contains(&0) => return Err("holds a NUL"),
                    Kind::String => ValueRef::Text(text),
                    Kind::Enum(desc) if desc.variants.contains(&text) => ValueRef::Text(text),
                    Kind::Enum(_) => return Err("is no variant of its enum"),
                    Kind::StringArray | Kind::Items(_) if !text.starts_with('[') => return Err("is not a JSON array"),
                    Kind::StringArray | Kind::Items(_) | Kind::Json if is_json(text) => ValueRef::Json(text),
                    Kind::StringArray | Kind::Items(_) | Kind::Json => return Err("is not JSON"),
                    Kind::Boolean | Kind::Integer | Kind::Number | Kind::Date => return Err("is text"),
                }
            }
            (Sql::Integer(i), Kind::Integer) if (-MAX_INTEGER..=MAX_INTEGER).contains(&i) => ValueRef::Int(i),
            (Sql::Integer(_), Kind::Integer) => return Err("is beyond 2^53 - 1"),
            (Sql::Integer(i @ (0 | 1)), Kind::Boolean) => ValueRef::Bool(i == 1),
            (Sql::Integer(_), Kind::Boolean) => return Err("is neither 0 nor 1"),
            (Sql::Integer(i), Kind::Date) if (Timestamp::MIN.millis()..=Timestamp::MAX.millis()).contains(&i) => {
                ValueRef::Date(Timestamp::from_millis(i))
            }
            (Sql::Integer(_), Kind::Date) => return Err("is not within the years 1 to 9999"),
            (Sql::Integer(i), Kind::Number) => ValueRef::Float(i as f64),
            (Sql::Real(f), Kind::Number) if f.is_finite() => ValueRef::Float(f),
            (Sql::Real(_), Kind::Number) => return Err("is infinite"),
            (Sql::Integer(_) | Sql::Real(_) | Sql::Blob(_), _) => return Err("has another type"),
        })
    }
}

/// Whether a text is one JSON value. Nothing is built of it.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

impl Row for SqliteRow<'_, '_> {
    fn value(&self, field: usize) -> ValueRef<'_> {
        self.read(field).unwrap_or_else(|what| {
            self.fault.set(Some(Fault { field, what }));
            ValueRef::Null
        })
    }
}
