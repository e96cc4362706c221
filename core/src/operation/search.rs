//! `search`: the records in whose texts something stands.
//!
//! The store looks for the text itself. Where the entity names a search provider, that one answers
//! which records fit, and the store shows those of them that the caller can see.

use super::{Answer, Kind, Options};
use crate::Code;
use crate::filter::FilterSpec;
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// Options of a search. What is searched for is the first parameter, `q`.
#[derive(Debug)]
pub struct Search {
    /// The fields that are searched: texts.
    pub fields: &'static [usize],
    /// A further filter.
    pub filter: Option<FilterSpec>,
    /// Answer a page instead of an array.
    pub paginate: bool,
    /// Let the store search although the entity has a provider.
    pub in_store: bool,
}

#[doc(hidden)]
impl Search {
    /// A search in these fields.
    pub const fn new(fields: &'static [usize]) -> Self {
        Self {
            fields,
            filter: None,
            paginate: false,
            in_store: false,
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
    pub const fn paginate(self) -> Self {
        Self {
            paginate: true,
            ..self
        }
    }

    /// Leaves the entity's provider out.
    #[must_use]
    pub const fn in_store(self) -> Self {
        Self {
            in_store: true,
            ..self
        }
    }
}

impl Kind for Search {
    fn options(&'static self) -> Options {
        Options::Search(self)
    }

    fn facts(&self) -> &'static KindFacts {
        &facts::SEARCH
    }

    fn returns(&self) -> Answer {
        if self.paginate {
            Answer::Page
        } else {
            Answer::List
        }
    }

    fn errors(&self) -> &'static [Code] {
        &[Code::ValidationFailed]
    }

    fn filter(&self) -> Option<&FilterSpec> {
        self.filter.as_ref()
    }
}
