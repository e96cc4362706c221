//! `exists`: whether a record with these values is visible.

use super::AssignSpec;

/// Options of an exists.
#[derive(Debug)]
pub struct Exists {
    /// `field == source`, all required.
    pub fields: &'static [AssignSpec],
    /// Further equality checks.
    pub check: &'static [AssignSpec],
}
