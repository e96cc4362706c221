//! `upsert`: creates a record, or changes the one that has the same key, in one statement.

use super::spec::written;
use super::{Answer, AssignSpec, Kind, Options};
use crate::Code;
use crate::filter::SourceSpec;
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// Options of an upsert.
#[derive(Debug)]
pub struct Upsert {
    /// The fields that tell whether the record exists: the primary key or one unique.
    pub matches: &'static [AssignSpec],
    /// What is written either way; a parameter that is left out takes the field's default on create
    /// and keeps it on update.
    pub set: &'static [AssignSpec],
    /// What is written on create only.
    pub on_create: &'static [AssignSpec],
    /// Answer `{ entity, created }` instead of the record.
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

    /// Writes these either way.
    #[must_use]
    pub const fn set(self, set: &'static [AssignSpec]) -> Self {
        Self { set, ..self }
    }

    /// Writes these on create.
    #[must_use]
    pub const fn on_create(self, on_create: &'static [AssignSpec]) -> Self {
        Self { on_create, ..self }
    }

    /// Answers `{ entity, created }`.
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
        // With a rule over the whole record: one looks, and what it finds is created, or read once
        // more and changed.
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
