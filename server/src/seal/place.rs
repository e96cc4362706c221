//! The place of an encrypted value.

use crate::entity::{Entity, Field};

/// The place of a stored value: an entity, a record and a field.
///
/// An encrypted value is bound to its place. If the entity gets another storage name, or the field
/// another column, earlier values cannot be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The storage name of the entity.
    pub entity: &'static str,
    /// The id of the record.
    pub id: &'a str,
    /// The column of the field.
    pub field: &'static str,
}

impl<'a> Place<'a> {
    /// The place of a field in the record with this id.
    ///
    /// ```
    /// use linchpin::prelude::*;
    /// use linchpin::seal::Place;
    ///
    /// /// A receiver of webhooks.
    /// #[entity(routes(disabled))]
    /// pub struct Endpoint {
    ///     #[field(primary, default = uuid)]
    ///     pub id: String,
    ///     /// Encrypted.
    ///     pub secret: String,
    /// }
    ///
    /// # fn main() {
    /// let place = Place::of(endpoint::secret, "e1");
    /// assert_eq!(place, Place { entity: "endpoints", id: "e1", field: "secret" });
    /// # }
    /// ```
    pub fn of<F: Field>(_field: F, id: &'a str) -> Self {
        let desc = F::Entity::DESC;
        Self {
            entity: desc.storage_name,
            id,
            field: desc.fields[F::INDEX].column,
        }
    }

    /// The bytes to which an encrypted value is bound. Lengths come first, so that two places never
    /// have the same bytes.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.entity.len() + self.id.len() + self.field.len() + 24);
        for part in [self.entity, self.id, self.field] {
            out.extend_from_slice(&(part.len() as u64).to_be_bytes());
            out.extend_from_slice(part.as_bytes());
        }
        out
    }
}
