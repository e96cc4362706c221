//! `consume`: removes at most one record that matches, and returns it. Concurrent calls never get
//! the same record.

use super::{Answer, Kind, Options};
use crate::filter::FilterSpec;
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// The options of a consume.
#[derive(Debug)]
pub struct Consume {
    /// The condition on the record. If several match, the first by the default sort is taken.
    pub filter: FilterSpec,
    /// The position of the date after which a record can no longer be taken.
    pub expiry: Option<usize>,
    /// Whether the response is a boolean instead of the record. The boolean says whether a record
    /// was taken.
    pub boolean: bool,
}

#[doc(hidden)]
impl Consume {
    /// Takes the record that matches.
    pub const fn new(filter: FilterSpec) -> Self {
        Self {
            filter,
            expiry: None,
            boolean: false,
        }
    }

    /// Takes no record after this date.
    #[must_use]
    pub const fn expiry(self, field: usize) -> Self {
        Self {
            expiry: Some(field),
            ..self
        }
    }

    /// Returns `true` or `false`.
    #[must_use]
    pub const fn boolean(self) -> Self {
        Self {
            boolean: true,
            ..self
        }
    }
}

impl Kind for Consume {
    fn options(&'static self) -> Options {
        Options::Consume(self)
    }

    fn facts(&self) -> &'static KindFacts {
        &facts::CONSUME
    }

    fn touches(&self, _: &crate::entity::EntityDesc) -> crate::entity::FieldSet {
        crate::entity::FieldSet::ALL
    }

    fn returns(&self) -> Answer {
        if self.boolean {
            Answer::Boolean
        } else {
            Answer::RecordOrNull
        }
    }

    fn by_id(&self) -> bool {
        false
    }

    fn filter(&self) -> Option<&FilterSpec> {
        Some(&self.filter)
    }
}
