//! `transition`: moves a field from one of some values to another, in one statement; or to the one
//! of several that a function chooses, in one transaction with the write.

use super::spec::written;
use super::{Answer, AssignSpec, Kind, Options};
use crate::entity::EntityDesc;
use crate::filter::SourceSpec;
use crate::{Code, Value};
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// Options of a transition.
#[derive(Debug)]
pub struct Transition {
    /// Position of the state field.
    pub field: usize,
    /// The allowed present values.
    pub from: &'static [fn() -> Value],
    /// The value written; of several, the one that the chooser says.
    pub to: &'static [fn() -> Value],
    /// Which of several values it is.
    pub chooser: Option<crate::Attachment>,
    /// Which record: pins the primary key or a whole unique.
    pub matches: &'static [AssignSpec],
    /// Further fields written.
    pub set: &'static [AssignSpec],
    /// A record that is there already is answered unchanged.
    pub already_ok: bool,
    /// Answer `true` instead of the record.
    pub boolean: bool,
}

#[doc(hidden)]
impl Transition {
    /// A move of a field.
    pub const fn new(
        field: usize,
        from: &'static [fn() -> Value],
        to: &'static [fn() -> Value],
        matches: &'static [AssignSpec],
    ) -> Self {
        Self {
            field,
            from,
            to,
            chooser: None,
            matches,
            set: &[],
            already_ok: false,
            boolean: false,
        }
    }

    /// To the value that a function chooses.
    #[must_use]
    pub const fn chosen(self, by: crate::Attachment) -> Self {
        Self {
            chooser: Some(by),
            ..self
        }
    }

    /// With further fields written.
    #[must_use]
    pub const fn set(self, set: &'static [AssignSpec]) -> Self {
        Self { set, ..self }
    }

    /// Answers a record that is there already.
    #[must_use]
    pub const fn already_ok(self) -> Self {
        Self {
            already_ok: true,
            ..self
        }
    }

    /// Answers `true`.
    #[must_use]
    pub const fn boolean(self) -> Self {
        Self {
            boolean: true,
            ..self
        }
    }
}

impl Kind for Transition {
    fn options(&'static self) -> Options {
        Options::Transition(self)
    }

    fn facts(&self) -> &'static KindFacts {
        &facts::TRANSITION
    }

    fn matches(&self) -> &'static [AssignSpec] {
        self.matches
    }

    fn writes(&self, field: usize) -> Option<&'static SourceSpec> {
        written(self.set, field)
    }

    fn fixed(&self) -> Vec<super::kind::Fixed> {
        self.to
            .iter()
            .map(|value| (self.field, *value, false))
            .collect()
    }

    fn touches(&self, _: &crate::entity::EntityDesc) -> crate::entity::FieldSet {
        self.set
            .iter()
            .map(|assign| assign.field)
            .chain([self.field])
            .collect()
    }

    fn capability(&self) -> &'static str {
        // A choice and the write that follows it are one transaction.
        if self.to.len() > 1 {
            "transaction"
        } else {
            "atomic.transition"
        }
    }

    fn returns(&self) -> Answer {
        if self.boolean {
            Answer::Boolean
        } else {
            Answer::Record
        }
    }

    fn statements(&self, _: &EntityDesc) -> Option<usize> {
        // What a function asks for is its own affair. A record that is there already is read once
        // more, to be answered.
        (self.to.len() == 1).then_some(if self.already_ok { 3 } else { 2 })
    }

    fn errors(&self) -> &'static [Code] {
        &[Code::InvalidTransition, Code::NotFound, Code::Conflict]
    }
}
