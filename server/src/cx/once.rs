//! Members that only the response of one call contains: they are not stored, and no later read
//! returns them. Code of the app sets them during the call.

use parking_lot::Mutex;

use crate::entity::FieldDesc;
use crate::{Error, Result, Value};

/// The members of one call.
pub(crate) struct Once {
    declared: &'static [FieldDesc],
    /// One value for each declared member; `None` before it is set.
    values: Mutex<Vec<Option<Value>>>,
}

impl std::fmt::Debug for Once {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The values are secret: they are not printed.
        f.debug_list()
            .entries(self.declared.iter().map(|field| field.name))
            .finish()
    }
}

impl Once {
    pub(super) fn new(declared: &'static [FieldDesc]) -> Self {
        Self {
            declared,
            values: Mutex::new(vec![None; declared.len()]),
        }
    }

    /// Sets a value.
    ///
    /// # Errors
    /// `internal` for a name or a type that is not declared.
    pub(super) fn set(&self, name: &str, kind: crate::entity::Kind, value: Value) -> Result<()> {
        let declared = self.declared.iter().position(|field| field.name == name);
        let at = declared.ok_or_else(|| {
            Error::internal(format!("`output_once` of the route does not name `{name}`"))
        })?;
        let field = &self.declared[at];
        if !kind.meets(field.kind) || (value.is_null() && !field.optional) {
            return Err(Error::internal(format!(
                "`{name}` of `output_once` has the type {}, but a value of type {} was set",
                field.kind.name(),
                kind.name()
            )));
        }
        self.values.lock()[at] = Some(value);
        Ok(())
    }

    /// Removes and returns the members, with their wire names; a second call returns no members.
    ///
    /// # Errors
    /// `internal` if a member was not set.
    pub(crate) fn take(&self) -> Result<Vec<(&'static str, Value)>> {
        let values = std::mem::take(&mut *self.values.lock());
        self.declared
            .iter()
            .zip(values)
            .map(|(field, value)| match value {
                Some(value) => Ok((field.wire, value)),
                None => Err(Error::internal(format!(
                    "`{}` of `output_once` was not set",
                    field.name
                ))),
            })
            .collect()
    }
}
