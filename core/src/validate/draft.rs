//! A draft: the values of a write before they are known to be good.

use crate::entity::{Entity, EntityDesc, Field, FieldType, Input};
use crate::validate::canonical_value;
use crate::{Error, Problem, Result, Value};

/// Values by field position, and what is wrong with them so far.
///
/// HTTP input and typed input both become a draft; all rules are then checked in one place, so both
/// meet the same ones and all problems of one body are reported together.
#[derive(Debug)]
pub struct Draft {
    /// One per field; `None` when absent.
    pub values: Vec<Option<Value>>,
    /// Problems found while reading (wrong types, unknown members).
    pub problems: Vec<Problem>,
}

impl Draft {
    /// An empty draft.
    pub fn new(entity: &EntityDesc) -> Self {
        Self {
            values: vec![None; entity.fields.len()],
            problems: Vec::new(),
        }
    }

    /// The value of a field, by its marker; `None` when it is absent.
    ///
    /// # Errors
    /// `internal` when the value has another form than the field's.
    pub fn get<F: Field>(&self, _: F) -> Result<Option<F::Ty>> {
        let value = self.values.get(F::INDEX).and_then(Option::as_ref);
        value
            .map(|value| F::Ty::from_value(value.as_ref()))
            .transpose()
            .map_err(Error::internal)
    }

    /// Replaces the value of a field, by its marker.
    pub fn set<F: Field>(&mut self, _: F, value: F::Ty) {
        if let Some(slot) = self.values.get_mut(F::INDEX) {
            *slot = Some(canonical_value(
                &F::Entity::DESC.fields[F::INDEX],
                value.into_value(),
            ));
        }
    }

    /// A draft of typed input.
    pub fn from_input(entity: &EntityDesc, input: impl Input) -> Self {
        let mut draft = Self::new(entity);
        input.write(&mut |field, value| {
            if let (Some(slot), Some(of)) = (draft.values.get_mut(field), entity.fields.get(field))
            {
                *slot = Some(canonical_value(of, value));
            }
        });
        draft
    }
}
