//! `lookup`: finds one record or a page by declared fields.

use super::AssignSpec;
use crate::entity::SortDesc;
use crate::filter::FilterSpec;

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
    /// Cap on `limit`, in records.
    pub limit: Option<u32>,
}
