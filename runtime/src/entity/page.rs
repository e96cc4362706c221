//! Pages and what asks for them.

use std::marker::PhantomData;

use serde::Serialize;

use super::{Entity, Field};
use crate::filter::Filter;

/// One page of records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// The records, in order.
    pub items: Vec<T>,
    /// Continues behind the last record; `Some` exactly when `has_more`.
    pub next_cursor: Option<String>,
    /// Whether more records matched.
    pub has_more: bool,
}

/// Which page of a lookup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageArgs {
    /// Most records wanted; clamped to the entity's `max_limit`.
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

/// A sort direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Smallest first; null is smallest.
    Asc,
    /// Greatest first; null is last.
    Desc,
}

/// What the typed `list` takes.
#[derive(Clone, Debug)]
pub struct ListQuery<E> {
    pub(crate) page: PageArgs,
    pub(crate) sort: Option<(usize, Direction)>,
    pub(crate) filter: Option<Filter>,
    pub(crate) deleted: bool,
    entity: PhantomData<fn() -> E>,
}

impl<E: Entity> Default for ListQuery<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Entity> ListQuery<E> {
    /// The first page in the default sort, unfiltered.
    pub fn new() -> Self {
        Self { page: PageArgs::default(), sort: None, filter: None, deleted: false, entity: PhantomData }
    }

    /// Most records wanted; clamped to the entity's `max_limit`.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.page.limit = Some(limit);
        self
    }

    /// Continues behind an earlier page.
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

    /// Deleted records as well. Only for [`Cx::system`](crate::Cx::system); others are refused.
    #[must_use]
    pub fn include_deleted(mut self) -> Self {
        self.deleted = true;
        self
    }

    /// Only records that satisfy the filter; repeated calls are ANDed.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(match self.filter.take() {
            Some(first) => first.and(filter),
            None => filter,
        });
        self
    }
}

/// What an upsert with `returns = "created"` answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Upserted<E> {
    /// The record as it is now.
    pub entity: E,
    /// Whether the call made it.
    pub created: bool,
}
