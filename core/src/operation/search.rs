//! `search`: finds the records whose texts contain a text.
//!
//! The store searches the text itself. If the entity names a search provider, the provider returns
//! the matching records, and the store returns those that the caller may see.

use super::{Answer, Kind, Options};
use crate::Code;
use crate::filter::FilterSpec;
use linchpin_vocabulary::kind::{self as facts, KindFacts};

/// The options of a search. The first parameter, `q`, is the searched text.
#[derive(Debug)]
pub struct Search {
    /// The searched fields, which are texts.
    pub fields: &'static [usize],
    /// A further filter.
    pub filter: Option<FilterSpec>,
    /// Whether it returns a page instead of an array.
    pub paginate: bool,
    /// Whether the store searches although the entity has a provider.
    pub in_store: bool,
}

#[doc(hidden)]
impl Search {
    /// Searches these fields.
    pub const fn new(fields: &'static [usize]) -> Self {
        Self {
            fields,
            filter: None,
            paginate: false,
            in_store: false,
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
    pub const fn paginate(self) -> Self {
        Self {
            paginate: true,
            ..self
        }
    }

    /// Searches in the store, without the entity's provider.
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
