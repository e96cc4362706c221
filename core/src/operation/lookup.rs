//! `lookup`: finds one record or a page by declared fields.

use super::{Answer, AssignSpec, Kind, NamedSort, Options};
use crate::entity::{Paging, SortDesc};
use crate::filter::FilterSpec;
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// Options of a lookup.
#[derive(Debug)]
pub struct Lookup {
    /// `field == source`, in declaration order; an omitted parameter drops its condition.
    pub fields: &'static [AssignSpec],
    /// A further filter.
    pub filter: Option<FilterSpec>,
    /// `returns = "many"`.
    pub many: bool,
    /// Omitted limit means the default limit.
    pub paginate: bool,
    /// Replaces the default sort.
    pub sort: Option<SortDesc>,
    /// Orders to choose from by name, in place of one.
    pub sorts: &'static [NamedSort],
    /// How pages are asked for.
    pub paging: Paging,
    /// Cap on `limit`, in records.
    pub limit: Option<u32>,
    /// Finds deleted records, and no others.
    pub deleted: bool,
}

#[doc(hidden)]
impl Lookup {
    /// A lookup of one record.
    pub const fn new(fields: &'static [AssignSpec]) -> Self {
        Self {
            fields,
            filter: None,
            many: false,
            paginate: false,
            sort: None,
            sorts: &[],
            paging: Paging::Limit,
            limit: None,
            deleted: false,
        }
    }

    /// With a further filter.
    #[must_use]
    pub const fn filter(self, filter: FilterSpec) -> Self {
        Self {
            filter: Some(filter),
            ..self
        }
    }

    /// Answers a page.
    #[must_use]
    pub const fn many(self) -> Self {
        Self { many: true, ..self }
    }

    /// An omitted limit means the default limit.
    #[must_use]
    pub const fn paginate(self) -> Self {
        Self {
            paginate: true,
            ..self
        }
    }

    /// With a sort of its own.
    #[must_use]
    pub const fn sort(self, sort: SortDesc) -> Self {
        Self {
            sort: Some(sort),
            ..self
        }
    }

    /// With orders to choose from.
    #[must_use]
    pub const fn sorts(self, sorts: &'static [NamedSort]) -> Self {
        Self { sorts, ..self }
    }

    /// Answers pages by number.
    #[must_use]
    pub const fn numbered(self) -> Self {
        Self {
            paging: Paging::NUMBER,
            ..self
        }
    }

    /// Of deleted records.
    #[must_use]
    pub const fn deleted(self) -> Self {
        Self {
            deleted: true,
            ..self
        }
    }

    /// With a cap on the limit.
    #[must_use]
    pub const fn limit(self, limit: u32) -> Self {
        Self {
            limit: Some(limit),
            ..self
        }
    }
}

impl Lookup {
    /// How a call asks for a page: at most `limit` records.
    #[must_use]
    pub fn paging(&self) -> Paging {
        self.limit
            .map_or(self.paging, |cap| self.paging.within(cap))
    }
}

impl Kind for Lookup {
    fn options(&'static self) -> Options {
        Options::Lookup(self)
    }

    fn facts(&self) -> &'static KindFacts {
        &facts::LOOKUP
    }

    fn matches(&self) -> &'static [AssignSpec] {
        self.fields
    }

    fn deleted(&self) -> bool {
        self.deleted
    }

    fn returns(&self) -> Answer {
        if self.many {
            Answer::Page
        } else {
            Answer::RecordOrNull
        }
    }

    fn filter(&self) -> Option<&FilterSpec> {
        self.filter.as_ref()
    }
}
