//! `restore`: restores a deleted record, in one statement. If it belongs to other records, they
//! must exist.

use super::{Answer, AssignSpec, Kind, Options};
use crate::Code;
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// The options of a restore.
#[derive(Debug)]
pub struct Restore {
    /// The fields that identify the record: the primary key.
    pub matches: &'static [AssignSpec],
}

#[doc(hidden)]
impl Restore {
    /// Restores one record.
    pub const fn new(matches: &'static [AssignSpec]) -> Self {
        Self { matches }
    }
}

impl Kind for Restore {
    fn options(&'static self) -> Options {
        Options::Restore(self)
    }

    fn facts(&self) -> &'static KindFacts {
        &facts::RESTORE
    }

    fn touches(&self, on: &crate::entity::EntityDesc) -> crate::entity::FieldSet {
        on.soft_delete
            .map_or(crate::entity::FieldSet::NONE, |mark| {
                crate::entity::FieldSet::NONE.with(mark.field())
            })
    }

    fn returns(&self) -> Answer {
        Answer::Record
    }

    fn selects_deleted(&self) -> bool {
        true
    }

    fn errors(&self) -> &'static [Code] {
        &[Code::NotFound, Code::Conflict]
    }
}
