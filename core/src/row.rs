//! A row of a store, read by position.

use crate::{Value, ValueRef};

/// The current row of a store. Positions are those of the entity's fields.
pub trait Row {
    /// Returns the value of a field.
    fn value(&self, field: usize) -> ValueRef<'_>;
}

impl Row for [Value] {
    fn value(&self, field: usize) -> ValueRef<'_> {
        self.get(field).map_or(ValueRef::Null, Value::as_ref)
    }
}
