//! Plans: statements in a form that does not depend on the store.

mod values;

pub use self::values::{Assign, AssignValue, Compute, Figure};
use super::CustomSql;
pub use crate::operation::{Function, Group};
pub use crate::timestamp::Truncate;

use crate::entity::{EntityDesc, FieldSet, Kind};
use crate::filter::{Filter, Source};

/// A statement with field positions and argument slots ([`Source::Arg`]). Its filters contain only
/// this source and [`Source::Value`].
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Inserts one record. Arguments: one value per field of the entity, in order. It returns no
    /// row, because the caller knows the values. An existing key or unique value is a conflict,
    /// never an update.
    Insert,
    /// Selects the matching records, in order.
    Select {
        /// The condition.
        filter: Filter,
        /// The order. It is empty only for plans that match at most one record.
        order: Vec<Order>,
        /// Only records after this position.
        after: Option<After>,
        /// The maximum number of records, an `Int`; `None` means all of them.
        limit: Option<Source>,
    },
    /// Selects the records with one of several values in a field: the first `limit` records for
    /// each value. The result is sorted by value, ascending. A value that occurs twice in the list
    /// returns its records once.
    Related {
        /// The condition on all records.
        filter: Filter,
        /// The field.
        field: usize,
        /// The slot of the values: a list as one argument, without nulls.
        values: usize,
        /// The order of records with the same value; empty if the field is the primary key.
        order: Vec<Order>,
        /// The maximum number of records for each value, an `Int`; `None` if the field is the
        /// primary key.
        limit: Option<Source>,
    },
    /// Selects the records that match the filter and a condition in SQL, in an order in SQL. The
    /// first arguments are the parameters of the SQL text. Only for stores with SQL.
    Chosen {
        /// The filter.
        filter: Filter,
        /// The condition and the order in SQL.
        sql: CustomSql,
        /// The order of records that the SQL order does not distinguish.
        order: Vec<Order>,
        /// The maximum number of records, an `Int`; `None` means all of them.
        limit: Option<Source>,
    },
    /// Whether a record matches: one row without values, or none.
    Exists {
        /// The condition.
        filter: Filter,
    },
    /// Whether a record matches, as for [`Plan::Exists`]. It locks the record until the end of the
    /// transaction: no other transaction can remove it or mark it as deleted.
    Hold {
        /// The condition.
        filter: Filter,
    },
    /// Selects the matching records, in the order of their keys. It locks them until the end of the
    /// transaction: no other transaction can change or remove them.
    Lock {
        /// The condition.
        filter: Filter,
        /// Limits the plan to the first records.
        pick: Option<Pick>,
    },
    /// Computes numbers over the matching records. It returns one row per group, in the order of
    /// the keys, null first. Without keys it returns one row, even if no record matches. A row has
    /// the keys and then the computed values, in the given order.
    ///
    /// A sum of whole numbers that an `i64` cannot hold is `validation_failed` with `range`.
    Aggregate {
        /// The condition on the records.
        filter: Filter,
        /// The keys.
        groups: Vec<Group>,
        /// Fields whose values divide each group again, in the same statement; see
        /// [`aggregate_kinds`].
        by_value: Vec<usize>,
        /// The computed values of each group.
        compute: Vec<Compute>,
        /// The maximum number of rows.
        limit: u32,
    },
    /// Changes the matching records and returns them with the new values. Assignments read the old
    /// values.
    Update {
        /// The condition.
        filter: Filter,
        /// The written values.
        set: Vec<Assign>,
        /// Limits the plan to the first records.
        pick: Option<Pick>,
    },
    /// Removes the matching records and returns them.
    Delete {
        /// The condition.
        filter: Filter,
        /// Limits the plan to the first records.
        pick: Option<Pick>,
    },
    /// Inserts or changes one record and returns it. [`Rows::created`](super::Rows) says whether it
    /// is new.
    ///
    /// Arguments: one value per field of the entity, in order, as for [`Plan::Insert`], then the
    /// arguments of `set` and `filter`. If a record with the same values in `keys` exists and
    /// matches `filter`, the statement writes `set` to it. If that record does not match `filter`,
    /// the statement writes nothing and returns no row. An equal value in another unique index is a
    /// conflict.
    Upsert {
        /// The fields of the primary key or of one unique constraint.
        keys: Vec<usize>,
        /// The condition on the existing record.
        filter: Filter,
        /// The changes of the existing record.
        set: Vec<Assign>,
    },
}

impl Plan {
    /// Whether the plan only reads.
    pub fn reads(&self) -> bool {
        match self {
            Self::Select { .. }
            | Self::Related { .. }
            | Self::Chosen { .. }
            | Self::Exists { .. }
            | Self::Hold { .. }
            | Self::Lock { .. }
            | Self::Aggregate { .. } => true,
            Self::Insert | Self::Update { .. } | Self::Delete { .. } | Self::Upsert { .. } => false,
        }
    }

    /// Returns the filter of the plan; `None` for an insert.
    pub fn filter(&self) -> Option<&Filter> {
        match self {
            Self::Insert => None,
            Self::Select { filter, .. }
            | Self::Related { filter, .. }
            | Self::Chosen { filter, .. }
            | Self::Exists { filter }
            | Self::Hold { filter }
            | Self::Lock { filter, .. }
            | Self::Aggregate { filter, .. }
            | Self::Update { filter, .. }
            | Self::Delete { filter, .. }
            | Self::Upsert { filter, .. } => Some(filter),
        }
    }

    /// Adds a condition to the filter of the plan.
    #[must_use]
    pub fn narrowed(mut self, condition: Filter) -> Self {
        match &mut self {
            Self::Insert => {}
            Self::Select { filter, .. }
            | Self::Related { filter, .. }
            | Self::Chosen { filter, .. }
            | Self::Exists { filter }
            | Self::Hold { filter }
            | Self::Lock { filter, .. }
            | Self::Aggregate { filter, .. }
            | Self::Update { filter, .. }
            | Self::Delete { filter, .. }
            | Self::Upsert { filter, .. } => {
                *filter = std::mem::replace(filter, Filter::TRUE).and(condition);
            }
        }
        self
    }

    /// Returns the fields that the plan can change: none for a read, all for an insert, upsert or
    /// delete.
    pub fn touches(&self) -> FieldSet {
        match self {
            Self::Update { set, .. } => set.iter().map(|assign| assign.field).collect(),
            plan if plan.reads() => FieldSet::NONE,
            _ => FieldSet::ALL,
        }
    }

    /// Returns the number of arguments of the plan.
    #[doc(hidden)]
    pub fn arity(&self, entity: &EntityDesc) -> usize {
        let mut most = 0;
        let mut note = |source: &Source| {
            if let Source::Arg { index, .. } = source {
                most = most.max(index + 1);
            }
        };
        match self {
            Self::Insert => return entity.fields.len(),
            Self::Select {
                filter,
                after,
                limit,
                ..
            } => {
                filter.sources(&mut note);
                limit.iter().for_each(&mut note);
                let slots: Vec<usize> = match after {
                    None => Vec::new(),
                    Some(After::Keys(keys)) => keys.iter().flatten().copied().collect(),
                    Some(After::Count(slot)) => vec![*slot],
                };
                for index in slots {
                    note(&Source::Arg {
                        index,
                        nullable: false,
                    });
                }
            }
            Self::Related {
                filter,
                values,
                limit,
                ..
            } => {
                filter.sources(&mut note);
                note(&Source::Arg {
                    index: *values,
                    nullable: false,
                });
                limit.iter().for_each(&mut note);
            }
            Self::Chosen {
                filter, sql, limit, ..
            } => {
                filter.sources(&mut note);
                limit.iter().for_each(&mut note);
                most = most.max(sql.kinds.len());
            }
            Self::Aggregate {
                filter, compute, ..
            } => {
                filter.sources(&mut note);
                for compute in compute {
                    compute.filter.sources(&mut note);
                }
            }
            Self::Exists { filter }
            | Self::Hold { filter }
            | Self::Lock { filter, .. }
            | Self::Delete { filter, .. } => {
                filter.sources(&mut note);
            }
            Self::Update { filter, set, .. } | Self::Upsert { filter, set, .. } => {
                filter.sources(&mut note);
                for assign in set {
                    assign.value.sources(&mut note);
                }
            }
        }
        if matches!(self, Self::Upsert { .. }) {
            most.max(entity.fields.len())
        } else {
            most
        }
    }
}

/// Returns the types of the columns of an aggregate: the keys, then the computed values.
///
/// If `by_value` is not empty, the first column is a number, and the keys are followed by one
/// column for each field of `by_value`. The number is 0 for a whole group; then these columns are
/// null. For a part of a group the number is the position of the dividing field, from 1, and the
/// column of that field has the value. Whole groups come first, then the parts by each field, all
/// in the order of keys and values.
#[doc(hidden)]
pub fn aggregate_kinds(
    entity: &EntityDesc,
    groups: &[Group],
    by_value: &[usize],
    compute: &[Compute],
) -> Box<[Kind]> {
    let kind = |field: usize| {
        entity
            .fields
            .get(field)
            .map_or(Kind::Json, |field| field.kind)
    };
    let part = (!by_value.is_empty()).then_some(Kind::Integer);
    let keys = groups
        .iter()
        .map(|group| group.field)
        .chain(by_value.iter().copied())
        .map(kind);
    part.into_iter()
        .chain(keys)
        .chain(compute.iter().map(|compute| compute.kind(entity)))
        .collect()
}

/// The first records in an order.
#[derive(Clone, Debug, PartialEq)]
pub struct Pick {
    /// The order. It ends with the primary key, so no two records are equal in it.
    pub order: Vec<Order>,
    /// The maximum number of records.
    pub limit: u32,
    /// Whether the statement waits for records that are locked by another transaction. Otherwise it
    /// skips them, so that concurrent callers get different records.
    pub waits: bool,
}

impl Pick {
    /// The first records that are not locked.
    pub fn free(order: Vec<Order>, limit: u32) -> Self {
        Self {
            order,
            limit,
            waits: false,
        }
    }

    /// A part of the matching records, without skipping locked ones. A result with fewer than
    /// `limit` records is the last part.
    pub fn part(order: Vec<Order>, limit: u32) -> Self {
        Self {
            order,
            limit,
            waits: true,
        }
    }
}

/// One key of an order. Null is the smallest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// The position of the field.
    pub field: usize,
    /// Whether the order is descending.
    pub desc: bool,
}

/// The start position of a page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum After {
    /// After the record with these values in the fields of the order: the argument slot of each
    /// value, or `None` if it is null.
    Keys(Vec<Option<usize>>),
    /// After a number of records: the argument slot of that `Int`.
    Count(usize),
}
