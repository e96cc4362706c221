//! `batch`: changes or removes every visible record that matches, in one statement. A claim changes
//! only the first matching records, up to a maximum number, and returns them.

use super::spec::written;
use super::{Answer, AssignSpec, Kind, Options};
use crate::Code;
use crate::entity::SortDesc;
use crate::filter::{FilterSpec, SourceSpec};
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// The options of a batch.
#[derive(Debug)]
pub struct Batch {
    /// The condition on the records; it cannot match every record.
    pub filter: FilterSpec,
    /// The written values; empty for a batch that deletes.
    pub set: &'static [AssignSpec],
    /// Whether the records are removed.
    pub delete: bool,
    /// Whether the response is empty instead of the number of records.
    pub void: bool,
    /// Whether all records change or none. The store must be able to roll the batch back.
    pub atomic: bool,
    /// The maximum number of records that a claim changes and returns. Concurrent callers get
    /// different records.
    pub claim: Option<u32>,
    /// The order of a claim; `None` means the default order of the entity.
    pub sort: Option<SortDesc>,
}

#[doc(hidden)]
impl Batch {
    /// Writes `set` to the matching records.
    pub const fn update(filter: FilterSpec, set: &'static [AssignSpec]) -> Self {
        Self {
            filter,
            set,
            delete: false,
            void: false,
            atomic: false,
            claim: None,
            sort: None,
        }
    }

    /// Removes the matching records.
    pub const fn delete(filter: FilterSpec) -> Self {
        Self {
            filter,
            set: &[],
            delete: true,
            void: false,
            atomic: false,
            claim: None,
            sort: None,
        }
    }

    /// Returns an empty response.
    #[must_use]
    pub const fn void(self) -> Self {
        Self { void: true, ..self }
    }

    /// Changes all records or none, on every store.
    #[must_use]
    pub const fn atomic(self) -> Self {
        Self {
            atomic: true,
            ..self
        }
    }

    /// Changes at most `limit` records and returns them.
    #[must_use]
    pub const fn claim(self, limit: u32) -> Self {
        Self {
            claim: Some(limit),
            ..self
        }
    }

    /// Sets the order of a claim.
    #[must_use]
    pub const fn sort(self, sort: SortDesc) -> Self {
        Self {
            sort: Some(sort),
            ..self
        }
    }
}

impl Kind for Batch {
    fn options(&'static self) -> Options {
        Options::Batch(self)
    }

    fn facts(&self) -> &'static KindFacts {
        &facts::BATCH
    }

    fn touches(&self, _: &crate::entity::EntityDesc) -> crate::entity::FieldSet {
        if self.delete {
            crate::entity::FieldSet::ALL
        } else {
            self.set.iter().map(|assign| assign.field).collect()
        }
    }

    fn capability(&self) -> &'static str {
        if self.atomic {
            "batch.atomic"
        } else {
            "batch.write"
        }
    }

    fn returns(&self) -> Answer {
        match (self.claim, self.void) {
            (Some(_), _) => Answer::List,
            (None, true) => Answer::Nothing,
            (None, false) => Answer::Count,
        }
    }

    fn errors(&self) -> &'static [Code] {
        if self.delete {
            &[]
        } else {
            &[Code::ValidationFailed, Code::Conflict]
        }
    }

    fn filter(&self) -> Option<&FilterSpec> {
        Some(&self.filter)
    }

    fn writes(&self, field: usize) -> Option<&'static SourceSpec> {
        written(self.set, field)
    }
}
