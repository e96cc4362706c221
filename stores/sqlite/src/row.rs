//! The current row of an SQLite statement.

use std::cell::{Cell, OnceCell};

use rusqlite::types::ValueRef as Sql;

use linchpin_core::entity::{EntityDesc, Flags, Kind};
use linchpin_core::store::Row;
use linchpin_core::validate::MAX_INTEGER;
use linchpin_core::{Error, Result, Timestamp, Value, ValueRef};
use linchpin_sql::replaced::ReplacedField;

/// The columns of an entity, in field order.
///
/// Other programs can write to the file. A value that this store cannot have written is remembered
/// while the row is read; [`SqliteRow::validity`] returns an error for it.
pub(super) struct SqliteRow<'a, 's> {
    row: &'a rusqlite::Row<'s>,
    entity: &'static EntityDesc,
    /// The fields that also have an earlier column, and their converted values.
    replaced: &'a [ReplacedField],
    converted: Box<[OnceCell<Value>]>,
    fault: Cell<Option<Fault>>,
    /// The error of the conversion of an earlier value.
    refused: Cell<Option<Error>>,
}

/// A field with a value that it cannot have.
#[derive(Clone, Copy)]
struct Fault {
    field: usize,
    what: &'static str,
}

impl<'a, 's> SqliteRow<'a, 's> {
    pub(super) fn new(
        row: &'a rusqlite::Row<'s>,
        entity: &'static EntityDesc,
        replaced: &'a [ReplacedField],
    ) -> Self {
        Self {
            row,
            entity,
            replaced,
            converted: replaced.iter().map(|_| OnceCell::new()).collect(),
            fault: Cell::new(None),
            refused: Cell::new(None),
        }
    }

    /// Checks that every value read from the row is valid for its field.
    ///
    /// # Errors
    /// `internal`; the cause names the column, the record and the problem, but never the value.
    /// `schema_pending` if the value of an earlier column cannot be converted.
    pub(super) fn validity(&self) -> Result<()> {
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        self.fault
            .take()
            .map_or(Ok(()), |fault| Err(self.error(fault)))
    }

    #[cold]
    fn error(&self, Fault { field, what }: Fault) -> Error {
        let entity = self.entity;
        let key = entity.primary_field();
        let hidden = key.flags.has(Flags::PRIVATE.or(Flags::SENSITIVE));
        let record = match self.value(entity.primary) {
            ValueRef::Text(text) if !hidden => format!(" of the record {text:?}"),
            ValueRef::Int(id) if !hidden => format!(" of the record {id}"),
            _ => String::new(),
        };
        let column = entity.fields.get(field).map_or("?", |f| f.column);
        Error::internal(format!(
            "{}.{column}{record} {what}; another program has written to the database",
            entity.storage_name
        ))
    }

    #[cold]
    #[inline(never)]
    fn fault(&self, field: usize, what: &'static str) -> ValueRef<'static> {
        self.fault.set(Some(Fault { field, what }));
        ValueRef::Null
    }
}

/// Whether any byte is zero. For speed it tests eight bytes at a time without an early exit: it
/// runs for every text that is read.
fn holds_nul(bytes: &[u8]) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    let zeros = |chunk: &[u8; 8]| {
        let word = u64::from_le_bytes(*chunk);
        // This sets the high bit of the lowest zero byte, and perhaps of some bytes above it.
        word.wrapping_sub(ONES) & !word & (ONES << 7)
    };
    match bytes.last_chunk::<8>() {
        // The last eight bytes cover the remainder of the chunks.
        Some(last) => {
            bytes
                .as_chunks::<8>()
                .0
                .iter()
                .fold(zeros(last), |found, chunk| found | zeros(chunk))
                != 0
        }
        None => bytes.contains(&0),
    }
}

/// Whether a text is one JSON value. The value is not built in memory.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

impl Row for SqliteRow<'_, '_> {
    fn value(&self, field: usize) -> ValueRef<'_> {
        if !self.replaced.is_empty()
            && let Some(number) = self
                .replaced
                .iter()
                .position(|replaced| replaced.field == field)
        {
            return self.converted(number);
        }
        self.own(field)
    }
}

impl SqliteRow<'_, '_> {
    /// The value in the column of a field.
    fn own(&self, field: usize) -> ValueRef<'_> {
        match self.entity.fields.get(field) {
            Some(desc) => self.read(field, field, (desc.kind, desc.optional)),
            None => self.fault(field, "was not read"),
        }
    }

    /// The value of a field that also has an earlier column.
    #[cold]
    fn converted(&self, number: usize) -> ValueRef<'_> {
        let replaced = &self.replaced[number];
        match self.row.get_ref(replaced.at) {
            Ok(Sql::Integer(0)) => return self.own(replaced.field),
            Ok(Sql::Integer(1)) => {}
            _ => return self.fault(replaced.field, "was not read"),
        }
        let value = self.converted[number].get_or_init(|| {
            let earlier = self.read(
                replaced.field,
                replaced.at + 1,
                (replaced.kind, replaced.columns.optional),
            );
            replaced.converted(earlier).unwrap_or_else(|error| {
                self.refused.set(Some(error));
                Value::Null
            })
        });
        value.as_ref()
    }

    /// Reads a column for a field.
    #[inline]
    fn read(&self, field: usize, column: usize, (kind, optional): (Kind, bool)) -> ValueRef<'_> {
        let Ok(value) = self.row.get_ref(column) else {
            return self.fault(field, "was not read");
        };
        match (value, kind) {
            (Sql::Text(bytes), kind) => match (std::str::from_utf8(bytes), kind) {
                (Err(_), _) => self.fault(field, "is not UTF-8"),
                (Ok(_), Kind::String) if holds_nul(bytes) => {
                    self.fault(field, "contains a NUL character")
                }
                (Ok(text), Kind::String) => ValueRef::Text(text),
                (Ok(text), Kind::Enum(of)) if of.variants.contains(&text) => ValueRef::Text(text),
                (Ok(_), Kind::Enum(_)) => self.fault(field, "is not a variant of its enum"),
                (Ok(text), Kind::StringArray | Kind::Items(_)) if !text.starts_with('[') => {
                    self.fault(field, "is not a JSON array")
                }
                (Ok(text), Kind::StringArray | Kind::Items(_) | Kind::Json) if is_json(text) => {
                    ValueRef::Json(text)
                }
                (Ok(_), Kind::StringArray | Kind::Items(_) | Kind::Json) => {
                    self.fault(field, "is not JSON")
                }
                (Ok(_), Kind::Boolean | Kind::Integer | Kind::Number | Kind::Date) => {
                    self.fault(field, "is text")
                }
            },
            (Sql::Integer(i), Kind::Integer) if (-MAX_INTEGER..=MAX_INTEGER).contains(&i) => {
                ValueRef::Int(i)
            }
            (Sql::Integer(_), Kind::Integer) => self.fault(field, "is beyond 2^53 - 1"),
            (Sql::Integer(i), Kind::Date)
                if (Timestamp::MIN.millis()..=Timestamp::MAX.millis()).contains(&i) =>
            {
                ValueRef::Date(Timestamp::from_millis(i))
            }
            (Sql::Integer(_), Kind::Date) => self.fault(field, "is not within the years 1 to 9999"),
            (Sql::Integer(i @ (0 | 1)), Kind::Boolean) => ValueRef::Bool(i == 1),
            (Sql::Integer(_), Kind::Boolean) => self.fault(field, "is neither 0 nor 1"),
            (Sql::Integer(i), Kind::Number) => ValueRef::Float(i as f64),
            (Sql::Real(f), Kind::Number) if f.is_finite() => ValueRef::Float(f),
            (Sql::Real(_), Kind::Number) => self.fault(field, "is infinite"),
            (Sql::Null, _) if optional => ValueRef::Null,
            (Sql::Null, _) => self.fault(field, "is null"),
            (Sql::Integer(_) | Sql::Real(_) | Sql::Blob(_), _) => {
                self.fault(field, "has another type")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::holds_nul;

    #[test]
    fn a_nul_is_found_at_every_position() {
        for length in 0..40 {
            for fill in [1, b'a', 0x80, 0xff] {
                let mut bytes = vec![fill; length];
                assert!(!holds_nul(&bytes), "{length} of {fill}");
                for at in 0..length {
                    bytes[at] = 0;
                    assert!(holds_nul(&bytes), "{at} of {length} of {fill}");
                    bytes[at] = fill;
                }
            }
        }
    }
}
