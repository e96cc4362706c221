//! `derive`: merges the records of several entities into one array.

use super::{Answer, Kind, Options};
use crate::Code;
use crate::entity::EntityDesc;
use crate::filter::FilterSpec;
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// The maximum number of records of one source. More are refused, because they are merged in
/// memory.
pub const MAX_DERIVED: u32 = 10_000;

/// The options of a derive.
#[derive(Debug)]
pub struct Derive {
    /// The sources of the items.
    pub sources: &'static [Part],
    /// How sources become one array.
    pub merge: Merge,
    /// Whether lists among the items are replaced by their elements.
    pub flatten: bool,
    /// A condition on the merged items.
    pub post_filter: Option<FilterSpec>,
}

/// A source.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// The entity of the records.
    pub entity: &'static EntityDesc,
    /// The condition on the records.
    pub filter: Option<FilterSpec>,
    /// The selected field; `None` selects the whole records.
    pub select: Option<usize>,
    /// Replaces the records by the records that one of their fields references.
    pub through: Option<Through>,
}

/// A step from records to the records that they reference.
#[derive(Debug, Clone, Copy)]
pub struct Through {
    /// The field that holds keys of the other entity.
    pub on: usize,
    /// The other entity.
    pub entity: &'static EntityDesc,
    /// The selected field of its records.
    pub select: Option<usize>,
}

/// How sources become one array. Records are the same if their keys are equal. Other items are the
/// same if they are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// Each item once, in the order of keys or values.
    Union,
    /// All items, one source after the other.
    Concat,
    /// The items that every source contains, in the order of the first.
    Intersect,
    /// The first source that is not empty.
    First,
    /// Each item once, from the first source that contains it.
    Priority,
}

#[doc(hidden)]
impl Derive {
    /// Merges sources.
    pub const fn new(sources: &'static [Part], merge: Merge) -> Self {
        Self {
            sources,
            merge,
            flatten: false,
            post_filter: None,
        }
    }

    /// Replaces lists by their elements.
    #[must_use]
    pub const fn flatten(self) -> Self {
        Self {
            flatten: true,
            ..self
        }
    }

    /// Keeps the items that match.
    #[must_use]
    pub const fn post_filter(self, filter: FilterSpec) -> Self {
        Self {
            post_filter: Some(filter),
            ..self
        }
    }

    /// Returns the entities that it reads, each once.
    pub fn entities(&self) -> Vec<&'static EntityDesc> {
        let mut out: Vec<&'static EntityDesc> = Vec::new();
        for entity in self
            .sources
            .iter()
            .flat_map(|part| {
                [
                    Some(part.entity),
                    part.through.map(|through| through.entity),
                ]
            })
            .flatten()
        {
            if out
                .iter()
                .all(|known| known.storage_name != entity.storage_name)
            {
                out.push(entity);
            }
        }
        out
    }

    /// Returns the entity of the items, and the selected field.
    pub fn items(&self) -> Option<(&'static EntityDesc, Option<usize>)> {
        let part = self.sources.first()?;
        Some(part.through.map_or((part.entity, part.select), |through| {
            (through.entity, through.select)
        }))
    }
}

#[doc(hidden)]
impl Part {
    /// All records of an entity.
    pub const fn of(entity: &'static EntityDesc) -> Self {
        Self {
            entity,
            filter: None,
            select: None,
            through: None,
        }
    }

    /// Keeps the records that match.
    #[must_use]
    pub const fn only(self, filter: FilterSpec) -> Self {
        Self {
            filter: Some(filter),
            ..self
        }
    }

    /// Selects one field.
    #[must_use]
    pub const fn select(self, field: usize) -> Self {
        Self {
            select: Some(field),
            ..self
        }
    }

    /// Replaces the records by the records that a field references.
    #[must_use]
    pub const fn through(self, on: usize, entity: &'static EntityDesc) -> Self {
        Self {
            through: Some(Through {
                on,
                entity,
                select: None,
            }),
            ..self
        }
    }

    /// Selects one field of the referenced records.
    #[must_use]
    pub const fn through_select(
        self,
        on: usize,
        entity: &'static EntityDesc,
        field: usize,
    ) -> Self {
        Self {
            through: Some(Through {
                on,
                entity,
                select: Some(field),
            }),
            ..self
        }
    }
}

impl Kind for Derive {
    fn options(&'static self) -> Options {
        Options::Derive(self)
    }

    fn facts(&self) -> &'static KindFacts {
        &facts::DERIVE
    }

    fn statements(&self, _: &EntityDesc) -> Option<usize> {
        Some(
            self.sources
                .iter()
                .map(|part| 1 + usize::from(part.through.is_some()))
                .sum(),
        )
    }

    fn returns(&self) -> Answer {
        Answer::Derived
    }

    fn errors(&self) -> &'static [Code] {
        &[Code::ValidationFailed]
    }
}
