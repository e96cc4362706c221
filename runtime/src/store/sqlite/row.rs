//! A row while SQLite stands on it.

use rusqlite::types::ValueRef as Sql;

use crate::entity::{EntityDesc, Kind};
use crate::store::Row;
use crate::{Timestamp, ValueRef};

/// The columns of an entity, in field order.
pub(super) struct SqliteRow<'a, 's> {
    pub(super) row: &'a rusqlite::Row<'s>,
    pub(super) entity: &'static EntityDesc,
}

impl Row for SqliteRow<'_, '_> {
    fn value(&self, field: usize) -> ValueRef<'_> {
        let (Ok(value), Some(desc)) = (self.row.get_ref(field), self.entity.fields.get(field)) else { return ValueRef::Null };
        match (value, desc.kind) {
            (Sql::Integer(i), Kind::Boolean) => ValueRef::Bool(i != 0),
            (Sql::Integer(i), Kind::Date) => ValueRef::Date(Timestamp::from_millis(i)),
            (Sql::Integer(i), Kind::Number) => ValueRef::Float(i as f64),
            (Sql::Integer(i), _) => ValueRef::Int(i),
            (Sql::Real(f), _) => ValueRef::Float(f),
            // Text that is not UTF-8 was written by somebody else; reading it as null makes decoding say so.
            (Sql::Text(t), Kind::StringArray | Kind::Json | Kind::Items(_)) => {
                std::str::from_utf8(t).map_or(ValueRef::Null, ValueRef::Json)
            }
            (Sql::Text(t), _) => std::str::from_utf8(t).map_or(ValueRef::Null, ValueRef::Text),
            (Sql::Null | Sql::Blob(_), _) => ValueRef::Null,
        }
    }
}
