//! How far a read can reach: decided once per statement, from what is declared.
//!
//! A read that an index covers looks at no more rows than it answers, whatever the table holds, so
//! it may run on the thread that asks, or among others on one connection. Everything else may scan
//! and belongs apart. The tests of the embedded store hold each verdict against what SQLite really
//! does with such a statement.

use linchpin_core::entity::EntityDesc;
use linchpin_core::filter::{Filter, Op, Operand, Source};
use linchpin_core::store::Order;
use linchpin_core::store::layout::{self, StoredIndex};
use linchpin_core::store::{After, Plan};
use linchpin_core::{Error, Result, Value};

/// How many rows a read looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// One at most.
    One,
    /// As many as its limit says, by this way into the table.
    Page(Way),
    /// Perhaps all of them.
    Scan,
}

/// A way into a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// The primary key.
    Key,
    /// An index.
    Index(StoredIndex),
}

/// The part of a condition on a field that an index can use.
#[derive(Clone, Copy, Debug)]
pub enum Fact<'a> {
    /// It has this value; `None`: it is null.
    Pin {
        /// The field.
        field: usize,
        /// The value.
        value: Option<&'a Source>,
        /// Whether the value is never null.
        certain: bool,
    },
    /// It is on this side of a value, and so not null.
    Range {
        /// The field.
        field: usize,
        /// The comparison.
        op: Op,
        /// The bound.
        value: &'a Source,
    },
    /// It is not null.
    Present {
        /// The field.
        field: usize,
    },
    /// Nothing matches.
    Never,
    /// Something no index answers.
    Rest,
}

/// The conditions that must all hold.
pub fn conjuncts(filter: &Filter) -> Vec<&Filter> {
    match filter {
        Filter::All(list) => list.iter().flat_map(conjuncts).collect(),
        Filter::Any(list) if list.len() == 1 => conjuncts(&list[0]),
        single => vec![single],
    }
}

impl<'a> Fact<'a> {
    /// What a condition says.
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

    /// Whether it bounds a field from where an order of this direction begins.
    pub fn begins(&self, at: usize, desc: bool) -> bool {
        matches!(self, Self::Range { field, op, .. } if *field == at && matches!(op, Op::Lt | Op::Lte) == desc)
    }

    fn pins(&self, at: usize) -> bool {
        matches!(self, Self::Pin { field, .. } if *field == at)
    }

    fn bounds(&self, at: usize) -> bool {
        matches!(self, Self::Range { field, .. } | Self::Present { field } if *field == at)
    }

    /// Whether another fact says it already: a range holds for no null.
    pub fn implied(&self, facts: &[Self]) -> bool {
        match self {
            Self::Present { field } => facts
                .iter()
                .any(|f| matches!(f, Self::Range { field: at, .. } if at == field)),
            _ => false,
        }
    }
}

/// How many leading keys of an order have one value in all records that match, and so order
/// nothing.
pub fn settled(facts: &[Fact<'_>], order: &[Order]) -> usize {
    let pinned = order
        .iter()
        .take_while(|key| facts.iter().any(|f| f.pins(key.field)))
        .count();
    // An order that is settled as a whole keeps its last key.
    pinned.min(order.len().saturating_sub(1))
}

/// How far a read of these facts in this order reaches, wherever in the order it begins.
pub fn reach(entity: &EntityDesc, filter: &Filter, order: &[Order]) -> Reach {
    let all = conjuncts(filter);
    let live = all.iter().any(|f| layout::is_live(entity, f));
    // What has expired is gone within a minute: no index has to know.
    let counted = |f: &&&Filter| !layout::is_unexpired(entity, f) && !layout::is_live(entity, f);
    let all: Vec<Fact<'_>> = all.iter().filter(counted).map(|f| Fact::of(f)).collect();
    let facts: Vec<Fact<'_>> = all.iter().filter(|f| !f.implied(&all)).copied().collect();
    if facts.iter().any(|f| matches!(f, Fact::Never)) {
        return Reach::One;
    }
    if names_one(entity, &facts, live) {
        return if by_key(filter) {
            Reach::One
        } else {
            Reach::Scan
        };
    }
    let settled = settled(&facts, order);
    let order = &order[settled..];
    paths(entity)
        .find(|path| path.covers(&facts, live, order))
        .map_or(Reach::Scan, |path| Reach::Page(path.way))
}

/// Whether all other records that a condition looks at are found by their keys: as many as it has
/// links, then.
fn by_key(filter: &Filter) -> bool {
    match filter {
        Filter::All(list) | Filter::Any(list) => list.iter().all(by_key),
        Filter::Linked(linked) => linked.at == linked.of.primary && by_key(&linked.filter),
        Filter::Cond { .. } | Filter::Item { .. } | Filter::Given(_) => true,
    }
}

/// The key of the one record that a condition can hold for.
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

/// Whether the primary key or all fields of a unique have a value.
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

/// An index as it lies on disk.
struct Path {
    keys: Vec<(usize, bool)>,
    /// Whether no two entries are equal.
    distinct: bool,
    /// Holds live records only.
    live: bool,
    /// Holds only records where this field is null.
    null: Option<usize>,
    way: Way,
}

/// The primary key, the uniques and the indexes of an entity.
fn paths(entity: &EntityDesc) -> impl Iterator<Item = Path> {
    let primary = Path {
        keys: vec![(entity.primary, false)],
        distinct: true,
        live: false,
        null: None,
        way: Way::Key,
    };
    let indexes = layout::indexes(entity).into_iter().map(move |index| Path {
        // Nulls are kept apart in a unique: there may be any number of them.
        distinct: !index.unique || index.keys.iter().all(|k| !entity.fields[k.field].optional),
        live: index.live,
        null: index.null,
        keys: index.keys.iter().map(|k| (k.field, k.desc)).collect(),
        way: Way::Index(index),
    });
    std::iter::once(primary).chain(indexes)
}

impl Path {
    /// Whether the records that match lie next to each other and in this order.
    fn covers(&self, facts: &[Fact<'_>], live: bool, order: &[Order]) -> bool {
        // Records that are deleted lie between those of an index that holds all; where only live
        // ones are, all must be meant.
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
        // Of two conditions on one key an index uses one.
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

/// How many rows a read looks at, as far as its arguments say.
#[derive(Debug)]
pub enum Span {
    /// One.
    One,
    /// As many as its limit.
    Limited(Source),
    /// So many of each value in a slot.
    Keyed {
        /// The slot of the values.
        values: usize,
        /// Rows of each value.
        limit: Option<Source>,
    },
    /// Perhaps all of them.
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
                // What it passes over, it reads.
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
            // What words of somebody's own look at nobody can tell.
            Plan::Chosen { .. } => Self::Any,
            Plan::Insert
            | Plan::Lock { .. }
            | Plan::Aggregate { .. }
            | Plan::Update { .. }
            | Plan::Delete { .. }
            | Plan::Upsert { .. } => Self::Any,
        }
    }

    /// Whether it is so many at most.
    ///
    /// # Errors
    /// When an argument is missing.
    pub fn within(&self, most: i64, args: &[Value]) -> Result<bool> {
        Ok(match self {
            Self::One => true,
            Self::Limited(limit) => rows(limit, args)? <= most,
            Self::Keyed { values, limit } => keyed(*values, limit.as_ref(), args)? <= most,
            Self::Any => false,
        })
    }
}

/// The number of rows that values and a limit for each allow.
///
/// # Errors
/// When an argument is missing.
pub fn keyed(values: usize, limit: Option<&Source>, args: &[Value]) -> Result<i64> {
    let count = match args.get(values) {
        Some(Value::Strings(list)) => list.len(),
        // Whole numbers.
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
/// When the argument is missing.
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
