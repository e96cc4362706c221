//! `array_push`, `array_pull`, `array_set`: change a list of strings in the statement itself.

use super::{Answer, AssignSpec, Kind, Options};
use crate::Code;
use crate::filter::SourceSpec;
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// The options of an array operation.
#[derive(Debug)]
pub struct ArrayWrite {
    /// The change of the list.
    pub action: ArrayAction,
    /// The position of the list's field.
    pub field: usize,
    /// The element; for `array_set` the list.
    pub value: SourceSpec,
    /// The fields that identify the record: the primary key, or all fields of one unique
    /// constraint.
    pub matches: &'static [AssignSpec],
}

/// A change of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrayAction {
    /// Appends the element.
    Push {
        /// Whether an element that is already in the list is not added again.
        dedupe: bool,
    },
    /// Removes all elements that are equal to the given one.
    Pull,
    /// Replaces the list.
    Set {
        /// Whether only the first of equal elements is kept.
        dedupe: bool,
    },
}

#[doc(hidden)]
impl ArrayWrite {
    /// Appends an element unless it is in the list.
    pub const fn push(field: usize, value: SourceSpec, matches: &'static [AssignSpec]) -> Self {
        Self {
            action: ArrayAction::Push { dedupe: true },
            field,
            value,
            matches,
        }
    }

    /// Removes all elements that are equal to `value`.
    pub const fn pull(field: usize, value: SourceSpec, matches: &'static [AssignSpec]) -> Self {
        Self {
            action: ArrayAction::Pull,
            field,
            value,
            matches,
        }
    }

    /// Replaces the list and keeps equal elements once.
    pub const fn set(field: usize, value: SourceSpec, matches: &'static [AssignSpec]) -> Self {
        Self {
            action: ArrayAction::Set { dedupe: true },
            field,
            value,
            matches,
        }
    }

    /// Allows equal elements in the list.
    #[must_use]
    pub const fn repeats(self) -> Self {
        let action = match self.action {
            ArrayAction::Push { .. } => ArrayAction::Push { dedupe: false },
            ArrayAction::Set { .. } => ArrayAction::Set { dedupe: false },
            ArrayAction::Pull => ArrayAction::Pull,
        };
        Self { action, ..self }
    }
}

impl Kind for ArrayWrite {
    fn options(&'static self) -> Options {
        Options::ArrayWrite(self)
    }

    fn facts(&self) -> &'static KindFacts {
        match self.action {
            ArrayAction::Push { .. } => &facts::ARRAY_PUSH,
            ArrayAction::Pull => &facts::ARRAY_PULL,
            ArrayAction::Set { .. } => &facts::ARRAY_SET,
        }
    }

    fn matches(&self) -> &'static [AssignSpec] {
        self.matches
    }

    fn fixed(&self) -> Vec<super::kind::Fixed> {
        match (self.action, self.value) {
            (ArrayAction::Push { .. }, SourceSpec::Literal(value)) => {
                vec![(self.field, value, true)]
            }
            _ => Vec::new(),
        }
    }

    fn touches(&self, _: &crate::entity::EntityDesc) -> crate::entity::FieldSet {
        crate::entity::FieldSet::NONE.with(self.field)
    }

    fn returns(&self) -> Answer {
        Answer::Record
    }

    fn errors(&self) -> &'static [Code] {
        &[Code::NotFound, Code::ValidationFailed, Code::Conflict]
    }
}
