//! Recomputes counters: fields with the number of records of another entity.

use std::collections::BTreeMap;

use linchpin_core::Value;
use linchpin_core::entity::{EntityDesc, SoftDelete, Summary};
use linchpin_core::filter::Filter;
use linchpin_core::filter::eval::matches;
use linchpin_core::layout::record_is_live;
use linchpin_core::schema::{Bound, Column, Dialect, SchemaError, SchemaSession, literal_of};

use crate::data::{Counted, DataAction};
use crate::error::{Exit, Refusal};
use crate::plan::Declared;
use crate::rows::{RowUpdate, write};

/// The number of counted records that are read at once.
const PAGE: usize = 5_000;

/// A counter: a field with the number of records of another entity that refer to its record.
pub(crate) struct Counter<'a> {
    data: &'a DataAction,
    counted: &'a Counted,
    /// The tenant column of the records that have the counter. `None` counts the records of all
    /// tenants.
    tenant: Option<&'a Column>,
    /// The entity of the counted records.
    desc: &'static EntityDesc,
    /// The declaration of the counter.
    summary: &'static Summary,
    /// The condition that counted records meet.
    when: Filter,
}

impl<'a> Counter<'a> {
    /// Finds the declaration of a counter; `None` if the change does not concern a counter.
    ///
    /// # Errors
    /// `transform_missing` if this binary does not declare the counter.
    pub(crate) fn of(data: &'a DataAction, declared: &Declared) -> Result<Option<Self>, Refusal> {
        let DataAction::Recount {
            entity,
            field,
            tenant,
            counted,
            ..
        } = data
        else {
            return Ok(None);
        };
        let is_counter = |summary: &&Summary| {
            summary.field == field && (summary.target)().storage_name == entity
        };
        let desc = declared.entity(&counted.entity);
        let found = desc.and_then(|desc| Some((desc, desc.summaries.iter().find(is_counter)?)));
        let Some((desc, summary)) = found else {
            return Err(Refusal::new(
                "transform_missing",
                Exit::Planning,
                format!(
                    "a pending step fills the counter `{field}` of `{entity}`, which this binary \
                     does not declare"
                ),
            )
            .help("run the command with a binary that declares the counter"));
        };
        Ok(Some(Self {
            data,
            counted,
            tenant: tenant.as_ref().filter(|_| desc.tenant.is_some()),
            desc,
            summary,
            when: Filter::from(&summary.when),
        }))
    }

    /// Computes the counters of the next records, in the open transaction. Returns the last key,
    /// the number of records that were read, and the number of those that were written; `None` if
    /// there are no further records.
    ///
    /// Locks these records first. A request that changes a counted record locks them too, so no
    /// count changes between the read and the write.
    pub(crate) async fn next(
        &self,
        session: &mut dyn SchemaSession,
        dialect: &dyn Dialect,
        after: Option<&Value>,
        limit: u64,
    ) -> Result<Option<(Value, u64, u64)>, SchemaError> {
        let parents = self.parents(session, dialect, after, limit).await?;
        let key = |row: Option<&Vec<Value>>| row.and_then(|row| row.first()).cloned();
        let (Some(first), Some(last)) = (key(parents.first()), key(parents.last())) else {
            return Ok(None);
        };
        let counts = self.counts(session, dialect, (&first, &last)).await?;
        let read = parents.len() as u64;
        let rows: Vec<RowUpdate> = parents
            .into_iter()
            .filter_map(|mut row| {
                let tenant = row.get(2).map(text);
                let stored = row.get(1).cloned().unwrap_or_default();
                let key = row.swap_remove(0);
                let count = counts.get(&(text(&key), tenant)).copied();
                let count = Value::Int(count.unwrap_or(0));
                (stored != count).then(|| RowUpdate::new(key, count, Vec::new()))
            })
            .collect();
        let (written, refused) = write(session, dialect, self.data, rows).await?;
        match refused.into_iter().next() {
            None => Ok(Some((last, read, written))),
            Some(refused) => Err(SchemaError::new(
                linchpin_core::schema::SchemaFault::Violation,
                refused.message,
            )),
        }
    }

    /// Reads and locks the next records that have the counter: key, counter, and tenant.
    async fn parents(
        &self,
        session: &mut dyn SchemaSession,
        dialect: &dyn Dialect,
        after: Option<&Value>,
        limit: u64,
    ) -> Result<Vec<Vec<Value>>, SchemaError> {
        let (key, column) = (self.data.key(), self.data.column());
        let columns: Vec<&Column> = [key, column].into_iter().chain(self.tenant).collect();
        let names: Vec<String> = columns.iter().map(|c| dialect.quote(&c.name)).collect();
        let kinds: Vec<_> = columns.iter().map(|c| c.kind.clone()).collect();
        let values: Vec<Bound> = after
            .map(|after| (after.clone(), key.kind.clone()))
            .into_iter()
            .collect();
        let quoted = dialect.quote(&key.name);
        let filter = after.map_or_else(String::new, |_| format!(" WHERE {quoted} > $1"));
        let sql = format!(
            "SELECT {} FROM {}{filter} ORDER BY {quoted} LIMIT {limit}{}",
            names.join(", "),
            dialect.quote(self.data.table()),
            dialect.row_lock()
        );
        session.query(&sql, &values, &kinds).await
    }

    /// The numbers of counted records, grouped by the key that they refer to and by tenant.
    async fn counts(
        &self,
        session: &mut dyn SchemaSession,
        dialect: &dyn Dialect,
        (first, last): (&Value, &Value),
    ) -> Result<BTreeMap<(String, Option<String>), i64>, SchemaError> {
        let mut counts = BTreeMap::new();
        let column = |field: usize| {
            let name = self.desc.fields[field].name;
            let mut all = self.counted.fields.iter();
            all.find(|(field, _)| field == name).map(|(_, c)| c)
        };
        let Some(by) = column(self.summary.by) else {
            return Ok(counts);
        };
        let key = &self.counted.key;
        let mut needed = self.when.fields();
        let mark = self.desc.soft_delete.iter().map(SoftDelete::field);
        let tenant = self.desc.tenant.map(|tenant| tenant.field);
        for field in mark.chain(tenant) {
            needed = needed.with(field);
        }
        let read: Vec<(usize, &Column)> = (0..self.desc.fields.len())
            .filter(|field| needed.has(*field))
            .filter_map(|field| Some((field, column(field)?)))
            .collect();
        let columns: Vec<&Column> = [by, key]
            .into_iter()
            .chain(read.iter().map(|(_, column)| *column))
            .collect();
        let names: Vec<String> = columns.iter().map(|c| dialect.quote(&c.name)).collect();
        let kinds: Vec<_> = columns.iter().map(|c| c.kind.clone()).collect();
        let (by_name, key_name) = (dialect.quote(&by.name), dialect.quote(&key.name));
        let mut after: Option<(Value, Value)> = None;
        loop {
            let mut values: Vec<Bound> = vec![
                (first.clone(), by.kind.clone()),
                (last.clone(), by.kind.clone()),
            ];
            let mut further = String::new();
            if let Some((group, id)) = &after {
                values.push((group.clone(), by.kind.clone()));
                values.push((id.clone(), key.kind.clone()));
                further = format!(" AND ({by_name}, {key_name}) > ($3, $4)");
            }
            let sql = format!(
                "SELECT {} FROM {} WHERE {by_name} >= $1 AND {by_name} <= $2{further} \
                 ORDER BY {by_name}, {key_name} LIMIT {PAGE}",
                names.join(", "),
                dialect.quote(&self.counted.table),
            );
            let rows = session.query(&sql, &values, &kinds).await?;
            let full = rows.len() == PAGE;
            for row in rows {
                let mut row = row.into_iter();
                let (group, id) = (
                    row.next().unwrap_or_default(),
                    row.next().unwrap_or_default(),
                );
                let mut record = vec![Value::Null; self.desc.fields.len()];
                for ((field, _), value) in read.iter().zip(row) {
                    record[*field] = value;
                }
                if record_is_live(self.desc, &record) && matches(&self.when, &record[..], &[]) {
                    let tenant = self.tenant.and(tenant).map(|field| text(&record[field]));
                    *counts.entry((text(&group), tenant)).or_default() += 1;
                }
                after = Some((group, id));
            }
            if !full {
                return Ok(counts);
            }
        }
    }
}

/// A key as a text: the keys of a `BTreeMap` must implement `Ord`, and `Value` does not.
fn text(value: &Value) -> String {
    literal_of(value).to_string()
}
