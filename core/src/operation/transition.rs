//! `transition`: moves a field from one of several values to another, in one statement. Or a
//! function chooses the new value, in one transaction with the write.

use super::spec::written;
use super::{Answer, AssignSpec, Kind, Options};
use crate::entity::EntityDesc;
use crate::filter::SourceSpec;
use crate::{Code, Value};
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// The options of a transition.
#[derive(Debug)]
pub struct Transition {
    /// The position of the state field.
    pub field: usize,
    /// The allowed current values.
    pub from: &'static [fn() -> Value],
    /// The new value. If there are several, the chooser selects one.
    pub to: &'static [fn() -> Value],
    /// The function that chooses one of several values.
    pub chooser: Option<crate::Attachment>,
    /// The fields that identify the record: the primary key, or all fields of one unique
    /// constraint.
    pub matches: &'static [AssignSpec],
    /// The further values that are written.
    pub set: &'static [AssignSpec],
    /// Whether a record that already has the new value is returned unchanged.
    pub already_ok: bool,
    /// Whether the response is `true` instead of the record.
    pub boolean: bool,
}

#[doc(hidden)]
impl Transition {
    /// Moves a field.
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

    /// A function chooses the new value.
    #[must_use]
    pub const fn chosen(self, by: crate::Attachment) -> Self {
        Self {
            chooser: Some(by),
            ..self
        }
    }

    /// Writes further fields.
    #[must_use]
    pub const fn set(self, set: &'static [AssignSpec]) -> Self {
        Self { set, ..self }
    }

    /// Returns a record that already has the new value.
    #[must_use]
    pub const fn already_ok(self) -> Self {
        Self {
            already_ok: true,
            ..self
        }
    }

    /// Returns `true`.
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
        // The number of statements in the chooser is unknown. A record that already has the new
        // value is read again for the response.
        (self.to.len() == 1).then_some(if self.already_ok { 3 } else { 2 })
    }

    fn errors(&self) -> &'static [Code] {
        &[Code::InvalidTransition, Code::NotFound, Code::Conflict]
    }
}
