//! `increment`: adds to a numeric field in the statement itself.

use super::AssignSpec;
use crate::entity::Bound;

/// Options of an increment.
#[derive(Debug)]
pub struct Increment {
    /// Position of the field.
    pub field: usize,
    /// What is added.
    pub by: Bound,
    /// Which record: pins the primary key or a whole unique.
    pub matches: &'static [AssignSpec],
}
