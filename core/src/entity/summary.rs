//! What records of one entity keep of the records of another: how many there are.

use super::EntityDesc;
use crate::filter::FilterSpec;

/// What a record keeps of the records of another entity that name it. Declared where those are.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// The entity whose records keep it. A function, since two entities may name each other.
    pub target: fn() -> &'static EntityDesc,
    /// The name of the field that holds it. Its position is a matter of that entity, which may name
    /// this one in turn.
    pub field: &'static str,
    /// Position of the field of this entity that names the record which keeps it.
    pub by: usize,
    /// Which records count. Deleted ones never do.
    pub when: FilterSpec,
    /// The least that may be kept of a record that is not deleted.
    pub least: Option<Least>,
}

/// The least number that a record keeps of others, and how a change is refused that would leave
/// fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least {
    /// The number.
    pub number: i64,
    /// The code of the refusal, which is a 409.
    pub code: &'static str,
}

impl Summary {
    /// Position of the field that holds it.
    pub fn position(&self) -> Option<usize> {
        (self.target)()
            .fields
            .iter()
            .position(|field| field.name == self.field)
    }
}

#[doc(hidden)]
impl Summary {
    /// How many records there are.
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

    /// Only of those that match.
    #[must_use]
    pub const fn when(self, when: FilterSpec) -> Self {
        Self { when, ..self }
    }

    /// Never fewer than this.
    #[must_use]
    pub const fn least(self, number: i64, code: &'static str) -> Self {
        Self {
            least: Some(Least { number, code }),
            ..self
        }
    }
}
