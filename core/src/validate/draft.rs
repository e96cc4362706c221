//! A draft: the unchecked values of a write.

use crate::entity::{Entity, EntityDesc, Field, FieldSet, FieldType, Input};
use crate::validate::canonical_value;
use crate::{Error, Problem, Result, Value};

/// The values by field position, and the problems found so far.
///
/// HTTP input and typed input both become a draft. All rules are checked in one place, so both
/// follow the same rules, and all problems of one body are reported together.
#[derive(Debug)]
pub struct Draft {
    /// One value per field; `None` if absent.
    pub values: Vec<Option<Value>>,
    /// The problems found while reading (wrong types, unknown members).
    pub problems: Vec<Problem>,
    /// The fields that have their default, because the input does not contain them.
    pub defaulted: FieldSet,
}

impl Draft {
    /// An empty draft.
    pub fn new(entity: &EntityDesc) -> Self {
        Self {
            values: vec![None; entity.fields.len()],
            problems: Vec::new(),
            defaulted: FieldSet::NONE,
        }
    }

    /// Whether the input contains a field, by its marker. False for a field with its default.
    pub fn is_given<F: Field>(&self, _: F) -> bool {
        let value = self.values.get(F::INDEX);
        value.is_some_and(Option::is_some) && !self.defaulted.has(F::INDEX)
    }

    /// Returns the value of a field, by its marker; `None` if it is absent.
    ///
    /// # Errors
    /// `internal` if the value does not have the field's form.
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

    /// Creates a draft from typed input.
    pub fn from_input(entity: &EntityDesc, input: impl Input) -> Self {
        let mut draft = Self::new(entity);
        input.write(&mut |field, value| {
            if let (Some(slot), Some(desc)) =
                (draft.values.get_mut(field), entity.fields.get(field))
            {
                *slot = Some(canonical_value(desc, value));
            }
        });
        draft
    }
}
