//! The executor of `derive`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use linchpin_core::policy::{AuthDesc, PolicyDesc};

use super::{Derive, MAX_DERIVED, Merge, Part};
use crate::entity::EntityDesc;
use crate::filter::eval::{compare, matches};
use crate::filter::{Filter, Op, Operand, Source};
use crate::operation::OpSpec;
use crate::operation::bind;
use crate::resource::{BoxFuture, Call, Executor, Form, Outcome, Table};
use crate::store::{Projection, Row, Rows};
use crate::validate::list_value;
use crate::{Cx, Error, Result, Value, ValueRef};

/// Plans an operation of this kind for one mounted entity.
pub(super) fn plan(kind: &'static Derive, spec: &'static OpSpec, _: &Table) -> Box<dyn Executor> {
    Box::new(Run::new(kind, spec))
}

pub(super) struct Run {
    pub(super) kind: &'static Derive,
    pub(super) spec: &'static OpSpec,
    /// The fields of an item: those that the `list` route of its entity returns.
    projection: Projection,
}

/// A record, or one value.
type Item = Box<[Value]>;

/// The value that identifies an item; identities are ordered like values.
struct Identity(Value);

impl Ord for Identity {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.0.as_ref(), other.0.as_ref())
    }
}

impl PartialOrd for Identity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Identity {}

/// A row with one value, at the position of its field.
struct SingleValue<'a>(usize, &'a Value);

impl Row for SingleValue<'_> {
    fn value(&self, field: usize) -> ValueRef<'_> {
        if field == self.0 {
            self.1.as_ref()
        } else {
            ValueRef::Null
        }
    }
}

/// The tables that a call lists, each with the context that limits the call to the records of that
/// list.
struct Lists(Vec<(Arc<Table>, Cx)>);

impl Lists {
    /// The matching records, in the default order of the `list` route.
    async fn list_all(&self, entity: &EntityDesc, filter: Filter) -> Result<Vec<Item>> {
        let (table, cx) = self.of(entity)?;
        table.list_all(cx, filter, MAX_DERIVED).await
    }

    fn of(&self, entity: &EntityDesc) -> Result<&(Arc<Table>, Cx)> {
        let found = self
            .0
            .iter()
            .find(|(table, _)| table.desc.storage_name == entity.storage_name);
        found.ok_or_else(|| Error::internal("a derive reads a list whose policy was not checked"))
    }
}

impl Run {
    pub(super) fn new(kind: &'static Derive, spec: &'static OpSpec) -> Self {
        let projection = kind
            .items()
            .map_or_else(Projection::default, |(entity, _)| {
                let output = entity.list_policy().output;
                Projection::of(entity, |_, field| {
                    field.readable() && output.is_none_or(|output| output.contains(&field.name))
                })
            });
        Self {
            kind,
            spec,
            projection,
        }
    }

    async fn derive(&self, own: &Table, call: &Call<'_>) -> Result<Outcome> {
        // The lists of all entities are checked first, so that the existing records do not decide
        // whether a caller is refused.
        let mut read = Vec::new();
        for entity in self.kind.entities() {
            let table = own.sibling(entity)?;
            let cx = may_list(call.cx, &table).await?;
            read.push((table, cx));
        }
        let read = Lists(read);
        bind::check(self.spec, own, call, &[])?;
        let (entity, select) = self
            .kind
            .items()
            .ok_or_else(|| Error::internal("a derive without sources"))?;
        let identity = |item: &Item| {
            Identity(
                item.get(if select.is_some() { 0 } else { entity.primary })
                    .cloned()
                    .unwrap_or_default(),
            )
        };
        let mut lists = Vec::with_capacity(self.kind.sources.len());
        for part in self.kind.sources {
            let items = self.source(&read, call, part).await?;
            let found = !items.is_empty();
            lists.push(items);
            match self.kind.merge {
                Merge::First if found => break,
                Merge::Intersect if !found => break,
                _ => {}
            }
        }
        let mut items = merge(self.kind.merge, lists, &identity);
        if let Some(filter) = &self.kind.post_filter {
            let filter: Filter = filter.into();
            bind::check_operands(self.spec, &filter, &call.args)?;
            let now = call.cx.now();
            let filter =
                bind::resolve(filter, call.cx, &call.args)?.map_sources(&mut |_, _, source| {
                    match source {
                        Source::Now => Source::Value(Value::Date(now)),
                        source => source,
                    }
                });
            items.retain(|item| match (select, item.first()) {
                (Some(field), Some(value)) => matches(&filter, &SingleValue(field, value), &[]),
                _ => matches(&filter, &item[..], &[]),
            });
        }
        let mut rows = Rows::count();
        rows.count = items.len();
        match call.form {
            Form::Records => rows.records = items,
            Form::Json(_) | Form::Noted(..) => rows.json = self.json(entity, select, &items),
        }
        Ok(Outcome::List(rows))
    }

    /// The items of a source. One statement reads them; with `through`, a second statement reads
    /// the records to which the first records refer.
    async fn source(&self, read: &Lists, call: &Call<'_>, part: &Part) -> Result<Vec<Item>> {
        let filter = part.filter.as_ref().map_or(Filter::TRUE, Filter::from);
        bind::check_operands(self.spec, &filter, &call.args)?;
        let filter = bind::resolve(filter, call.cx, &call.args)?;
        let records = read.list_all(part.entity, filter).await?;
        let (records, select) = match &part.through {
            None => (records, part.select),
            Some(through) => {
                let mut keys: Vec<Identity> = records
                    .into_iter()
                    .map(|mut r| Identity(std::mem::take(&mut r[through.on])))
                    .collect();
                keys.retain(|key| !key.0.is_null());
                keys.sort();
                keys.dedup();
                if keys.is_empty() {
                    return Ok(Vec::new());
                }
                let keys: Vec<Value> = keys.into_iter().map(|Identity(key)| key).collect();
                let has_key = Filter::cond(
                    through.entity.primary,
                    Op::In,
                    Operand::One(Source::Value(list_value(&keys))),
                );
                (
                    read.list_all(through.entity, has_key).await?,
                    through.select,
                )
            }
        };
        let Some(field) = select else {
            return Ok(records);
        };
        let values = records
            .into_iter()
            .map(|mut record| std::mem::take(&mut record[field]))
            .filter(|value| !value.is_null());
        Ok(if self.kind.flatten {
            values
                .flat_map(elements)
                .map(|value| Box::from([value]))
                .collect()
        } else {
            values.map(|value| Box::from([value])).collect()
        })
    }

    fn json(&self, entity: &EntityDesc, select: Option<usize>, items: &[Item]) -> Vec<u8> {
        let mut json = Vec::with_capacity(64 * items.len());
        for (n, item) in items.iter().enumerate() {
            if n > 0 {
                json.push(b',');
            }
            match (select, item.first()) {
                // Ids are strings on the wire, whatever the key's type.
                (Some(field), Some(Value::Int(key))) if field == entity.primary => {
                    crate::json::write_str(&key.to_string(), &mut json);
                }
                (Some(_), Some(value)) => crate::json::write_value(value.as_ref(), &mut json),
                _ => self.projection.write(&item[..], &mut json),
            }
        }
        json
    }
}

/// Checks that the caller may call the `list` route of an entity. Returns the call, limited to the
/// records of that list.
///
/// An HTTP request has passed these checks already. A call from code has no request and no path, so
/// this function checks identity, roles and permissions, but no guards, middleware or rate limits.
async fn may_list(cx: &Cx, table: &Table) -> Result<Cx> {
    let entity = table.desc;
    if let Some(cx) = cx.through_list(entity) {
        return Ok(cx);
    }
    let Some(actor) = cx.get_actor() else {
        return Ok(cx.clone());
    };
    let PolicyDesc { auth, roles, .. } = entity.list_policy();
    if !matches!(auth, Some(AuthDesc::None)) && actor.id.is_none() {
        return Err(Error::unauthorized());
    }
    match roles {
        Some(roles) if !roles.is_empty() && !actor.has_any_role(roles) => Err(Error::forbidden()),
        _ => super::permit::may_list(table, cx).await,
    }
}

/// The elements of a list of strings.
fn elements(value: Value) -> Vec<Value> {
    match value {
        Value::Strings(list) => list.into_iter().map(Value::Text).collect(),
        Value::Json(text) => {
            let list: Vec<String> = serde_json::from_str(&text).unwrap_or_default();
            list.into_iter().map(Value::Text).collect()
        }
        value => vec![value],
    }
}

fn merge(how: Merge, lists: Vec<Vec<Item>>, identity: &impl Fn(&Item) -> Identity) -> Vec<Item> {
    match how {
        Merge::Concat => lists.into_iter().flatten().collect(),
        Merge::First => lists
            .into_iter()
            .find(|list| !list.is_empty())
            .unwrap_or_default(),
        Merge::Union => {
            let mut found = BTreeMap::new();
            for item in lists.into_iter().flatten() {
                found.entry(identity(&item)).or_insert(item);
            }
            found.into_values().collect()
        }
        Merge::Priority => distinct(lists.into_iter().flatten(), identity),
        Merge::Intersect => {
            let mut lists = lists.into_iter();
            let first = lists.next().unwrap_or_default();
            let others: Vec<std::collections::BTreeSet<Identity>> = lists
                .map(|list| list.iter().map(identity).collect())
                .collect();
            let common = first
                .into_iter()
                .filter(|item| others.iter().all(|other| other.contains(&identity(item))));
            distinct(common, identity)
        }
    }
}

/// Each item once, at its first position.
fn distinct(items: impl Iterator<Item = Item>, identity: &impl Fn(&Item) -> Identity) -> Vec<Item> {
    let mut seen = std::collections::BTreeSet::new();
    items.filter(|item| seen.insert(identity(item))).collect()
}

impl Executor for Run {
    fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move { self.derive(table, &call).await })
    }
}
