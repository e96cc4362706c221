//! `upsert`: creates a record, or changes the record with the same `match` values, in one
//! statement.

use super::spec::written;
use super::{Answer, AssignSpec, Kind, Options};
use crate::Code;
use crate::filter::SourceSpec;
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// The options of an upsert.
#[derive(Debug)]
pub struct Upsert {
    /// The fields that identify the existing record: the primary key, or all fields of one unique
    /// constraint.
    pub matches: &'static [AssignSpec],
    /// The values that are written on create and on update. An omitted parameter means the field's
    /// default on create and no change on update.
    pub set: &'static [AssignSpec],
    /// The values that are written only on create.
    pub on_create: &'static [AssignSpec],
    /// Whether the response is `{ entity, created }` instead of the record.
    pub wrapped: bool,
}

#[doc(hidden)]
impl Upsert {
    /// Matches by these fields.
    pub const fn new(matches: &'static [AssignSpec]) -> Self {
        Self {
            matches,
            set: &[],
            on_create: &[],
            wrapped: false,
        }
    }

    /// Sets the values that are written on create and on update.
    #[must_use]
    pub const fn set(self, set: &'static [AssignSpec]) -> Self {
        Self { set, ..self }
    }

    /// Sets the values that are written only on create.
    #[must_use]
    pub const fn on_create(self, on_create: &'static [AssignSpec]) -> Self {
        Self { on_create, ..self }
    }

    /// Returns `{ entity, created }`.
    #[must_use]
    pub const fn wrapped(self) -> Self {
        Self {
            wrapped: true,
            ..self
        }
    }
}

impl Kind for Upsert {
    fn options(&'static self) -> Options {
        Options::Upsert(self)
    }

    fn facts(&self) -> &'static KindFacts {
        &facts::UPSERT
    }

    fn matches(&self) -> &'static [AssignSpec] {
        self.matches
    }

    fn writes(&self, field: usize) -> Option<&'static SourceSpec> {
        [self.on_create, self.set, self.matches]
            .into_iter()
            .find_map(|list| written(list, field))
    }

    fn statements(&self, on: &crate::entity::EntityDesc) -> Option<usize> {
        // A rule over the whole record needs a read first. Then the record is created, or read
        // again and changed.
        Some(if on.check.is_some() { 3 } else { 1 })
    }

    fn touches(&self, _: &crate::entity::EntityDesc) -> crate::entity::FieldSet {
        crate::entity::FieldSet::ALL
    }

    fn returns(&self) -> Answer {
        Answer::Upserted {
            wrapped: self.wrapped,
        }
    }

    fn errors(&self) -> &'static [Code] {
        &[Code::ValidationFailed, Code::Conflict]
    }
}
