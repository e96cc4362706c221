//! `transition`: moves a field from one of some values to another, in one statement.

use super::AssignSpec;
use crate::Value;

/// Options of a transition.
#[derive(Debug)]
pub struct Transition {
    /// Position of the state field.
    pub field: usize,
    /// The allowed present values.
    pub from: &'static [fn() -> Value],
    /// The value written.
    pub to: fn() -> Value,
    /// Which record: pins the primary key or a whole unique.
    pub matches: &'static [AssignSpec],
    /// Further fields written.
    pub set: &'static [AssignSpec],
    /// Answer `true` instead of the record.
    pub boolean: bool,
}
