//! What a statement does, independent of the store.

use super::Words;
pub use crate::timestamp::Truncate;

use crate::Value;
use crate::entity::{EntityDesc, FieldSet, Kind};
use crate::filter::{Filter, Source};

/// A statement in field positions and argument slots ([`Source::Arg`]); its filters hold no other source but
/// [`Source::Value`].
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// One record. Arguments: one value per field of the entity, in order. Nothing is returned: the caller knows the values.
    /// An existing key or unique is a conflict, never an update.
    Insert,
    /// The records that match, in order.
    Select {
        /// Which.
        filter: Filter,
        /// In which order; empty only for plans that match at most one record.
        order: Vec<Order>,
        /// Only records behind this position.
        after: Option<After>,
        /// Most records; the argument is an `Int`. `None`: all of them.
        limit: Option<Source>,
    },
    /// The records that hold any of several values in one field: for each value the first in an order. Those of one value
    /// follow each other, values ascending; a value that is asked for twice is answered once.
    Related {
        /// Which records count at all.
        filter: Filter,
        /// The field.
        field: usize,
        /// The slot of the values: a list as one argument, nulls left out.
        values: usize,
        /// In which order those of one value come; empty when the field is the primary key.
        order: Vec<Order>,
        /// Most records of each value, an `Int`; `None` when the field is the primary key, which names one.
        limit: Option<Source>,
    },
    /// The records that match and that a condition in the database's own words holds of, in an order in such words. The first
    /// arguments are those of the words. Only for stores that take SQL.
    Chosen {
        /// Which count at all.
        filter: Filter,
        /// Which of them.
        words: Words,
        /// In which order where that of the words leaves a choice.
        order: Vec<Order>,
        /// Most records, an `Int`; `None`: all of them.
        limit: Option<Source>,
    },
    /// Whether a record matches: one row without values, or none.
    Exists {
        /// Which.
        filter: Filter,
    },
    /// Whether a record matches, as for [`Plan::Exists`]. If one does, nobody else removes it, or marks it as deleted, until the
    /// transaction has ended that the statement is part of.
    Hold {
        /// Which.
        filter: Filter,
    },
    /// The records that match, by key. Nobody else changes or removes them until the transaction has ended that the statement is
    /// part of.
    Lock {
        /// Which.
        filter: Filter,
        /// Only the first of them.
        pick: Option<Pick>,
    },
    /// Numbers over the records that match: one row per group, in the order of the keys, null first; without keys one row, also
    /// over no record. A row holds the keys and then what is computed, in the given order.
    ///
    /// A sum of whole numbers that an `i64` cannot hold is `validation_failed` with `range`.
    Aggregate {
        /// Over which records.
        filter: Filter,
        /// The keys.
        groups: Vec<Group>,
        /// Fields by whose values each group is divided once more, all in one look at the records: see [`aggregate_kinds`].
        by_value: Vec<usize>,
        /// What is computed of each group.
        compute: Vec<Compute>,
        /// Most rows.
        limit: u32,
    },
    /// Changes the records that match, and returns them as changed. Assignments see the old values.
    Update {
        /// Which.
        filter: Filter,
        /// What is written.
        set: Vec<Assign>,
        /// Only the first of them.
        pick: Option<Pick>,
    },
    /// Removes the records that match, and returns them as they were.
    Delete {
        /// Which.
        filter: Filter,
        /// Only the first of them.
        pick: Option<Pick>,
    },
    /// One record, new or changed: returned as it is then, and [`Rows::created`](super::Rows) tells which.
    ///
    /// Arguments: one value per field of the entity, in order, as for [`Plan::Insert`]; then what `set` and `guard` name. When a
    /// record with the same values in `keys` exists, `set` is written to it if it satisfies `guard`; if not, nothing happens
    /// and no row comes back. Any other unique is a conflict.
    Upsert {
        /// The fields of the primary key or of one unique.
        keys: Vec<usize>,
        /// What the existing record must satisfy.
        guard: Filter,
        /// What is written to the existing record.
        set: Vec<Assign>,
    },
}

impl Plan {
    /// Whether it changes nothing.
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

    /// Which records it is about, those that it finds; `None` for one that finds none.
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
            | Self::Upsert { guard: filter, .. } => Some(filter),
        }
    }

    /// The same, of those records alone of which a further condition holds.
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
            | Self::Upsert { guard: filter, .. } => *filter = std::mem::replace(filter, Filter::TRUE).and(condition),
        }
        self
    }

    /// Which fields of records it may change: none when it only reads, all of them when it makes or removes records.
    pub fn touches(&self) -> FieldSet {
        match self {
            Self::Update { set, .. } => set.iter().map(|assign| assign.field).collect(),
            plan if plan.reads() => FieldSet::NONE,
            _ => FieldSet::ALL,
        }
    }

    /// How many arguments a plan takes.
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
            Self::Select { filter, after, limit, .. } => {
                filter.sources(&mut note);
                limit.iter().for_each(&mut note);
                let slots: Vec<usize> = match after {
                    None => Vec::new(),
                    Some(After::Keys(keys)) => keys.iter().flatten().copied().collect(),
                    Some(After::Count(slot)) => vec![*slot],
                };
                for index in slots {
                    note(&Source::Arg { index, nullable: false });
                }
            }
            Self::Related { filter, values, limit, .. } => {
                filter.sources(&mut note);
                note(&Source::Arg { index: *values, nullable: false });
                limit.iter().for_each(&mut note);
            }
            Self::Chosen { filter, words, limit, .. } => {
                filter.sources(&mut note);
                limit.iter().for_each(&mut note);
                most = most.max(words.kinds.len());
            }
            Self::Aggregate { filter, compute, .. } => {
                filter.sources(&mut note);
                for compute in compute {
                    compute.filter.sources(&mut note);
                }
            }
            Self::Exists { filter } | Self::Hold { filter } | Self::Lock { filter, .. } | Self::Delete { filter, .. } => {
                filter.sources(&mut note);
            }
            Self::Update { filter, set, .. } | Self::Upsert { guard: filter, set, .. } => {
                filter.sources(&mut note);
                for assign in set {
                    assign.value.sources(&mut note);
                }
            }
        }
        if matches!(self, Self::Upsert { .. }) { most.max(entity.fields.len()) } else { most }
    }
}

/// What the columns of an aggregate hold: its keys, then what is computed.
///
/// When groups are divided by values, a number stands before the keys and a column of each such field behind them. The number is 0 for a
/// whole group, where those columns are null, and the place of the field, from 1, for a part of one, where that field's column holds the
/// value. Whole groups come first, then the parts by each field, all in the order of keys and values.
#[doc(hidden)]
pub fn aggregate_kinds(entity: &EntityDesc, groups: &[Group], by_value: &[usize], compute: &[Compute]) -> Box<[Kind]> {
    let kind = |field: usize| entity.fields.get(field).map_or(Kind::Json, |field| field.kind);
    let part = (!by_value.is_empty()).then_some(Kind::Integer);
    let keys = groups.iter().map(|group| group.field).chain(by_value.iter().copied()).map(kind);
    part.into_iter().chain(keys).chain(compute.iter().map(|compute| compute.kind(entity))).collect()
}

/// The first records in an order.
#[derive(Clone, Debug, PartialEq)]
pub struct Pick {
    /// Ends with the primary key, so that it is total.
    pub order: Vec<Order>,
    /// How many at most.
    pub limit: u32,
    /// Whether records that somebody else is writing to are waited for. Otherwise they are passed over, so that many callers get
    /// different ones at once.
    pub waits: bool,
}

impl Pick {
    /// The first records that nobody else is at.
    pub fn free(order: Vec<Order>, limit: u32) -> Self {
        Self { order, limit, waits: false }
    }

    /// A part of the records that match, none of which may be missed: fewer than `limit` are all that are left.
    pub fn part(order: Vec<Order>, limit: u32) -> Self {
        Self { order, limit, waits: true }
    }
}

/// One key of an order. Null is the smallest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// Position of the field.
    pub field: usize,
    /// Greatest first.
    pub desc: bool,
}

/// Where a page begins.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum After {
    /// Behind the record with these values of the order's fields: the argument slot of each, or `None` when the value was null.
    Keys(Vec<Option<usize>>),
    /// Behind so many records: the argument slot of an `Int`.
    Count(usize),
}

/// A write to one field.
#[derive(Clone, Debug, PartialEq)]
pub struct Assign {
    /// Position of the field.
    pub field: usize,
    /// What is written.
    pub value: AssignValue,
}

impl AssignValue {
    /// Calls `note` with every source.
    pub fn sources(&self, note: &mut impl FnMut(&Source)) {
        match self {
            Self::Set(source) | Self::Add(source) | Self::Push { value: source, .. } | Self::Pull(source) | Self::AddItem(source) => {
                note(source);
            }
            Self::RemoveItem { id, .. } => note(id),
            Self::ChangeItem { id, members, .. } => {
                note(id);
                for (_, source) in members {
                    note(source);
                }
            }
            Self::Figure(figure) => {
                figure.filter.sources(note);
                figure.compute.filter.sources(note);
            }
        }
    }

    /// The number over other records that is written, if it is one.
    pub fn figure(&self) -> Option<&Figure> {
        match self {
            Self::Figure(figure) => Some(figure),
            _ => None,
        }
    }
}

/// What is written to a field.
#[derive(Clone, Debug, PartialEq)]
pub enum AssignValue {
    /// A value.
    Set(Source),
    /// The old value plus this; null counts as zero.
    Add(Source),
    /// The old list of strings with this one behind it; null counts as empty.
    Push {
        /// The element.
        value: Source,
        /// Only when it is not in the list yet.
        dedupe: bool,
    },
    /// The old list of strings without this one; null counts as empty.
    Pull(Source),
    /// The old list of items with this one behind it: JSON.
    AddItem(Source),
    /// The old list of items without the one whose member has this value.
    RemoveItem {
        /// The member's name on the wire.
        key: &'static str,
        /// Its value.
        id: Source,
    },
    /// The old list of items, with members of one of them replaced.
    ChangeItem {
        /// The name of the member that tells items apart.
        key: &'static str,
        /// Its value.
        id: Source,
        /// Names on the wire and new values: JSON.
        members: Vec<(&'static str, Source)>,
    },
    /// A number over records of an entity of the same store, as they are when the statement runs. A statement holds one at most, and
    /// only for a store that [computes](super::Store::computes).
    Figure(Box<Figure>),
}

/// A number over records that a record of another entity, or of the same, keeps.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Whose records.
    pub source: &'static EntityDesc,
    /// Which of them, in positions of that entity.
    pub filter: Filter,
    /// What is computed of them.
    pub compute: Compute,
    /// The least and the greatest that the field holds: with any other number nothing is written, and no row comes back.
    pub within: (Value, Value),
    /// Whether the field holds null.
    pub optional: bool,
}

impl PartialEq for Figure {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.source, other.source)
            && self.filter == other.filter
            && self.compute == other.compute
            && self.within == other.within
            && self.optional == other.optional
    }
}

/// A key that records are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// Position of the field.
    pub field: usize,
    /// Dates fall into periods; the key is the period's first instant.
    pub truncate: Option<Truncate>,
}

/// What is computed of a group of records.
#[derive(Clone, Debug, PartialEq)]
pub struct Compute {
    /// How.
    pub function: Function,
    /// Of which field; counting needs none.
    pub field: usize,
    /// Of which records of the group.
    pub filter: Filter,
}

/// How values become one. Nulls do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// The number of records.
    Count,
    /// Their sum: whole numbers give a whole one, 0 over nothing.
    Sum,
    /// Their mean, always a double; null over nothing.
    Avg,
    /// The least; null over nothing.
    Min,
    /// The greatest; null over nothing.
    Max,
}

impl Compute {
    /// What comes out.
    pub fn kind(&self, entity: &EntityDesc) -> Kind {
        match self.function {
            Function::Count => Kind::Integer,
            Function::Avg => Kind::Number,
            Function::Sum | Function::Min | Function::Max => entity.fields.get(self.field).map_or(Kind::Json, |field| field.kind),
        }
    }
}
