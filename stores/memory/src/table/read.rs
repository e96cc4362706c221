//! Which records of a table a statement finds, and in which order.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::{Data, Key, Record, Table, View, fixed};
use crate::aggregate::Groups;
use crate::others::{Held, Sight};
use linchpin_core::filter::eval::compare;
use linchpin_core::filter::{Filter, Op, Operand, Source};
use linchpin_core::store::{After, Compute, Group, Order, Pick, Rows};
use linchpin_core::{Error, Result, Value};

impl Table {
    /// What a filter can look at.
    pub(super) fn sight<'a>(&self, data: &'a Data, others: &'a [Held<'a>]) -> Sight<'a> {
        Sight {
            own: self.entity,
            data,
            others,
        }
    }

    #[allow(clippy::too_many_arguments)] // the members of the plan
    pub(crate) fn select(
        &self,
        (data, others): View<'_>,
        filter: &Filter,
        order: &[Order],
        after: Option<&After>,
        limit: Option<&Source>,
        args: &[Value],
        rows: &mut Rows,
    ) -> Result<()> {
        let limit = most(limit, args)?;
        let (position, skip) = match after {
            None => (None, 0),
            Some(After::Keys(keys)) => (Some(position(keys, args)?), 0),
            Some(After::Count(slot)) => (
                None,
                most(
                    Some(&Source::Arg {
                        index: *slot,
                        nullable: false,
                    }),
                    args,
                )?,
            ),
        };
        let behind = |record: &Record| match &position {
            None => true,
            Some(position) => order_against(order, record, position).is_gt(),
        };
        let sight = self.sight(data, others);
        let found = self
            .candidates(data, filter, args)
            .filter(|r| sight.matches(filter, r, args) && behind(r));
        match order {
            // The map is in the order of keys already, so the first records are the answer.
            [] | [Order { desc: false, .. }]
                if order.iter().all(|o| o.field == self.entity.primary) =>
            {
                for record in found.skip(skip).take(limit) {
                    if !rows.push(&record[..]) {
                        break;
                    }
                }
            }
            _ => {
                let by_key = [Order {
                    field: self.entity.primary,
                    desc: false,
                }];
                let in_order = |a: &&Record, b: &&Record| {
                    order_by(order, a, b).then_with(|| order_by(&by_key, a, b))
                };
                let mut found: Vec<&Record> = found.collect();
                // A page of many records: only the records of the page need sorting.
                let end = skip.saturating_add(limit);
                if end < found.len() {
                    found.select_nth_unstable_by(end, in_order);
                    found.truncate(end);
                }
                found.sort_unstable_by(in_order);
                for record in found.into_iter().skip(skip) {
                    if !rows.push(&record[..]) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// For each of the values in a slot, the first records that hold it in a field.
    #[allow(clippy::too_many_arguments)] // the members of the plan
    pub(crate) fn related(
        &self,
        (data, others): View<'_>,
        filter: &Filter,
        (field, slot): (usize, usize),
        order: &[Order],
        limit: Option<&Source>,
        args: &[Value],
        rows: &mut Rows,
    ) -> Result<()> {
        let limit = most(limit, args)?;
        let mut found: BTreeMap<Key, Vec<Record>> = wanted(args.get(slot))?
            .into_iter()
            .map(|value| (Key(value), Vec::new()))
            .collect();
        let sight = self.sight(data, others);
        for record in data
            .records
            .values()
            .filter(|r| sight.matches(filter, r, args))
        {
            if let Some(those) = found.get_mut(&Key(record[field].clone())) {
                those.push(Arc::clone(record));
            }
        }
        for mut those in found.into_values() {
            those.sort_by(|a, b| order_by(order, a, b));
            for record in those.iter().take(limit) {
                if !rows.push(&record[..]) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    pub(crate) fn exists(
        &self,
        (data, others): View<'_>,
        filter: &Filter,
        args: &[Value],
        rows: &mut Rows,
    ) {
        let sight = self.sight(data, others);
        if self
            .candidates(data, filter, args)
            .any(|r| sight.matches(filter, r, args))
        {
            let empty: &[Value] = &[];
            rows.push(empty);
        }
    }

    /// The records that match or the first of them, by key.
    pub(crate) fn those(
        &self,
        view: View<'_>,
        filter: &Filter,
        pick: Option<&Pick>,
        args: &[Value],
        rows: &mut Rows,
    ) {
        let mut found = self.picked(view, filter, pick, args);
        found.sort_by(|a, b| {
            order_by(
                &[Order {
                    field: self.entity.primary,
                    desc: false,
                }],
                a,
                b,
            )
        });
        for record in found {
            rows.push(&record[..]);
        }
    }

    #[allow(clippy::too_many_arguments)] // the members of the plan
    pub(crate) fn aggregate(
        &self,
        (data, others): View<'_>,
        filter: &Filter,
        (groups, by_value): (&[Group], &[usize]),
        compute: &[Compute],
        limit: u32,
        args: &[Value],
        rows: &mut Rows,
    ) -> Result<()> {
        let sight = self.sight(data, others);
        let divided = by_value.iter().map(|field| {
            Some(Group {
                field: *field,
                truncate: None,
            })
        });
        let mut left = limit as usize;
        for (part, value) in std::iter::once(None).chain(divided).enumerate() {
            let by: Vec<Group> = groups.iter().copied().chain(value).collect();
            let mut found = Groups::new(&by, compute, args);
            self.candidates(data, filter, args)
                .filter(|r| sight.matches(filter, r, args))
                .for_each(|record| found.add(record));
            for row in found.rows(self.entity).take(left) {
                let mut row = row?;
                if !by_value.is_empty() {
                    // The number of the part, the keys, a column of each value, and what was
                    // computed.
                    let computed = row.split_off(by.len());
                    let own = value.and_then(|_| row.pop());
                    let mut values = vec![Value::Null; by_value.len()];
                    if let (Some(place), Some(own)) =
                        (part.checked_sub(1).and_then(|at| values.get_mut(at)), own)
                    {
                        *place = own;
                    }
                    row.insert(0, Value::Int(part as i64));
                    row.extend(values.into_iter().chain(computed));
                }
                left -= 1;
                if !rows.push(&row[..]) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The records that match, or the first of them in an order.
    pub(super) fn picked(
        &self,
        (data, others): View<'_>,
        filter: &Filter,
        pick: Option<&Pick>,
        args: &[Value],
    ) -> Vec<Record> {
        let sight = self.sight(data, others);
        let mut found: Vec<Record> = self
            .candidates(data, filter, args)
            .filter(|r| sight.matches(filter, r, args))
            .cloned()
            .collect();
        if let Some(pick) = pick {
            found.sort_by(|a, b| order_by(&pick.order, a, b));
            found.truncate(pick.limit as usize);
        }
        found
    }

    /// The records that can match at all: one when the filter names a key, else every one.
    fn candidates<'a>(
        &self,
        data: &'a Data,
        filter: &Filter,
        args: &[Value],
    ) -> impl Iterator<Item = &'a Record> + use<'a> {
        let range = match pinned(filter, self.entity.primary, args) {
            Some(key) => (
                Bound::Included(Key(key.clone())),
                Bound::Included(Key(key.clone())),
            ),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        data.records.range(range).map(|(_, record)| record)
    }
}

/// The key a filter demands, when it demands one.
fn pinned<'a>(filter: &'a Filter, primary: usize, args: &'a [Value]) -> Option<&'a Value> {
    match filter {
        Filter::All(list) => list.iter().find_map(|f| pinned(f, primary, args)),
        Filter::Cond {
            field,
            op: Op::Eq,
            value: Operand::One(source),
        } if *field == primary => fixed(source, args),
        Filter::Any(_)
        | Filter::Cond { .. }
        | Filter::Item { .. }
        | Filter::Linked(_)
        | Filter::Given(_) => None,
    }
}

fn most(limit: Option<&Source>, args: &[Value]) -> Result<usize> {
    match limit.map(|source| fixed(source, args)) {
        None => Ok(usize::MAX),
        Some(Some(Value::Int(n))) => Ok(usize::try_from(*n).unwrap_or(0)),
        Some(_) => Err(Error::internal("a limit is an integer")),
    }
}

/// The values of a list that is one argument.
fn wanted(list: Option<&Value>) -> Result<Vec<Value>> {
    match list {
        Some(Value::Strings(list)) => Ok(list.iter().cloned().map(Value::Text).collect()),
        Some(Value::Json(text)) => {
            let list: Vec<serde_json::Value> =
                serde_json::from_str(text).map_err(Error::internal)?;
            let value = |value: serde_json::Value| match value {
                serde_json::Value::Number(n) => n.as_i64().map(Value::Int),
                serde_json::Value::String(text) => Some(Value::Text(text)),
                _ => None,
            };
            list.into_iter()
                .map(|v| value(v).ok_or_else(|| Error::internal("keys are texts or whole numbers")))
                .collect()
        }
        _ => Err(Error::internal("a list of keys is one argument")),
    }
}

fn position<'a>(keys: &[Option<usize>], args: &'a [Value]) -> Result<Vec<&'a Value>> {
    let key = |slot: &Option<usize>| match slot {
        None => Ok(&Value::Null),
        Some(index) => args
            .get(*index)
            .ok_or_else(|| Error::internal("a page position without its argument")),
    };
    keys.iter().map(key).collect()
}

fn order_by(order: &[Order], a: &Record, b: &Record) -> Ordering {
    let directed = |o: &Order| {
        let ascending = compare(a[o.field].as_ref(), b[o.field].as_ref());
        if o.desc {
            ascending.reverse()
        } else {
            ascending
        }
    };
    order
        .iter()
        .map(directed)
        .find(|o| o.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Where a record stands relative to a page position.
fn order_against(order: &[Order], record: &Record, position: &[&Value]) -> Ordering {
    let directed = |(o, key): (&Order, &&Value)| {
        let ascending = compare(record[o.field].as_ref(), key.as_ref());
        if o.desc {
            ascending.reverse()
        } else {
            ascending
        }
    };
    order
        .iter()
        .zip(position)
        .map(directed)
        .find(|o| o.is_ne())
        .unwrap_or(Ordering::Equal)
}
