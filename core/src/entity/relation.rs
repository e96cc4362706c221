//! How records of one entity name those of another.

use std::marker::PhantomData;

use super::EntityDesc;

/// A relation as declared.
#[derive(Clone, Copy, Debug)]
pub struct Relation {
    /// `author`, as the declaration spells it.
    pub name: &'static str,
    /// `author`, as `include` and answers spell it.
    pub wire: &'static str,
    /// The other entity. A function, since two entities may name each other.
    pub target: fn() -> &'static EntityDesc,
    /// Which side holds the key.
    pub link: Link,
}

/// Which side of a relation holds the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// This one: a field holds the key of one record of the other.
    BelongsTo {
        /// Position of the field.
        key: usize,
        /// What becomes of this record when the other is deleted.
        on_delete: OnDelete,
    },
    /// The other one: a field of its records holds the key of this.
    HasMany {
        /// The name of the field in the other entity. Its position is a matter of that entity,
        /// which may name this one in turn.
        key: &'static str,
        /// Most records that an `include` shows of each; there are pages for the rest.
        max: u32,
    },
}

/// What becomes of a record when the one that it belongs to is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnDelete {
    /// Nothing: its key may name no record, then and at any other time.
    #[default]
    None,
    /// The other record cannot be deleted.
    Restrict,
    /// Its key becomes null.
    SetNull,
    /// It is deleted as well.
    Cascade,
}

impl Relation {
    /// What is said of the relation of a key when records disappear; `None` for the side without
    /// the key, and when nothing is.
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

    /// With something to be done when the other record is deleted.
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

    /// With another number of records that an `include` shows.
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
    /// As declared.
    pub name: &'static str,
    entities: PhantomData<fn() -> (E, T)>,
}

/// A relation to many records, for `Adapter::related_pages`. The entity struct has a const for each
/// relation.
#[derive(Clone, Copy, Debug)]
pub struct Many<E, T> {
    /// As declared.
    pub name: &'static str,
    entities: PhantomData<fn() -> (E, T)>,
}

#[doc(hidden)]
impl<E, T> One<E, T> {
    /// The relation of this name.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            entities: PhantomData,
        }
    }
}

#[doc(hidden)]
impl<E, T> Many<E, T> {
    /// The relation of this name.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            entities: PhantomData,
        }
    }
}
