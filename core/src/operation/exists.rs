//! `exists`: whether a record with these values is visible.

use super::{Answer, AssignSpec, Kind, Options};
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// The options of an exists.
#[derive(Debug)]
pub struct Exists {
    /// The conditions `field == source`; all parameters are required.
    pub fields: &'static [AssignSpec],
    /// Further conditions `field == source`.
    pub check: &'static [AssignSpec],
}

#[doc(hidden)]
impl Exists {
    /// An exists over these fields.
    pub const fn new(fields: &'static [AssignSpec]) -> Self {
        Self { fields, check: &[] }
    }

    /// With further equality checks.
    #[must_use]
    pub const fn check(self, check: &'static [AssignSpec]) -> Self {
        Self { check, ..self }
    }
}

impl Kind for Exists {
    fn options(&'static self) -> Options {
        Options::Exists(self)
    }

    fn facts(&self) -> &'static KindFacts {
        &facts::EXISTS
    }

    fn matches(&self) -> &'static [AssignSpec] {
        self.fields
    }

    fn returns(&self) -> Answer {
        Answer::Exists
    }
}
