//! The writing parts of statements: assignments, the first of what matches, upserts.

use super::render::{Form, Renderer, quote};
use crate::filter::Filter;
use crate::store::{Assign, AssignValue, Order, Pick};
use crate::{Error, Result};

impl Renderer {
    pub(super) fn assignments(&mut self, set: &[Assign]) -> Result<String> {
        let mut parts = Vec::with_capacity(set.len());
        for Assign { field, value } in set {
            let column = self.column(*field)?;
            let list = format!("COALESCE({column}, '[]')");
            let new = match value {
                AssignValue::Set(source) => self.source(source, Form::Plain)?,
                AssignValue::Add(source) => format!("COALESCE({column}, 0) + {}", self.source(source, Form::Plain)?),
                AssignValue::Push { value, dedupe } => {
                    let value = self.source(value, Form::Plain)?;
                    let longer = format!("json_insert({list}, '$[#]', {value})");
                    let has = format!("EXISTS (SELECT 1 FROM json_each({list}) WHERE value = {value})");
                    if *dedupe { format!("CASE WHEN {has} THEN {list} ELSE {longer} END") } else { longer }
                }
                AssignValue::Pull(source) => {
                    let value = self.source(source, Form::Plain)?;
                    format!("(SELECT json_group_array(value ORDER BY key) FROM json_each({list}) WHERE value <> {value})")
                }
            };
            parts.push(format!("{column} = {new}"));
        }
        Ok(parts.join(", "))
    }

    pub(super) fn upsert(&mut self, keys: &[usize], guard: &Filter, set: &[Assign]) -> Result<String> {
        let (table, columns) = (quote(self.entity.storage_name), self.columns());
        let values: Vec<String> = (0..self.entity.fields.len()).map(|i| self.parameter(Err(i), Form::Plain)).collect();
        let keys: Vec<String> = keys.iter().map(|k| self.column(*k)).collect::<Result<_>>()?;
        let first = keys.first().ok_or_else(|| Error::internal("an upsert without keys"))?;
        // Without an assignment the statement would return nothing.
        let set = if set.is_empty() { format!("{first} = {first}") } else { self.assignments(set)? };
        let guard = self.filter(guard)?;
        Ok(format!(
            "INSERT INTO {table} ({columns}) VALUES ({}) ON CONFLICT ({}) DO UPDATE SET {set} WHERE {guard} RETURNING {columns}",
            values.join(", "),
            keys.join(", "),
        ))
    }

    /// The condition of a write: what matches, or the first of it in an order.
    pub(super) fn picked(&mut self, filter: &Filter, pick: Option<&Pick>) -> Result<String> {
        let condition = self.filter(filter)?;
        let Some(pick) = pick else { return Ok(condition) };
        let (table, key) = (quote(self.entity.storage_name), self.column(self.entity.primary)?);
        let order = self.order(&pick.order)?;
        Ok(format!("{key} IN (SELECT {key} FROM {table} WHERE {condition} ORDER BY {order} LIMIT {})", pick.limit))
    }

    pub(super) fn order(&self, order: &[Order]) -> Result<String> {
        let key = |o: &Order| Ok(format!("{} {}", self.column(o.field)?, if o.desc { "DESC" } else { "ASC" }));
        Ok(order.iter().map(key).collect::<Result<Vec<_>>>()?.join(", "))
    }
}
