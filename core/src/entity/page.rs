//! Pages, and the arguments of calls for a page.

use std::marker::PhantomData;

use serde::Serialize;

use super::{Entity, Field};
pub use crate::descriptor::Paging;
use crate::filter::Filter;

/// One page of records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// The records, in order.
    pub items: Vec<T>,
    /// The cursor of the next page, which starts after the last record. `Some` exactly when
    /// `has_more` is true.
    pub next_cursor: Option<String>,
    /// Whether more records matched.
    pub has_more: bool,
}

/// The page that a lookup returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageArgs {
    /// The maximum number of records. Greater values are clamped to the entity's `max_limit`.
    pub limit: Option<u32>,
    /// The `next_cursor` of the previous page.
    pub cursor: Option<String>,
    /// The number of the page, from 1, if pages are numbered. `limit` is then the page size.
    pub page: Option<u32>,
    /// The name of the order, if the lookup has several. The default is the first of them.
    pub sort: Option<String>,
}

/// The number of records that page numbers can reach. Calls read later records with a cursor.
const NUMBERED_RECORDS: u64 = 10_000;

/// An invalid argument of a page: the parameter, the code and the message.
pub type Refused = (&'static str, &'static str, String);

impl Paging {
    /// Returns the page arguments with their defaults: the page size, and the page number if there
    /// is no cursor. `default` is the limit of pages that are not numbered; `None` means all
    /// records.
    ///
    /// # Errors
    /// If an argument is invalid.
    #[doc(hidden)]
    pub fn resolve(self, requested: &PageArgs, default: Option<u32>) -> Result<PageArgs, Refused> {
        let at_least_1 = |name| Err((name, "range", "must be at least 1".to_owned()));
        if requested.sort.is_some() {
            return Err((
                "sort",
                "not_allowed",
                "this route has only one order: omit the parameter".to_owned(),
            ));
        }
        let Self::Number { most } = self else {
            return match (requested.page, requested.limit.or(default)) {
                (Some(_), _) => Err((
                    "page",
                    "not_allowed",
                    "this route has no numbered pages: use `cursor`".to_owned(),
                )),
                (None, Some(0)) => at_least_1("limit"),
                (None, limit) => Ok(PageArgs {
                    limit,
                    cursor: requested.cursor.clone(),
                    ..PageArgs::default()
                }),
            };
        };
        let size = requested.limit.unwrap_or(Self::SIZE).min(most);
        let page = requested.page.unwrap_or(1);
        if size == 0 {
            return at_least_1("pageSize");
        }
        let limit = Some(size);
        match (&requested.cursor, requested.page) {
            (Some(_), Some(_)) => Err((
                "page",
                "not_allowed",
                "cannot be combined with `cursor`".to_owned(),
            )),
            (Some(cursor), None) => Ok(PageArgs {
                limit,
                cursor: Some(cursor.clone()),
                ..PageArgs::default()
            }),
            (None, Some(0)) => at_least_1("page"),
            (None, _) if u64::from(page) * u64::from(size) > NUMBERED_RECORDS => Err((
                "page",
                "range",
                format!(
                    "page numbers cover the first {NUMBERED_RECORDS} records; continue with `cursor`"
                ),
            )),
            (None, _) => Ok(PageArgs {
                limit,
                page: Some(page),
                ..PageArgs::default()
            }),
        }
    }
}

/// A sort direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Smallest value first. Null is the smallest value.
    Asc,
    /// Greatest value first. Null is last.
    Desc,
}

/// The arguments of the typed `list`.
#[derive(Clone, Debug)]
pub struct ListQuery<E> {
    #[doc(hidden)]
    pub page: PageArgs,
    #[doc(hidden)]
    pub sort: Option<(usize, Direction)>,
    #[doc(hidden)]
    pub filter: Option<Filter>,
    #[doc(hidden)]
    pub deleted: bool,
    entity: PhantomData<fn() -> E>,
}

impl<E: Entity> Default for ListQuery<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Entity> ListQuery<E> {
    /// The first page in the default sort, without a filter.
    pub fn new() -> Self {
        Self {
            page: PageArgs::default(),
            sort: None,
            filter: None,
            deleted: false,
            entity: PhantomData,
        }
    }

    /// The maximum number of records. Greater values are clamped to the entity's `max_limit`.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.page.limit = Some(limit);
        self
    }

    /// The page with this number, from 1. For entities with numbered pages.
    #[must_use]
    pub fn page(mut self, number: u32) -> Self {
        self.page.page = Some(number);
        self
    }

    /// Continues after an earlier page.
    #[must_use]
    pub fn cursor(mut self, cursor: impl Into<String>) -> Self {
        self.page.cursor = Some(cursor.into());
        self
    }

    /// Sorts by a field; the primary key breaks ties in the same direction.
    #[must_use]
    pub fn sort<F: Field<Entity = E>>(mut self, _field: F, direction: Direction) -> Self {
        self.sort = Some((F::INDEX, direction));
        self
    }

    /// Includes deleted records. Only `Cx::system` may use it; other callers are refused.
    #[must_use]
    pub fn include_deleted(mut self) -> Self {
        self.deleted = true;
        self
    }

    /// Returns only records that satisfy the filter. Repeated calls are combined with AND.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(match self.filter.take() {
            Some(first) => first.and(filter),
            None => filter,
        });
        self
    }
}

/// The result of an upsert with `returns = "created"`.
#[derive(Clone, Debug, PartialEq)]
pub struct Upserted<E> {
    /// The record after the call.
    pub entity: E,
    /// Whether the call created the record.
    pub created: bool,
}

#[cfg(test)]
mod tests {
    use super::{PageArgs, Paging};

    #[test]
    fn numbered_paging_checks_the_page_and_its_size() {
        let ask = |page, limit, cursor: Option<&str>| {
            let requested = PageArgs {
                limit,
                cursor: cursor.map(str::to_owned),
                page,
                sort: None,
            };
            Paging::NUMBER
                .resolve(&requested, None)
                .map(|page| (page.page, page.limit))
                .map_err(|(name, code, _)| (name, code))
        };
        assert_eq!(ask(None, None, None), Ok((Some(1), Some(20))));
        assert_eq!(ask(Some(7), Some(1000), None), Ok((Some(7), Some(100))));
        // The size after clamping is checked.
        assert_eq!(
            ask(Some(100), Some(u32::MAX), None),
            Ok((Some(100), Some(100)))
        );
        assert_eq!(ask(Some(101), Some(100), None), Err(("page", "range")));
        assert_eq!(
            ask(Some(u32::MAX), Some(u32::MAX), None),
            Err(("page", "range"))
        );
        assert_eq!(ask(Some(0), None, None), Err(("page", "range")));
        assert_eq!(ask(Some(1), Some(0), None), Err(("pageSize", "range")));
        assert_eq!(ask(None, Some(5), Some("c")), Ok((None, Some(5))));
        assert_eq!(ask(Some(1), None, Some("c")), Err(("page", "not_allowed")));
        assert_eq!(Paging::NUMBER.within(7), Paging::Number { most: 7 });
        assert_eq!(Paging::NUMBER.within(700), Paging::NUMBER);
    }

    #[test]
    fn limit_paging_refuses_page_numbers_and_the_limit_0() {
        let ask = |page, limit| {
            Paging::Limit
                .resolve(
                    &PageArgs {
                        limit,
                        page,
                        ..PageArgs::default()
                    },
                    Some(50),
                )
                .map_err(|(name, code, _)| (name, code))
        };
        assert_eq!(ask(Some(1), None), Err(("page", "not_allowed")));
        assert_eq!(ask(None, Some(0)), Err(("limit", "range")));
        assert_eq!(ask(None, None).map(|page| page.limit), Ok(Some(50)));
    }
}
