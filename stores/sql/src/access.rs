//! The reach of a read: the number of rows that it may examine, decided once per statement from the
//! declarations.
//!
//! A read that an index covers examines no more rows than it returns, whatever the size of the
//! table. Such a read may run on the caller's thread, or share a connection with other reads. Every
//! other read may scan the table: it needs a slot for long reads. The tests of the embedded store
//! compare each decision with the behavior of SQLite.

use linchpin_core::entity::EntityDesc;
use linchpin_core::filter::{Filter, Op, Operand, Source};
use linchpin_core::store::Order;
use linchpin_core::store::layout::{self, StoredIndex};
use linchpin_core::store::{After, Plan};
use linchpin_core::{Error, Result, Value};

/// The number of rows that a read examines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// At most one.
    One,
    /// At most its limit, through this access path.
    Page(AccessPath),
    /// Possibly all rows.
    Scan,
}

/// An access path into a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessPath {
    /// The primary key.
    Key,
    /// An index.
    Index(StoredIndex),
}

/// A condition of a filter, classified by its use in an index.
#[derive(Clone, Copy, Debug)]
pub enum Fact<'a> {
    /// The field has this value. `None` means null.
    Pin {
        /// The field.
        field: usize,
        /// The value.
        value: Option<&'a Source>,
        /// Whether the value is never null.
        certain: bool,
    },
    /// The field is less or greater than a value, so it is not null.
    Range {
        /// The field.
        field: usize,
        /// The comparison.
        op: Op,
        /// The bound.
        value: &'a Source,
    },
    /// The field is not null.
    Present {
        /// The field.
        field: usize,
    },
    /// Nothing matches.
    Never,
    /// A condition that no index can use.
    Rest,
}

/// Splits a filter into the conditions that must all be true.
pub fn conjuncts(filter: &Filter) -> Vec<&Filter> {
    match filter {
        Filter::All(list) => list.iter().flat_map(conjuncts).collect(),
        Filter::Any(list) if list.len() == 1 => conjuncts(&list[0]),
        single => vec![single],
    }
}

impl<'a> Fact<'a> {
    /// Classifies a condition.
    pub fn of(filter: &'a Filter) -> Self {
        match filter {
            Filter::Any(list) if list.is_empty() => Self::Never,
            Filter::Cond {
                field,
                op,
                value: Operand::One(value),
            } => {
                let field = *field;
                let null = matches!(value, Source::Value(Value::Null));
                match op {
                    Op::Eq if null => Self::Pin {
                        field,
                        value: None,
                        certain: false,
                    },
                    Op::Eq => Self::Pin {
                        field,
                        value: Some(value),
                        certain: !matches!(value, Source::Arg { nullable: true, .. }),
                    },
                    Op::Ne if null => Self::Present { field },
                    Op::Gt | Op::Gte | Op::Lt | Op::Lte => Self::Range {
                        field,
                        op: *op,
                        value,
                    },
                    _ => Self::Rest,
                }
            }
            _ => Self::Rest,
        }
    }

    /// Whether this is the start bound of a field in an order of this direction.
    pub fn begins(&self, at: usize, desc: bool) -> bool {
        matches!(self, Self::Range { field, op, .. } if *field == at && matches!(op, Op::Lt | Op::Lte) == desc)
    }

    fn pins(&self, at: usize) -> bool {
        matches!(self, Self::Pin { field, .. } if *field == at)
    }

    fn bounds(&self, at: usize) -> bool {
        matches!(self, Self::Range { field, .. } | Self::Present { field } if *field == at)
    }

    /// Whether another fact implies this one: a range implies that the field is not null.
    pub fn implied(&self, facts: &[Self]) -> bool {
        match self {
            Self::Present { field } => facts
                .iter()
                .any(|f| matches!(f, Self::Range { field: at, .. } if at == field)),
            _ => false,
        }
    }
}

/// The number of leading sort keys whose value is fixed by the filter. They do not affect the
/// order.
pub fn fixed_sort_keys(facts: &[Fact<'_>], order: &[Order]) -> usize {
    let pinned = order
        .iter()
        .take_while(|key| facts.iter().any(|f| f.pins(key.field)))
        .count();
    // At least one sort key remains.
    pinned.min(order.len().saturating_sub(1))
}

/// The reach of a read with this filter and order, from any start position.
pub fn reach(entity: &EntityDesc, filter: &Filter, order: &[Order]) -> Reach {
    let all = conjuncts(filter);
    let live = all.iter().any(|f| layout::is_live(entity, f));
    // Expired records are removed within a minute, so an index without the expiry field is
    // sufficient.
    let relevant = |f: &&&Filter| !layout::is_unexpired(entity, f) && !layout::is_live(entity, f);
    let all: Vec<Fact<'_>> = all.iter().filter(relevant).map(|f| Fact::of(f)).collect();
    let facts: Vec<Fact<'_>> = all.iter().filter(|f| !f.implied(&all)).copied().collect();
    if facts.iter().any(|f| matches!(f, Fact::Never)) {
        return Reach::One;
    }
    if names_one(entity, &facts, live) {
        return if relates_by_key(filter) {
            Reach::One
        } else {
            Reach::Scan
        };
    }
    let fixed_sort_keys = fixed_sort_keys(&facts, order);
    let order = &order[fixed_sort_keys..];
    paths(entity)
        .find(|path| path.covers(&facts, live, order))
        .map_or(Reach::Scan, |path| Reach::Page(path.read_by))
}

/// Whether a condition finds all related records by their primary keys. It then reads one record
/// per relation.
fn relates_by_key(filter: &Filter) -> bool {
    match filter {
        Filter::All(list) | Filter::Any(list) => list.iter().all(relates_by_key),
        Filter::Linked(linked) => linked.at == linked.of.primary && relates_by_key(&linked.filter),
        Filter::Cond { .. } | Filter::Item { .. } | Filter::Given(_) => true,
    }
}

/// The key of the only record that a condition can match.
pub fn key_of<'a>(entity: &EntityDesc, filter: &'a Filter) -> Option<&'a Source> {
    conjuncts(filter)
        .into_iter()
        .find_map(|f| match Fact::of(f) {
            Fact::Pin {
                field,
                value: Some(value),
                ..
            } if field == entity.primary => Some(value),
            _ => None,
        })
}

/// Whether the filter fixes the primary key or all fields of a unique constraint.
fn names_one(entity: &EntityDesc, facts: &[Fact<'_>], live: bool) -> bool {
    let named = |at: usize| {
        let optional = entity.fields.get(at).is_none_or(|f| f.optional);
        facts.iter().any(|f| matches!(f, Fact::Pin { field, value: Some(_), certain } if *field == at && (*certain || !optional)))
    };
    let null = |at: usize| {
        facts
            .iter()
            .any(|f| matches!(f, Fact::Pin { field, value: None, .. } if *field == at))
    };
    let unique = |index: &StoredIndex| {
        index.unique
            && (live || !index.live)
            && index.null.is_none_or(null)
            && index.keys.iter().all(|k| named(k.field))
    };
    named(entity.primary) || layout::indexes(entity).iter().any(unique)
}

/// The structure of an index on disk.
struct Path {
    keys: Vec<(usize, bool)>,
    /// Whether all entries are distinct.
    distinct: bool,
    /// Whether the index contains only live records (not marked as deleted).
    live: bool,
    /// The field that is null in all records of the index, if there is one.
    null: Option<usize>,
    read_by: AccessPath,
}

/// The primary key, the unique constraints and the indexes of an entity.
fn paths(entity: &EntityDesc) -> impl Iterator<Item = Path> {
    let primary = Path {
        keys: vec![(entity.primary, false)],
        distinct: true,
        live: false,
        null: None,
        read_by: AccessPath::Key,
    };
    let indexes = layout::indexes(entity).into_iter().map(move |index| Path {
        // A unique constraint treats nulls as distinct: any number of records may have null.
        distinct: !index.unique || index.keys.iter().all(|k| !entity.fields[k.field].optional),
        live: index.live,
        null: index.null,
        keys: index.keys.iter().map(|k| (k.field, k.desc)).collect(),
        read_by: AccessPath::Index(index),
    });
    std::iter::once(primary).chain(indexes)
}

impl Path {
    /// Whether the matching records are adjacent in the index and in this order.
    fn covers(&self, facts: &[Fact<'_>], live: bool, order: &[Order]) -> bool {
        // An index on all records also contains deleted records between the live ones. An index on
        // live records is used only for reads of live records.
        if self.live != live {
            return false;
        }
        let mut facts = facts.to_vec();
        if let Some(null) = self.null {
            let before = facts.len();
            facts.retain(|f| !matches!(f, Fact::Pin { field, value: None, .. } if *field == null));
            if facts.len() == before {
                return false;
            }
        }
        let facts = &facts[..];
        let pinned = self
            .keys
            .iter()
            .take_while(|(field, _)| facts.iter().any(|f| f.pins(*field)))
            .count();
        let (mut pins, mut from, mut to) = (0, 0, 0);
        let next = self.keys.get(pinned).map(|(field, _)| *field);
        for fact in facts {
            match fact {
                Fact::Pin { field, .. }
                    if self.keys[..pinned].iter().any(|(at, _)| at == field) =>
                {
                    pins += 1;
                }
                Fact::Range {
                    op: Op::Gt | Op::Gte,
                    field,
                    ..
                } if next == Some(*field) => from += 1,
                Fact::Range { field, .. } if next == Some(*field) => to += 1,
                Fact::Present { .. } if next.is_some_and(|at| fact.bounds(at)) => from += 1,
                _ => return false,
            }
        }
        // With an index, the database uses only one of two conditions on the same key (two
        // equalities, or two bounds on the same side).
        if pins > pinned || from > 1 || to > 1 {
            return false;
        }
        let mut keys = self.keys[pinned..].iter();
        let mut flipped = None;
        for want in order {
            match keys.next() {
                Some((field, desc))
                    if *field == want.field
                        && *flipped.get_or_insert(*desc != want.desc) == (*desc != want.desc) => {}
                Some(_) => return false,
                None => return self.distinct,
            }
        }
        true
    }
}

/// The number of rows that a read examines, as far as its arguments determine it.
#[derive(Debug)]
pub enum Span {
    /// One.
    One,
    /// At most its limit.
    Limited(Source),
    /// The given number of rows for each value in a slot.
    Keyed {
        /// The slot of the values.
        values: usize,
        /// The maximum number of rows for each value.
        limit: Option<Source>,
    },
    /// Possibly all rows.
    Any,
}

impl Span {
    /// The span of a plan.
    pub fn of(entity: &EntityDesc, plan: &Plan) -> Self {
        match plan {
            Plan::Select {
                filter,
                order,
                after,
                limit,
            } => match (reach(entity, filter, order), limit) {
                (Reach::One, _) => Self::One,
                // A page number makes the database read all skipped rows.
                _ if matches!(after, Some(After::Count(_))) => Self::Any,
                (Reach::Page(_), Some(limit)) => Self::Limited(limit.clone()),
                _ => Self::Any,
            },
            Plan::Related {
                filter,
                field,
                values,
                order,
                limit,
            } => {
                match reach(
                    entity,
                    &filter.clone().and(Filter::eq_arg(*field, *values)),
                    order,
                ) {
                    Reach::Scan => Self::Any,
                    Reach::One | Reach::Page(_) => Self::Keyed {
                        values: *values,
                        limit: limit.clone(),
                    },
                }
            }
            Plan::Exists { filter } | Plan::Hold { filter } => match reach(entity, filter, &[]) {
                Reach::Scan => Self::Any,
                Reach::One | Reach::Page(_) => Self::One,
            },
            // The reach of custom SQL is unknown.
            Plan::Chosen { .. } => Self::Any,
            Plan::Insert
            | Plan::Lock { .. }
            | Plan::Aggregate { .. }
            | Plan::Update { .. }
            | Plan::Delete { .. }
            | Plan::Upsert { .. } => Self::Any,
        }
    }

    /// Whether the span is at most this number of rows.
    ///
    /// # Errors
    /// If an argument is missing.
    pub fn within(&self, max_rows: i64, args: &[Value]) -> Result<bool> {
        Ok(match self {
            Self::One => true,
            Self::Limited(limit) => rows(limit, args)? <= max_rows,
            Self::Keyed { values, limit } => keyed(*values, limit.as_ref(), args)? <= max_rows,
            Self::Any => false,
        })
    }
}

/// The number of rows that values and a limit per value allow.
///
/// # Errors
/// If an argument is missing.
pub fn keyed(values: usize, limit: Option<&Source>, args: &[Value]) -> Result<i64> {
    let count = match args.get(values) {
        Some(Value::Strings(list)) => list.len(),
        // Integer keys, as a JSON array.
        Some(Value::Json(text)) => text.bytes().filter(|b| *b == b',').count() + 1,
        _ => return Err(Error::internal("a statement lacks its values")),
    };
    let each = limit.map_or(Ok(1), |limit| rows(limit, args))?;
    Ok(i64::try_from(count)
        .unwrap_or(i64::MAX)
        .saturating_mul(each))
}

/// The number of rows a limit allows.
///
/// # Errors
/// If the argument is missing.
pub fn rows(limit: &Source, args: &[Value]) -> Result<i64> {
    let value = match limit {
        Source::Value(value) => Some(value),
        Source::Arg { index, .. } => args.get(*index),
        _ => None,
    };
    match value {
        Some(Value::Int(rows)) => Ok(*rows),
        _ => Err(Error::internal("a statement lacks its limit")),
    }
}
