//! `lookup`: finds one record or a page by declared fields.

use super::{Answer, AssignSpec, Kind, NamedSort, Options};
use crate::entity::{Paging, SortDesc};
use crate::filter::FilterSpec;
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// The options of a lookup.
#[derive(Debug)]
pub struct Lookup {
    /// The conditions `field == source`, in declaration order. An omitted parameter drops its
    /// condition.
    pub fields: &'static [AssignSpec],
    /// A further filter.
    pub filter: Option<FilterSpec>,
    /// Whether it returns many records: `returns = "many"`.
    pub many: bool,
    /// Whether an omitted limit means the default limit.
    pub paginate: bool,
    /// The sort that replaces the default sort.
    pub sort: Option<SortDesc>,
    /// The named orders that calls choose from. They replace `sort`.
    pub sorts: &'static [NamedSort],
    /// The parameters with which calls select a page.
    pub paging: Paging,
    /// The maximum `limit`, in records.
    pub limit: Option<u32>,
    /// Whether it finds only deleted records.
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

    /// Adds a filter.
    #[must_use]
    pub const fn filter(self, filter: FilterSpec) -> Self {
        Self {
            filter: Some(filter),
            ..self
        }
    }

    /// Returns a page.
    #[must_use]
    pub const fn many(self) -> Self {
        Self { many: true, ..self }
    }

    /// Uses the default limit if a call omits the limit.
    #[must_use]
    pub const fn paginate(self) -> Self {
        Self {
            paginate: true,
            ..self
        }
    }

    /// Sets the sort.
    #[must_use]
    pub const fn sort(self, sort: SortDesc) -> Self {
        Self {
            sort: Some(sort),
            ..self
        }
    }

    /// Sets the named orders that calls choose from.
    #[must_use]
    pub const fn sorts(self, sorts: &'static [NamedSort]) -> Self {
        Self { sorts, ..self }
    }

    /// Returns numbered pages.
    #[must_use]
    pub const fn numbered(self) -> Self {
        Self {
            paging: Paging::NUMBER,
            ..self
        }
    }

    /// Finds only deleted records.
    #[must_use]
    pub const fn deleted(self) -> Self {
        Self {
            deleted: true,
            ..self
        }
    }

    /// Sets the maximum `limit`.
    #[must_use]
    pub const fn limit(self, limit: u32) -> Self {
        Self {
            limit: Some(limit),
            ..self
        }
    }
}

impl Lookup {
    /// Returns the parameters with which a call selects a page of at most `limit` records.
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

    fn selects_deleted(&self) -> bool {
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
