//! Runs plans on records in memory, for stores without a query language.
//!
//! The memory store runs every plan with these functions. A store that keeps records elsewhere, for
//! example in files, reads the candidates and passes them here.

mod aggregate;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use self::aggregate::Groups;
use super::{After, Compute, Group, Order, Pick, Plan, Rows, fixed};
use crate::entity::{EntityDesc, UniqueDesc};
use crate::filter::eval::{Others, compare, matches_among};
use crate::filter::{Filter, Source};
use crate::layout::record_is_live;
use crate::{Error, Result, Value};

/// A value that is ordered as in sorts and filters, see [`compare`]. Null is smallest.
#[derive(Clone, Debug)]
pub struct Key(pub Value);

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.0.as_ref(), other.0.as_ref())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

/// Compares two records by the keys of an order.
pub fn order_by(order: &[Order], a: &[Value], b: &[Value]) -> Ordering {
    let values = order.iter().map(|o| (o, &a[o.field], &b[o.field]));
    first_difference(values)
}

fn first_difference<'a>(
    mut values: impl Iterator<Item = (&'a Order, &'a Value, &'a Value)>,
) -> Ordering {
    let directed = |(order, a, b): (&Order, &Value, &Value)| {
        let ascending = compare(a.as_ref(), b.as_ref());
        if order.desc {
            ascending.reverse()
        } else {
            ascending
        }
    };
    values
        .find_map(|values| Some(directed(values)).filter(|o| o.is_ne()))
        .unwrap_or(Ordering::Equal)
}

/// Returns the values that a unique constraint allows only once. `None` if the record is outside
/// the constraint: a value is null, or the record is deleted.
///
/// The values include the tenant, unless the constraint holds across tenants.
pub fn unique_key(
    entity: &EntityDesc,
    unique: &UniqueDesc,
    record: &[Value],
) -> Option<Box<[Key]>> {
    if !record_is_live(entity, record) || unique.fields.iter().any(|f| record[*f].is_null()) {
        return None;
    }
    let tenant = entity
        .tenant
        .filter(|_| !unique.global)
        .map(|tenant| tenant.field);
    let own = unique.fields.iter().copied().filter(|f| Some(*f) != tenant);
    let fields = tenant.into_iter().chain(own);
    Some(fields.map(|f| Key(record[f].clone())).collect())
}

/// Whether an upsert by `keys` changes the record `old` instead of inserting `new`.
pub fn same_keys(entity: &EntityDesc, keys: &[usize], new: &[Value], old: &[Value]) -> bool {
    // Deleted records are outside a unique constraint. So are records of other tenants, unless the
    // constraint holds across tenants.
    let unique = entity
        .uniques
        .iter()
        .find(|u| u.fields.len() == keys.len() && u.fields.iter().all(|f| keys.contains(f)));
    match unique {
        Some(unique) => unique_key(entity, unique, old)
            .is_some_and(|key| Some(key) == unique_key(entity, unique, new)),
        None => keys
            .iter()
            .all(|k| !new[*k].is_null() && compare(old[*k].as_ref(), new[*k].as_ref()).is_eq()),
    }
}

/// The records that a statement can read, and the arguments of the call.
pub struct Sight<'a, I> {
    /// The entity of the records.
    pub entity: &'a EntityDesc,
    /// The records, in the order of their keys.
    pub records: I,
    /// The records of other entities, for filters with links.
    pub others: &'a dyn Others,
    /// The arguments of the call.
    pub args: &'a [Value],
}

impl<'a, R, I> Sight<'a, I>
where
    R: AsRef<[Value]> + ?Sized + 'a,
    I: Iterator<Item = &'a R> + Clone,
{
    /// Whether a record matches.
    pub fn matches(&self, filter: &Filter, record: &R) -> bool {
        matches_among(filter, record.as_ref(), self.args, self.others)
    }

    fn found(&self, filter: &Filter) -> impl Iterator<Item = &'a R> {
        self.records.clone().filter(|r| self.matches(filter, r))
    }

    /// Returns the matching records, or the first of them in an order: the records of an update or
    /// a delete.
    pub fn picked(&self, filter: &Filter, pick: Option<&Pick>) -> Vec<&'a R> {
        let mut found: Vec<&R> = self.found(filter).collect();
        if let Some(pick) = pick {
            found.sort_by(|a, b| order_by(&pick.order, a.as_ref(), b.as_ref()));
            found.truncate(pick.limit as usize);
        }
        found
    }

    /// Runs a plan that reads. A plan that locks is run as a plain read: the caller must exclude
    /// other writers.
    ///
    /// # Errors
    /// `internal` for a plan that writes or needs SQL, and for a missing argument;
    /// `validation_failed` if an `i64` cannot hold a sum.
    pub fn read(&self, plan: &Plan, rows: &mut Rows) -> Result<()> {
        match plan {
            Plan::Select {
                filter,
                order,
                after,
                limit,
            } => self.select(filter, order, after.as_ref(), limit.as_ref(), rows),
            Plan::Related {
                filter,
                field,
                values,
                order,
                limit,
            } => self.related(filter, (*field, *values), order, limit.as_ref(), rows),
            Plan::Exists { filter } | Plan::Hold { filter } => {
                if self.found(filter).next().is_some() {
                    let empty: &[Value] = &[];
                    rows.push(empty);
                }
                Ok(())
            }
            Plan::Lock { filter, pick } => {
                let mut found = self.picked(filter, pick.as_ref());
                let by_key = [self.by_key()];
                found.sort_by(|a, b| order_by(&by_key, a.as_ref(), b.as_ref()));
                for record in found {
                    rows.push(record.as_ref());
                }
                Ok(())
            }
            Plan::Aggregate {
                filter,
                groups,
                by_value,
                compute,
                limit,
            } => self.aggregate(filter, (groups, by_value), compute, *limit, rows),
            Plan::Chosen { .. }
            | Plan::Insert
            | Plan::Update { .. }
            | Plan::Delete { .. }
            | Plan::Upsert { .. } => Err(Error::internal("the plan does more than read values")),
        }
    }

    fn by_key(&self) -> Order {
        Order {
            field: self.entity.primary,
            desc: false,
        }
    }

    fn select(
        &self,
        filter: &Filter,
        order: &[Order],
        after: Option<&After>,
        limit: Option<&Source>,
        rows: &mut Rows,
    ) -> Result<()> {
        let limit = number_of(limit, self.args)?;
        let (position, skip) = match after {
            None => (None, 0),
            Some(After::Keys(keys)) => (Some(position(keys, self.args)?), 0),
            Some(After::Count(slot)) => {
                let slot = Source::Arg {
                    index: *slot,
                    nullable: false,
                };
                (None, number_of(Some(&slot), self.args)?)
            }
        };
        let is_after_position = |record: &R| match &position {
            None => true,
            Some(position) => {
                let record = record.as_ref();
                let values = order.iter().zip(position);
                first_difference(values.map(|(o, key)| (o, &record[o.field], *key))).is_gt()
            }
        };
        let found = self
            .found(filter)
            .filter(|record| is_after_position(record));
        match order {
            // The records are already in the order of keys, so the first ones are the result.
            [] | [Order { desc: false, .. }]
                if order.iter().all(|o| o.field == self.entity.primary) =>
            {
                for record in found.skip(skip).take(limit) {
                    if !rows.push(record.as_ref()) {
                        break;
                    }
                }
            }
            _ => {
                let by_key = [self.by_key()];
                let in_order = |a: &&R, b: &&R| {
                    let (a, b) = (a.as_ref(), b.as_ref());
                    order_by(order, a, b).then_with(|| order_by(&by_key, a, b))
                };
                let mut found: Vec<&R> = found.collect();
                // A page of many records: only the records of the page need sorting.
                let end = skip.saturating_add(limit);
                if end < found.len() {
                    found.select_nth_unstable_by(end, in_order);
                    found.truncate(end);
                }
                found.sort_unstable_by(in_order);
                for record in found.into_iter().skip(skip) {
                    if !rows.push(record.as_ref()) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns, for each value in a slot, the first records with this value in a field.
    fn related(
        &self,
        filter: &Filter,
        (field, slot): (usize, usize),
        order: &[Order],
        limit: Option<&Source>,
        rows: &mut Rows,
    ) -> Result<()> {
        let limit = number_of(limit, self.args)?;
        let mut found: BTreeMap<Key, Vec<&R>> = list_values(self.args.get(slot))?
            .into_iter()
            .map(|value| (Key(value), Vec::new()))
            .collect();
        for record in self.found(filter) {
            if let Some(records) = found.get_mut(&Key(record.as_ref()[field].clone())) {
                records.push(record);
            }
        }
        for mut records in found.into_values() {
            records.sort_by(|a, b| order_by(order, a.as_ref(), b.as_ref()));
            for record in records.iter().take(limit) {
                if !rows.push(record.as_ref()) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn aggregate(
        &self,
        filter: &Filter,
        (groups, by_value): (&[Group], &[usize]),
        compute: &[Compute],
        limit: u32,
        rows: &mut Rows,
    ) -> Result<()> {
        // First the whole groups, then for each field of `by_value` the groups divided by the
        // values of the field: see `aggregate_kinds`.
        let dividing_fields = by_value.iter().map(|field| {
            Some(Group {
                field: *field,
                truncate: None,
            })
        });
        let mut rows_left = limit as usize;
        for (part, dividing) in std::iter::once(None).chain(dividing_fields).enumerate() {
            let by: Vec<Group> = groups.iter().copied().chain(dividing).collect();
            let mut found = Groups::new(&by, compute, self.args);
            self.found(filter)
                .for_each(|record| found.add(record.as_ref()));
            for row in found.rows(self.entity).take(rows_left) {
                let mut row = row?;
                if !by_value.is_empty() {
                    // The columns: the number of the dividing field (0 for a whole group), the
                    // keys, one column for each dividing field, and the computed values.
                    let computed = row.split_off(by.len());
                    let dividing_value = dividing.and_then(|_| row.pop());
                    let mut values = vec![Value::Null; by_value.len()];
                    if let (Some(column), Some(value)) = (
                        part.checked_sub(1).and_then(|at| values.get_mut(at)),
                        dividing_value,
                    ) {
                        *column = value;
                    }
                    row.insert(0, Value::Int(part as i64));
                    row.extend(values.into_iter().chain(computed));
                }
                rows_left -= 1;
                if !rows.push(&row[..]) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Returns the number in a source; `usize::MAX` without a source.
fn number_of(limit: Option<&Source>, args: &[Value]) -> Result<usize> {
    match limit.map(|source| fixed(source, args)) {
        None => Ok(usize::MAX),
        Some(Some(Value::Int(n))) => Ok(usize::try_from(*n).unwrap_or(0)),
        Some(_) => Err(Error::internal("a limit is an integer")),
    }
}

/// Returns the values of a list that is one argument.
fn list_values(list: Option<&Value>) -> Result<Vec<Value>> {
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

/// Returns the values of a page position; see [`After::Keys`].
fn position<'a>(keys: &[Option<usize>], args: &'a [Value]) -> Result<Vec<&'a Value>> {
    let key = |slot: &Option<usize>| match slot {
        None => Ok(&Value::Null),
        Some(index) => args
            .get(*index)
            .ok_or_else(|| Error::internal("a page position without its argument")),
    };
    keys.iter().map(key).collect()
}
