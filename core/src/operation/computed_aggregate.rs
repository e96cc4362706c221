//! `computed_aggregate`: writes a number over the records of one entity into a record of another.

use super::{Answer, AssignSpec, Kind, Options, Output};
use crate::Code;
use crate::entity::EntityDesc;
use crate::filter::FilterSpec;
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// Options of a computed aggregate.
#[derive(Debug)]
pub struct ComputedAggregate {
    /// Over whose records.
    pub source: &'static EntityDesc,
    /// Over which of them.
    pub filter: FilterSpec,
    /// What is computed.
    pub compute: &'static [Output],
    /// Whether an object of all members is written; else the one value.
    pub object: bool,
    /// Whose record is written; the operation's own entity when absent.
    pub target: Option<&'static EntityDesc>,
    /// Which record: pins the primary key or a whole unique.
    pub matches: &'static [AssignSpec],
    /// The field that is written.
    pub field: usize,
    /// Of several calls for one record, the last has seen what the others saw.
    pub atomic: bool,
}

#[doc(hidden)]
impl ComputedAggregate {
    /// Computes one value over the records of `source` that match.
    pub const fn new(
        source: &'static EntityDesc,
        filter: FilterSpec,
        compute: &'static [Output],
    ) -> Self {
        Self {
            source,
            filter,
            compute,
            object: false,
            target: None,
            matches: &[],
            field: 0,
            atomic: false,
        }
    }

    /// Writes it to a field of the record that matches.
    #[must_use]
    pub const fn into(self, field: usize, matches: &'static [AssignSpec]) -> Self {
        Self {
            matches,
            field,
            ..self
        }
    }

    /// That record is another entity's.
    #[must_use]
    pub const fn target(self, target: &'static EntityDesc) -> Self {
        Self {
            target: Some(target),
            ..self
        }
    }

    /// Of several calls for one record, the last has seen what the others saw.
    #[must_use]
    pub const fn atomic(self) -> Self {
        Self {
            atomic: true,
            ..self
        }
    }

    /// Writes an object of all members.
    #[must_use]
    pub const fn object(self) -> Self {
        Self {
            object: true,
            ..self
        }
    }
}

impl Kind for ComputedAggregate {
    fn options(&'static self) -> Options {
        Options::ComputedAggregate(self)
    }

    fn facts(&self) -> &'static KindFacts {
        &facts::COMPUTED_AGGREGATE
    }

    fn statements(&self, _: &EntityDesc) -> Option<usize> {
        // Takes the record, computes, writes; or all of it at once, and where that refuses, it is
        // found out why.
        Some(3)
    }

    fn touches(&self, on: &crate::entity::EntityDesc) -> crate::entity::FieldSet {
        let own = self
            .target
            .is_none_or(|target| target.storage_name == on.storage_name);
        if own {
            crate::entity::FieldSet::NONE.with(self.field)
        } else {
            crate::entity::FieldSet::NONE
        }
    }

    fn capability(&self) -> &'static str {
        if self.atomic {
            "computed.atomic"
        } else {
            "computed.write"
        }
    }

    fn returns(&self) -> Answer {
        Answer::Record
    }

    fn by_id(&self) -> bool {
        false
    }

    fn errors(&self) -> &'static [Code] {
        &[Code::NotFound, Code::ValidationFailed, Code::Conflict]
    }
}
