//! `aggregate`: computes numbers over all records, or over each group of records.

use super::{Answer, Kind, Options};
use crate::Code;
use crate::entity::EntityDesc;
use crate::filter::FilterSpec;
use crate::timestamp::Truncate;
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// The maximum number of groups in a response. More are refused, because a response that grows with
/// the table can become too large for memory.
pub const MAX_GROUPS: u32 = 100_000;

/// A key that records are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// The position of the field.
    pub field: usize,
    /// Groups dates by periods. The key is the first instant of the period.
    pub truncate: Option<Truncate>,
}

/// An aggregate function. It ignores nulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// The number of records.
    Count,
    /// The sum: an integer for integers, 0 without values.
    Sum,
    /// The mean, always a double; null without values.
    Avg,
    /// The minimum; null without values.
    Min,
    /// The maximum; null without values.
    Max,
}

/// The options of an aggregate.
#[derive(Debug)]
pub struct Aggregate {
    /// The condition on the records.
    pub filter: Option<FilterSpec>,
    /// The key of the groups.
    pub group: Option<Group>,
    /// The computed values.
    pub compute: &'static [Output],
}

/// One computed member of the response.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// The camelCase wire name.
    pub name: &'static str,
    /// The function; `None` counts the records of each value.
    pub function: Option<Function>,
    /// The field; [`Function::Count`] ignores it.
    pub field: usize,
    /// The condition on the records of this member.
    pub filter: Option<FilterSpec>,
}

#[doc(hidden)]
impl Aggregate {
    /// Computes these values.
    pub const fn new(compute: &'static [Output]) -> Self {
        Self {
            filter: None,
            group: None,
            compute,
        }
    }

    /// Uses only records that match.
    #[must_use]
    pub const fn filter(self, filter: FilterSpec) -> Self {
        Self {
            filter: Some(filter),
            ..self
        }
    }

    /// Groups by the values of a field.
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

    /// Groups by the periods of a date.
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
    /// Whether a field is the whole key, so that all records of a group have the same value in it.
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

    /// Uses only records that match.
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
        // One statement computes all values, including counts by value, so all numbers of a
        // response belong to the same point in time.
        Some(1)
    }
}
