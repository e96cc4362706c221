//! Counters: the number of records of one entity, stored in a record of another.

use super::{EntityDesc, FilterSpec};

/// A counter: a field of a record with the number of records of another entity that reference it.
/// The entity of the counted records declares the counter.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// The entity whose records store the counter. A function, because two entities may name each
    /// other.
    pub target: fn() -> &'static EntityDesc,
    /// The name of the field that stores the counter. It is not a position, because the other
    /// entity may name this one in turn.
    pub field: &'static str,
    /// The position of the field of this entity that names the record with the counter.
    pub by: usize,
    /// The condition for records that count. Deleted records never count.
    pub when: FilterSpec,
    /// The minimum of the counter in a record that is not deleted.
    pub least: Option<Least>,
}

/// The minimum of a counter, and the error code for changes that would leave fewer records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least {
    /// The minimum.
    pub number: i64,
    /// The error code. The status is 409.
    pub code: &'static str,
}

impl Summary {
    /// The position of the field that stores the counter.
    pub fn position(&self) -> Option<usize> {
        (self.target)()
            .fields
            .iter()
            .position(|field| field.name == self.field)
    }
}

#[doc(hidden)]
impl Summary {
    /// Counts the records.
    pub const fn count(
        target: fn() -> &'static EntityDesc,
        field: &'static str,
        by: usize,
    ) -> Self {
        Self {
            target,
            field,
            by,
            when: FilterSpec::All(&[]),
            least: None,
        }
    }

    /// Counts only records that match.
    #[must_use]
    pub const fn when(self, when: FilterSpec) -> Self {
        Self { when, ..self }
    }

    /// Sets the minimum.
    #[must_use]
    pub const fn least(self, number: i64, code: &'static str) -> Self {
        Self {
            least: Some(Least { number, code }),
            ..self
        }
    }
}
