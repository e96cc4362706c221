//! Relations between the records of two entities.

use std::marker::PhantomData;

use super::EntityDesc;

/// A declared relation.
#[derive(Clone, Copy, Debug)]
pub struct Relation {
    /// The name in the declaration: `author`.
    pub name: &'static str,
    /// The name in `include` and in responses: `author`.
    pub wire: &'static str,
    /// The other entity. A function, because two entities may name each other.
    pub target: fn() -> &'static EntityDesc,
    /// The side that holds the key.
    pub link: Link,
}

/// The side of a relation that holds the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// This side: a field holds the key of one record of the other entity.
    BelongsTo {
        /// The position of the field.
        key: usize,
        /// The effect on this record when the other is deleted.
        on_delete: OnDelete,
    },
    /// The other side: a field of its records holds the key of this record.
    HasMany {
        /// The name of the field in the other entity. It is not a position, because the other
        /// entity may name this one in turn.
        key: &'static str,
        /// The maximum number of records that an `include` returns for each record. Pages return
        /// the rest.
        max: u32,
    },
}

/// The effect on a record when the record that it belongs to is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnDelete {
    /// No effect: the key may name a missing record, at any time.
    #[default]
    None,
    /// The other record cannot be deleted.
    Restrict,
    /// The key in the record becomes null.
    SetNull,
    /// The record is deleted as well.
    Cascade,
}

impl Relation {
    /// Returns the position of the key and its rule for deletes. `None` for the side without the
    /// key, and if there is no rule.
    pub fn enforced(&self) -> Option<(usize, OnDelete)> {
        match self.link {
            Link::BelongsTo {
                on_delete: OnDelete::None,
                ..
            }
            | Link::HasMany { .. } => None,
            Link::BelongsTo { key, on_delete } => Some((key, on_delete)),
        }
    }
}

#[doc(hidden)]
impl Relation {
    /// A field of this entity holds the key.
    pub const fn belongs_to(
        name: &'static str,
        wire: &'static str,
        target: fn() -> &'static EntityDesc,
        key: usize,
    ) -> Self {
        Self {
            name,
            wire,
            target,
            link: Link::BelongsTo {
                key,
                on_delete: OnDelete::None,
            },
        }
    }

    /// A field of the other entity holds the key.
    pub const fn has_many(
        name: &'static str,
        wire: &'static str,
        target: fn() -> &'static EntityDesc,
        key: &'static str,
    ) -> Self {
        Self {
            name,
            wire,
            target,
            link: Link::HasMany { key, max: 50 },
        }
    }

    /// Sets the effect of deleting the other record.
    #[must_use]
    pub const fn on_delete(self, on_delete: OnDelete) -> Self {
        match self.link {
            Link::BelongsTo { key, .. } => Self {
                link: Link::BelongsTo { key, on_delete },
                ..self
            },
            Link::HasMany { .. } => self,
        }
    }

    /// Sets the maximum number of records that an `include` returns.
    #[must_use]
    pub const fn max(self, max: u32) -> Self {
        match self.link {
            Link::HasMany { key, .. } => Self {
                link: Link::HasMany { key, max },
                ..self
            },
            Link::BelongsTo { .. } => self,
        }
    }
}

/// A relation to one record, for `Adapter::related`. The entity struct has a const for each
/// relation.
#[derive(Clone, Copy, Debug)]
pub struct One<E, T> {
    /// The declared name.
    pub name: &'static str,
    entities: PhantomData<fn() -> (E, T)>,
}

/// A relation to many records, for `Adapter::related_pages`. The entity struct has a const for each
/// relation.
#[derive(Clone, Copy, Debug)]
pub struct Many<E, T> {
    /// The declared name.
    pub name: &'static str,
    entities: PhantomData<fn() -> (E, T)>,
}

#[doc(hidden)]
impl<E, T> One<E, T> {
    /// The relation with this name.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            entities: PhantomData,
        }
    }
}

#[doc(hidden)]
impl<E, T> Many<E, T> {
    /// The relation with this name.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            entities: PhantomData,
        }
    }
}
