//! `derive`: one array out of the records of several entities.

use super::{Answer, Kind, Options};
use crate::Code;
use crate::entity::EntityDesc;
use crate::filter::FilterSpec;
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// Most records that one source may give. More are refused: they are merged in memory.
pub const MOST_DERIVED: u32 = 10_000;

/// Options of a derive.
#[derive(Debug)]
pub struct Derive {
    /// Where items come from.
    pub sources: &'static [Part],
    /// How sources become one array.
    pub merge: Merge,
    /// Lists among the items are opened.
    pub flatten: bool,
    /// What an item must satisfy in the end.
    pub post_filter: Option<FilterSpec>,
}

/// A source.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Whose records.
    pub entity: &'static EntityDesc,
    /// Which of them.
    pub filter: Option<FilterSpec>,
    /// One field of them; else the records themselves.
    pub select: Option<usize>,
    /// The records that a field of them names, in their stead.
    pub through: Option<Through>,
}

/// From records to those that they name.
#[derive(Debug, Clone, Copy)]
pub struct Through {
    /// The field that holds keys of the other entity.
    pub on: usize,
    /// The other entity.
    pub entity: &'static EntityDesc,
    /// One field of its records.
    pub select: Option<usize>,
}

/// How sources become one array. Records are the same when their keys are, other items when they
/// are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// Each item once, in the order of keys or values.
    Union,
    /// All items, one source after the other.
    Concat,
    /// What every source holds, in the order of the first.
    Intersect,
    /// The first source that holds anything.
    First,
    /// Each item once, from the first source that holds it.
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

    /// Opens lists.
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

    /// Whose records it reads, each entity once.
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

    /// Of which entity the items are, and which field of it.
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

    /// Those that match.
    #[must_use]
    pub const fn only(self, filter: FilterSpec) -> Self {
        Self {
            filter: Some(filter),
            ..self
        }
    }

    /// One field of them.
    #[must_use]
    pub const fn select(self, field: usize) -> Self {
        Self {
            select: Some(field),
            ..self
        }
    }

    /// The records that they name.
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

    /// One field of those.
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
