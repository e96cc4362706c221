//! `aggregate`: numbers over records, of all of them or of each group.

use super::{Answer, Kind, Options};
use crate::Code;
use crate::entity::EntityDesc;
use crate::filter::FilterSpec;
use crate::store::{Function, Group, Truncate};
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// Most groups of an answer. More are refused: an answer that grows with the table would one day be
/// too large to hold.
pub const MOST_GROUPS: u32 = 100_000;

/// Options of an aggregate.
#[derive(Debug)]
pub struct Aggregate {
    /// Over which records.
    pub filter: Option<FilterSpec>,
    /// By which key.
    pub group: Option<Group>,
    /// What is computed.
    pub compute: &'static [Output],
}

/// One computed member of the answer.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// camelCase name on the wire.
    pub name: &'static str,
    /// How; `None` counts the records of each value.
    pub function: Option<Function>,
    /// Of which field; counting needs none.
    pub field: usize,
    /// Of which records.
    pub filter: Option<FilterSpec>,
}

#[doc(hidden)]
impl Aggregate {
    /// Computes these.
    pub const fn new(compute: &'static [Output]) -> Self {
        Self {
            filter: None,
            group: None,
            compute,
        }
    }

    /// Over the records that match.
    #[must_use]
    pub const fn filter(self, filter: FilterSpec) -> Self {
        Self {
            filter: Some(filter),
            ..self
        }
    }

    /// Per value of a field.
    #[must_use]
    pub const fn by(self, field: usize) -> Self {
        Self {
            group: Some(Group {
                field,
                truncate: None,
            }),
            ..self
        }
    }

    /// Per period of a date.
    #[must_use]
    pub const fn per(self, period: Truncate, field: usize) -> Self {
        Self {
            group: Some(Group {
                field,
                truncate: Some(period),
            }),
            ..self
        }
    }
}

impl Aggregate {
    /// Whether a field is the key, whole: all records of a group have one value of it.
    pub fn is_key(&self, field: usize) -> bool {
        self.group
            .is_some_and(|group| group.field == field && group.truncate.is_none())
    }
}

#[doc(hidden)]
impl Output {
    /// The number of records.
    pub const fn count(name: &'static str) -> Self {
        Self {
            name,
            function: Some(Function::Count),
            field: 0,
            filter: None,
        }
    }

    /// The number of records of each value of a field.
    pub const fn count_by(name: &'static str, field: usize) -> Self {
        Self {
            name,
            function: None,
            field,
            filter: None,
        }
    }

    /// A function of a field's values.
    pub const fn of(name: &'static str, function: Function, field: usize) -> Self {
        Self {
            name,
            function: Some(function),
            field,
            filter: None,
        }
    }

    /// Of some records alone.
    #[must_use]
    pub const fn only(self, filter: FilterSpec) -> Self {
        Self {
            filter: Some(filter),
            ..self
        }
    }
}

impl Kind for Aggregate {
    fn options(&'static self) -> Options {
        Options::Aggregate(self)
    }

    fn facts(&self) -> &'static KindFacts {
        &facts::AGGREGATE
    }

    fn returns(&self) -> Answer {
        if self.group.is_some() {
            Answer::Groups
        } else {
            Answer::Numbers
        }
    }

    fn errors(&self) -> &'static [Code] {
        &[Code::ValidationFailed]
    }

    fn filter(&self) -> Option<&FilterSpec> {
        self.filter.as_ref()
    }

    fn statements(&self, _: &EntityDesc) -> Option<usize> {
        // Also when it counts by value: all numbers of an answer are of one instant.
        Some(1)
    }
}
