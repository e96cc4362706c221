//! `field_update`: writes some fields of one record from the body.

use super::spec::written;
use super::{Answer, AssignSpec, Kind, Options};
use crate::Code;
use crate::filter::SourceSpec;
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// The options of a field update.
#[derive(Debug)]
pub struct FieldUpdate {
    /// The written fields, each with a parameter. An omitted parameter leaves its field unchanged.
    pub set: &'static [AssignSpec],
    /// The fields that identify the record: the primary key, or all fields of one unique
    /// constraint.
    pub matches: &'static [AssignSpec],
}

#[doc(hidden)]
impl FieldUpdate {
    /// An update of these fields.
    pub const fn new(set: &'static [AssignSpec], matches: &'static [AssignSpec]) -> Self {
        Self { set, matches }
    }
}

impl Kind for FieldUpdate {
    fn options(&'static self) -> Options {
        Options::FieldUpdate(self)
    }

    fn facts(&self) -> &'static KindFacts {
        &facts::FIELD_UPDATE
    }

    fn matches(&self) -> &'static [AssignSpec] {
        self.matches
    }

    fn writes(&self, field: usize) -> Option<&'static SourceSpec> {
        written(self.set, field)
    }

    fn returns(&self) -> Answer {
        Answer::Record
    }

    fn errors(&self) -> &'static [Code] {
        &[Code::NotFound, Code::ValidationFailed, Code::Conflict]
    }
}
