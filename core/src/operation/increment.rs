//! `increment`: adds to a numeric field in the statement itself.

use super::{Answer, AssignSpec, Kind, Options};
use crate::Code;
use crate::entity::Bound;
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// The options of an increment.
#[derive(Debug)]
pub struct Increment {
    /// The position of the field.
    pub field: usize,
    /// The added number.
    pub by: Bound,
    /// The fields that identify the record: the primary key, or all fields of one unique
    /// constraint.
    pub matches: &'static [AssignSpec],
}

#[doc(hidden)]
impl Increment {
    /// Adds to a field.
    pub const fn new(field: usize, by: Bound, matches: &'static [AssignSpec]) -> Self {
        Self { field, by, matches }
    }
}

impl Kind for Increment {
    fn options(&'static self) -> Options {
        Options::Increment(self)
    }

    fn facts(&self) -> &'static KindFacts {
        &facts::INCREMENT
    }

    fn matches(&self) -> &'static [AssignSpec] {
        self.matches
    }

    fn touches(&self, _: &crate::entity::EntityDesc) -> crate::entity::FieldSet {
        crate::entity::FieldSet::NONE.with(self.field)
    }

    fn returns(&self) -> Answer {
        Answer::Record
    }

    fn errors(&self) -> &'static [Code] {
        &[Code::NotFound, Code::ValidationFailed, Code::Conflict]
    }
}
