//! Field numbers: descriptors refer to a field by its position in the entity.

use proc_macro2::Literal;

use super::EntityModel;
use crate::expr::index;

impl EntityModel {
    /// Returns the number of a field of this entity, as in a descriptor.
    pub(crate) fn number(&self, field: usize) -> Literal {
        match self.fields.get(field) {
            Some(named) => field_number(field, &named.name),
            None => index(field),
        }
    }
}

/// Returns the number of the field with this name.
///
/// In unit tests the literal has the name as its suffix (`7field_due_at`), so that a snapshot can
/// print `7 /* due_at */`. A compiled macro writes the plain number.
pub(crate) fn field_number(number: usize, name: &str) -> Literal {
    let named = cfg!(test)
        .then(|| format!("{number}{FIELD_SUFFIX}{name}").parse().ok())
        .flatten();
    named.unwrap_or_else(|| index(number))
}

/// The text between the number and the name in unit tests.
pub(crate) const FIELD_SUFFIX: &str = "field_";
