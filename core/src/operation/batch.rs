//! `batch`: changes or removes every visible record that matches, in one statement; or claims the
//! first of them for code.

use super::spec::written;
use super::{Answer, AssignSpec, Kind, Options};
use crate::Code;
use crate::entity::SortDesc;
use crate::filter::{FilterSpec, SourceSpec};
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// Options of a batch.
#[derive(Debug)]
pub struct Batch {
    /// Which records; never all of them.
    pub filter: FilterSpec,
    /// What is written; empty for a batch that deletes.
    pub set: &'static [AssignSpec],
    /// Whether the records are removed.
    pub delete: bool,
    /// Answer nothing instead of the number of records.
    pub void: bool,
    /// Whether the store must be able to undo it as a whole.
    pub atomic: bool,
    /// Changes so many at most and answers them: of many callers, each gets records of its own.
    pub claim: Option<u32>,
    /// Which of them come first, when not by the entity's default.
    pub sort: Option<SortDesc>,
}

#[doc(hidden)]
impl Batch {
    /// Writes `set` to what matches.
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

    /// Removes what matches.
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

    /// Answers nothing.
    #[must_use]
    pub const fn void(self) -> Self {
        Self { void: true, ..self }
    }

    /// All or nothing, whatever the store.
    #[must_use]
    pub const fn atomic(self) -> Self {
        Self {
            atomic: true,
            ..self
        }
    }

    /// So many records at most, which are answered.
    #[must_use]
    pub const fn claim(self, limit: u32) -> Self {
        Self {
            claim: Some(limit),
            ..self
        }
    }

    /// In an order of its own.
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
