//! `computed_aggregate`: computes a number from the records of one entity and writes it to a record
//! of another.

use super::{Answer, AssignSpec, Kind, Options, Output};
use crate::Code;
use crate::entity::EntityDesc;
use crate::filter::FilterSpec;
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// The options of a computed aggregate.
#[derive(Debug)]
pub struct ComputedAggregate {
    /// The entity of the aggregated records.
    pub source: &'static EntityDesc,
    /// The condition on these records.
    pub filter: FilterSpec,
    /// The computed values.
    pub compute: &'static [Output],
    /// Whether all computed values are written as one object, instead of a single value.
    pub object: bool,
    /// The entity of the written record; `None` means the operation's own entity.
    pub target: Option<&'static EntityDesc>,
    /// The fields that identify the written record: the primary key, or all fields of one unique
    /// constraint.
    pub matches: &'static [AssignSpec],
    /// The written field.
    pub field: usize,
    /// Whether concurrent calls for one record run one after the other, so that the value of the
    /// last call includes every record that an earlier call read.
    pub atomic: bool,
}

#[doc(hidden)]
impl ComputedAggregate {
    /// Computes one value from the records of `source` that match.
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

    /// Writes the value to a field of the record that matches.
    #[must_use]
    pub const fn into(self, field: usize, matches: &'static [AssignSpec]) -> Self {
        Self {
            matches,
            field,
            ..self
        }
    }

    /// Sets the entity of the written record.
    #[must_use]
    pub const fn target(self, target: &'static EntityDesc) -> Self {
        Self {
            target: Some(target),
            ..self
        }
    }

    /// Runs concurrent calls for one record one after the other, so that the value of the last call
    /// includes every record that an earlier call read.
    #[must_use]
    pub const fn atomic(self) -> Self {
        Self {
            atomic: true,
            ..self
        }
    }

    /// Writes all computed values as one object.
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
        // Three statements lock the record, compute the value and write it. Or one statement does
        // all of this; if it writes nothing, more statements find the reason.
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
