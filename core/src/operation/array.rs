//! `array_push`, `array_pull`, `array_set`: change a list of strings in the statement itself.

use super::{Answer, AssignSpec, Kind, Options};
use crate::Code;
use crate::filter::SourceSpec;
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// Options of an array operation.
#[derive(Debug)]
pub struct ArrayWrite {
    /// What happens to the list.
    pub action: ArrayAction,
    /// Position of the list's field.
    pub field: usize,
    /// An element; for `array_set` a list.
    pub value: SourceSpec,
    /// Which record: pins the primary key or a whole unique.
    pub matches: &'static [AssignSpec],
}

/// What happens to a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrayAction {
    /// The element is appended.
    Push {
        /// Only when it is not in the list.
        dedupe: bool,
    },
    /// All equal elements are removed.
    Pull,
    /// The list is replaced.
    Set {
        /// Of equal elements the first is kept.
        dedupe: bool,
    },
}

#[doc(hidden)]
impl ArrayWrite {
    /// An element is appended unless it is there.
    pub const fn push(field: usize, value: SourceSpec, matches: &'static [AssignSpec]) -> Self {
        Self {
            action: ArrayAction::Push { dedupe: true },
            field,
            value,
            matches,
        }
    }

    /// Equal elements are removed.
    pub const fn pull(field: usize, value: SourceSpec, matches: &'static [AssignSpec]) -> Self {
        Self {
            action: ArrayAction::Pull,
            field,
            value,
            matches,
        }
    }

    /// The list is replaced, equal elements kept once.
    pub const fn set(field: usize, value: SourceSpec, matches: &'static [AssignSpec]) -> Self {
        Self {
            action: ArrayAction::Set { dedupe: true },
            field,
            value,
            matches,
        }
    }

    /// Equal elements may stand in the list.
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
