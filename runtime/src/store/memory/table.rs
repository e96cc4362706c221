//! One table in memory.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::items;
use super::others::{Held, Sight};
use super::outbox::Queue;
use crate::entity::{EntityDesc, Kind, UniqueDesc};
use crate::filter::eval::compare;
use crate::filter::{Filter, Op, Operand, Source};
use crate::store::layout;
use crate::store::{After, Assign, AssignValue, Compute, Group, Order, Pick, Rows};
use crate::validate::MAX_INTEGER;
use crate::{Error, Result, Value};

pub(super) type Record = Arc<[Value]>;

/// The records of a table and of others, for a statement that reads.
pub(super) type View<'a> = (&'a Data, &'a [Held<'a>]);

/// The same, for one that changes those of the table.
pub(super) type Change<'a> = (&'a mut Data, &'a [Held<'a>]);

/// A value with the order of sorts.
#[derive(Clone, Debug)]
pub(super) struct Key(pub(super) Value);

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

/// The records of one entity behind one lock.
#[derive(Debug)]
pub(super) struct Table {
    entity: &'static EntityDesc,
    data: RwLock<Data>,
    /// Written under the lock of the data, so that events stand in the order of changes.
    outbox: Arc<Queue>,
}

/// The contents of a table at some moment.
pub(super) struct Saved(Data);

/// The records of a table.
#[derive(Clone, Debug)]
pub(super) struct Data {
    pub(super) records: BTreeMap<Key, Record>,
    /// Per declared unique: its values to the key of the record that holds them.
    uniques: Vec<BTreeMap<Box<[Key]>, Key>>,
}

impl Table {
    pub(super) fn new(entity: &'static EntityDesc, outbox: Arc<Queue>) -> Self {
        let uniques = entity.uniques.iter().map(|_| BTreeMap::new()).collect();
        Self { entity, data: RwLock::new(Data { records: BTreeMap::new(), uniques }), outbox }
    }

    /// The contents as they are; records are shared, not copied.
    pub(super) fn save(&self) -> Saved {
        Saved(self.data.read().clone())
    }

    /// Puts contents back.
    pub(super) fn restore(&self, saved: Saved) {
        *self.data.write() = saved.0;
    }

    pub(super) fn entity(&self) -> &'static EntityDesc {
        self.entity
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Data> {
        self.data.read()
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Data> {
        self.data.write()
    }

    /// What a filter can look at.
    fn sight<'a>(&self, data: &'a Data, others: &'a [Held<'a>]) -> Sight<'a> {
        Sight { own: self.entity, data, others }
    }

    /// Adds a record. When the store chose the key, the record goes into `rows`, since the caller does not know it.
    pub(super) fn insert(&self, data: &mut Data, mut values: Vec<Value>, rows: &mut Rows) -> Result<()> {
        if values.len() != self.entity.fields.len() {
            return Err(Error::internal("an insert takes one value per field"));
        }
        let primary = self.entity.primary;
        let generated = values[primary].is_null();
        if generated {
            values[primary] = self.next_key(data)?;
        }
        let record: Record = values.into();
        self.check_free(data, &record)?;
        self.link(data, &record);
        if generated {
            rows.push(&record[..]);
        } else {
            rows.record(&record[..]);
        }
        self.outbox.append(rows.entries());
        Ok(())
    }

    #[allow(clippy::too_many_arguments)] // the members of the plan
    pub(super) fn select(
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
            Some(After::Count(slot)) => (None, most(Some(&Source::Arg { index: *slot, nullable: false }), args)?),
        };
        let behind = |record: &Record| match &position {
            None => true,
            Some(position) => order_against(order, record, position).is_gt(),
        };
        let sight = self.sight(data, others);
        let found = self.candidates(data, filter, args).filter(|r| sight.matches(filter, r, args) && behind(r));
        match order {
            // The map is in the order of keys already, so the first records are the answer.
            [] | [Order { desc: false, .. }] if order.iter().all(|o| o.field == self.entity.primary) => {
                for record in found.skip(skip).take(limit) {
                    if !rows.push(&record[..]) {
                        break;
                    }
                }
            }
            _ => {
                let by_key = [Order { field: self.entity.primary, desc: false }];
                let in_order = |a: &&Record, b: &&Record| order_by(order, a, b).then_with(|| order_by(&by_key, a, b));
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
    pub(super) fn related(
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
        let mut found: BTreeMap<Key, Vec<Record>> = wanted(args.get(slot))?.into_iter().map(|value| (Key(value), Vec::new())).collect();
        let sight = self.sight(data, others);
        for record in data.records.values().filter(|r| sight.matches(filter, r, args)) {
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

    pub(super) fn exists(&self, (data, others): View<'_>, filter: &Filter, args: &[Value], rows: &mut Rows) {
        let sight = self.sight(data, others);
        if self.candidates(data, filter, args).any(|r| sight.matches(filter, r, args)) {
            let empty: &[Value] = &[];
            rows.push(empty);
        }
    }

    /// The records that match or the first of them, by key.
    pub(super) fn those(&self, view: View<'_>, filter: &Filter, pick: Option<&Pick>, args: &[Value], rows: &mut Rows) {
        let mut found = self.picked(view, filter, pick, args);
        found.sort_by(|a, b| order_by(&[Order { field: self.entity.primary, desc: false }], a, b));
        for record in found {
            rows.push(&record[..]);
        }
    }

    #[allow(clippy::too_many_arguments)] // the members of the plan
    pub(super) fn aggregate(
        &self,
        (data, others): View<'_>,
        filter: &Filter,
        groups: &[Group],
        compute: &[Compute],
        limit: u32,
        args: &[Value],
        rows: &mut Rows,
    ) -> Result<()> {
        let mut found = super::aggregate::Groups::new(groups, compute, args);
        let sight = self.sight(data, others);
        self.candidates(data, filter, args).filter(|r| sight.matches(filter, r, args)).for_each(|record| found.add(record));
        for row in found.rows(self.entity).take(limit as usize) {
            if !rows.push(&row?[..]) {
                break;
            }
        }
        Ok(())
    }

    /// Changes what matches; a violated unique leaves everything as it was.
    pub(super) fn update(
        &self,
        (data, others): Change<'_>,
        (filter, pick): (&Filter, Option<&Pick>),
        set: &[Assign],
        args: &[Value],
        rows: &mut Rows,
    ) -> Result<()> {
        let old = self.picked((data, others), filter, pick, args);
        self.replace(data, &old, set, args, rows)?;
        self.outbox.append(rows.entries());
        Ok(())
    }

    /// Puts changed records in the place of old ones, all or none.
    fn replace(&self, data: &mut Data, old: &[Record], set: &[Assign], args: &[Value], rows: &mut Rows) -> Result<()> {
        let new: Vec<Record> = old.iter().map(|record| assign(record, set, args).map(Record::from)).collect::<Result<_>>()?;
        // All old records leave before new ones enter, so that values may move between records of one statement.
        for record in old {
            self.unlink(data, record);
        }
        for (done, record) in new.iter().enumerate() {
            if let Err(error) = self.check_free(data, record) {
                for record in &new[..done] {
                    self.unlink(data, record);
                }
                for record in old {
                    self.link(data, record);
                }
                return Err(error);
            }
            self.link(data, record);
        }
        for record in &new {
            rows.push(&record[..]);
        }
        Ok(())
    }

    /// Adds the first values of `args` as a record, or changes the one that has the same keys.
    pub(super) fn upsert(
        &self,
        (data, others): Change<'_>,
        keys: &[usize],
        (guard, set): (&Filter, &[Assign]),
        args: &[Value],
        rows: &mut Rows,
    ) -> Result<()> {
        let fields = self.entity.fields.len();
        let values = args.get(..fields).ok_or_else(|| Error::internal("an upsert takes one value per field"))?;
        let new: Record = values.to_vec().into();
        // What a unique keeps apart: deleted records and those of other tenants are nobody to change.
        let unique = self.entity.uniques.iter().find(|u| u.fields.len() == keys.len() && u.fields.iter().all(|f| keys.contains(f)));
        let same = |record: &&Record| match unique {
            Some(unique) => self.unique_key(unique, record).is_some_and(|key| Some(key) == self.unique_key(unique, &new)),
            None => keys.iter().all(|k| !new[*k].is_null() && compare(record[*k].as_ref(), new[*k].as_ref()).is_eq()),
        };
        if let Some(old) = data.records.values().find(same).cloned() {
            if self.sight(data, others).matches(guard, &old, args) {
                self.replace(data, &[old], set, args, rows)?;
                self.outbox.append(rows.entries());
            }
            return Ok(());
        }
        let mut values = values.to_vec();
        if values[self.entity.primary].is_null() {
            values[self.entity.primary] = self.next_key(data)?;
        }
        let record: Record = values.into();
        self.check_free(data, &record)?;
        self.link(data, &record);
        rows.push(&record[..]);
        rows.created = true;
        self.outbox.append(rows.entries());
        Ok(())
    }

    pub(super) fn delete(&self, (data, others): Change<'_>, filter: &Filter, pick: Option<&Pick>, args: &[Value], rows: &mut Rows) {
        let gone = self.picked((data, others), filter, pick, args);
        for record in gone {
            self.unlink(data, &record);
            rows.push(&record[..]);
        }
        self.outbox.append(rows.entries());
    }

    /// The records that match, or the first of them in an order.
    fn picked(&self, (data, others): View<'_>, filter: &Filter, pick: Option<&Pick>, args: &[Value]) -> Vec<Record> {
        let sight = self.sight(data, others);
        let mut found: Vec<Record> = self.candidates(data, filter, args).filter(|r| sight.matches(filter, r, args)).cloned().collect();
        if let Some(pick) = pick {
            found.sort_by(|a, b| order_by(&pick.order, a, b));
            found.truncate(pick.limit as usize);
        }
        found
    }

    /// The records that can match at all: one when the filter names a key, else every one.
    fn candidates<'a>(&self, data: &'a Data, filter: &Filter, args: &[Value]) -> impl Iterator<Item = &'a Record> + use<'a> {
        let range = match pinned(filter, self.entity.primary, args) {
            Some(key) => (Bound::Included(Key(key.clone())), Bound::Included(Key(key.clone()))),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        data.records.range(range).map(|(_, record)| record)
    }

    fn next_key(&self, data: &Data) -> Result<Value> {
        if !matches!(self.entity.primary_field().kind, Kind::Integer) {
            return Err(Error::internal("a record without a key"));
        }
        let last = match data.records.last_key_value() {
            Some((Key(Value::Int(last)), _)) => (*last).max(0),
            _ => 0,
        };
        if last < MAX_INTEGER { Ok(Value::Int(last + 1)) } else { Err(Error::internal("all integer keys are taken")) }
    }

    fn check_free(&self, data: &Data, record: &Record) -> Result<()> {
        let wire = |field: usize| self.entity.fields[field].wire;
        if data.records.contains_key(&self.key(record)) {
            return Err(Error::unique([wire(self.entity.primary)]));
        }
        for (unique, taken) in self.entity.uniques.iter().zip(&data.uniques) {
            if self.unique_key(unique, record).is_some_and(|key| taken.contains_key(&key)) {
                return Err(Error::unique(unique.fields.iter().map(|f| wire(*f))));
            }
        }
        Ok(())
    }

    fn link(&self, data: &mut Data, record: &Record) {
        for (unique, taken) in self.entity.uniques.iter().zip(&mut data.uniques) {
            if let Some(key) = self.unique_key(unique, record) {
                taken.insert(key, self.key(record));
            }
        }
        data.records.insert(self.key(record), Arc::clone(record));
    }

    fn unlink(&self, data: &mut Data, record: &Record) {
        for (unique, taken) in self.entity.uniques.iter().zip(&mut data.uniques) {
            if let Some(key) = self.unique_key(unique, record) {
                taken.remove(&key);
            }
        }
        data.records.remove(&self.key(record));
    }

    /// What no other record may have; `None` when one of the values is null, since null never collides.
    ///
    /// Deleted records collide with none. Where there are tenants, the tenant is part of it (no tenant is one as well),
    /// unless the unique is across tenants.
    fn unique_key(&self, unique: &UniqueDesc, record: &Record) -> Option<Box<[Key]>> {
        let live = layout::record_is_live(self.entity, record);
        if !live || unique.fields.iter().any(|f| record[*f].is_null()) {
            return None;
        }
        let tenant = self.entity.tenant.filter(|_| !unique.global).map(|tenant| tenant.field);
        let own = unique.fields.iter().copied().filter(|f| Some(*f) != tenant);
        Some(tenant.into_iter().chain(own).map(|f| Key(record[f].clone())).collect())
    }

    fn key(&self, record: &Record) -> Key {
        Key(record[self.entity.primary].clone())
    }
}

/// The key a filter demands, when it demands one.
fn pinned<'a>(filter: &'a Filter, primary: usize, args: &'a [Value]) -> Option<&'a Value> {
    match filter {
        Filter::All(list) => list.iter().find_map(|f| pinned(f, primary, args)),
        Filter::Cond { field, op: Op::Eq, value: Operand::One(source) } if *field == primary => fixed(source, args),
        Filter::Any(_) | Filter::Cond { .. } | Filter::Item { .. } | Filter::Linked(_) | Filter::Given(_) => None,
    }
}

fn fixed<'a>(source: &'a Source, args: &'a [Value]) -> Option<&'a Value> {
    match source {
        Source::Arg { index, .. } => args.get(*index),
        Source::Value(value) => Some(value),
        Source::Param(_) | Source::Ctx(_) | Source::Now => None,
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
            let list: Vec<serde_json::Value> = serde_json::from_str(text).map_err(Error::internal)?;
            let value = |value: serde_json::Value| match value {
                serde_json::Value::Number(n) => n.as_i64().map(Value::Int),
                serde_json::Value::String(text) => Some(Value::Text(text)),
                _ => None,
            };
            list.into_iter().map(|v| value(v).ok_or_else(|| Error::internal("keys are texts or whole numbers"))).collect()
        }
        _ => Err(Error::internal("a list of keys is one argument")),
    }
}

fn position<'a>(keys: &[Option<usize>], args: &'a [Value]) -> Result<Vec<&'a Value>> {
    let key = |slot: &Option<usize>| match slot {
        None => Ok(&Value::Null),
        Some(index) => args.get(*index).ok_or_else(|| Error::internal("a page position without its argument")),
    };
    keys.iter().map(key).collect()
}

fn order_by(order: &[Order], a: &Record, b: &Record) -> Ordering {
    let directed = |o: &Order| {
        let ascending = compare(a[o.field].as_ref(), b[o.field].as_ref());
        if o.desc { ascending.reverse() } else { ascending }
    };
    order.iter().map(directed).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
}

/// Where a record stands relative to a page position.
fn order_against(order: &[Order], record: &Record, position: &[&Value]) -> Ordering {
    let directed = |(o, key): (&Order, &&Value)| {
        let ascending = compare(record[o.field].as_ref(), key.as_ref());
        if o.desc { ascending.reverse() } else { ascending }
    };
    order.iter().zip(position).map(directed).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
}

/// The record with all assignments made; each sees the old values.
///
/// # Errors
/// When an argument is missing, or the record is not of the entity.
pub(crate) fn assign(old: &[Value], set: &[Assign], args: &[Value]) -> Result<Vec<Value>> {
    let mut new = old.to_vec();
    let given = |source: &Source| fixed(source, args).cloned().ok_or_else(|| Error::internal("an assignment without its argument"));
    for Assign { field, value } in set {
        let before = &old[*field];
        new[*field] = match value {
            AssignValue::Set(source) => given(source)?,
            AssignValue::Add(source) => add(before, &given(source)?)?,
            AssignValue::Push { value, dedupe } => {
                let (mut list, element) = elements(before, &given(value)?)?;
                if !*dedupe || !list.contains(&element) {
                    list.push(element);
                }
                Value::Strings(list)
            }
            AssignValue::Pull(source) => {
                let (mut list, element) = elements(before, &given(source)?)?;
                list.retain(|item| *item != element);
                Value::Strings(list)
            }
            AssignValue::AddItem(source) => items::add(before, &given(source)?)?,
            AssignValue::RemoveItem { key, id } => items::remove(before, key, &given(id)?)?,
            AssignValue::ChangeItem { key, id, members } => {
                let members = members.iter().map(|(name, source)| Ok((*name, given(source)?))).collect::<Result<Vec<_>>>()?;
                items::change(before, key, &given(id)?, &members)?
            }
            AssignValue::Figure(_) => return Err(Error::internal("this store computes and writes in a transaction")),
        };
    }
    Ok(new)
}

/// A list of strings and an element for it.
fn elements(old: &Value, element: &Value) -> Result<(Vec<String>, String)> {
    match (old, element) {
        (Value::Null, Value::Text(element)) => Ok((Vec::new(), element.clone())),
        (Value::Strings(list), Value::Text(element)) => Ok((list.clone(), element.clone())),
        // As other stores keep them.
        (Value::Json(text), Value::Text(element)) => Ok((serde_json::from_str(text).map_err(Error::internal)?, element.clone())),
        _ => Err(Error::internal("only strings stand in lists of strings")),
    }
}

/// Bounds are conditions of the statement, so a sum beyond them does not get here from a request.
fn add(old: &Value, by: &Value) -> Result<Value> {
    let beyond = || Error::internal("a sum is beyond the range of its field");
    match (old, by) {
        (Value::Null, by) => Ok(by.clone()),
        (Value::Int(a), Value::Int(b)) => a.checked_add(*b).map(Value::Int).ok_or_else(beyond),
        (Value::Float(a), Value::Float(b)) => Some(a + b).filter(|sum| sum.is_finite()).map(Value::Float).ok_or_else(beyond),
        (Value::Float(a), Value::Int(b)) => Ok(Value::Float(a + *b as f64)),
        _ => Err(Error::internal("only numbers can be added")),
    }
}
