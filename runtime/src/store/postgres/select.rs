//! Pages to SQL: an order, a position and a limit, in a form that reads stretches of an index.

use tokio_postgres::types::Type;

use super::render::{Renderer, quote};
use crate::filter::{Filter, Source};
use crate::store::{After, Order};
use crate::{Error, Result};

impl Renderer<'_> {
    /// The records of a filter in an order, from a position.
    pub(super) fn select(&mut self, filter: &Filter, order: &[Order], after: Option<&After>, limit: Option<&Source>) -> Result<String> {
        let (table, columns) = (quote(self.entity.storage_name), self.columns());
        let condition = self.filter(filter)?;
        let behind = match after {
            None => vec![None],
            Some(after) if order.is_empty() || order.len() != after.keys.len() => {
                return Err(Error::internal(format!("a position of {} keys does not fit its order", after.keys.len())));
            }
            Some(after) => self.behind(order, &after.keys)?.into_iter().map(Some).collect(),
        };
        let mut tail = String::new();
        if !order.is_empty() {
            tail = format!(" ORDER BY {}", self.order(order)?);
        }
        if let Some(limit) = limit {
            tail.push_str(&format!(" LIMIT {}", self.source(limit, Type::INT8)?));
        }
        let one = |behind: &Option<String>| {
            let behind = behind.as_ref().map_or(String::new(), |b| format!(" AND {b}"));
            format!("SELECT {columns} FROM {table} WHERE {condition}{behind}{tail}")
        };
        Ok(match &behind[..] {
            [part] => one(part),
            // Each part is a stretch of the index of at most a page; a page of them is put in order.
            parts => format!("{}{tail}", parts.iter().map(|p| format!("({})", one(p))).collect::<Vec<_>>().join(" UNION ALL ")),
        })
    }

    /// The conditions of the records behind a position; no record satisfies two of them.
    fn behind(&mut self, order: &[Order], keys: &[Option<usize>]) -> Result<Vec<String>> {
        let optional = |o: &Order| self.entity.fields.get(o.field).is_some_and(|f| f.optional);
        let one_way = order.iter().all(|o| o.desc == order[0].desc);
        let rest_plain = order[1..].iter().all(|o| !optional(o)) && keys[1..].iter().all(Option::is_some);
        if !one_way || !rest_plain {
            return Ok(vec![self.behind_any(order, keys)?]);
        }
        let (column, nulls, desc) = (self.column(order[0].field)?, optional(&order[0]), order[0].desc);
        let mut parts = Vec::new();
        if keys[0].is_some() {
            parts.push(self.row_behind(order, keys)?);
            if desc && nulls {
                parts.push(format!("{column} IS NULL"));
            }
        } else {
            if order.len() > 1 {
                parts.push(format!("{column} IS NULL AND {}", self.row_behind(&order[1..], &keys[1..])?));
            }
            if !desc {
                parts.push(format!("{column} IS NOT NULL"));
            }
        }
        // Nothing is smaller than null.
        Ok(if parts.is_empty() { vec!["FALSE".to_owned()] } else { parts })
    }

    /// `(a, b) > ($1, $2)`: one seek, however deep.
    fn row_behind(&mut self, order: &[Order], keys: &[Option<usize>]) -> Result<String> {
        let than = if order.first().is_some_and(|o| o.desc) { "<" } else { ">" };
        let columns: Vec<String> = order.iter().map(|o| self.column(o.field)).collect::<Result<_>>()?;
        let mut values = Vec::with_capacity(keys.len());
        for (order, key) in order.iter().zip(keys) {
            let slot = key.ok_or_else(|| Error::internal("a position holds a null behind its first key"))?;
            let kind = self.kind(order.field);
            values.push(self.parameter(Err(slot), kind));
        }
        Ok(format!("({}) {than} ({})", columns.join(", "), values.join(", ")))
    }

    /// The general form: equal in the first keys and behind in the next one.
    fn behind_any(&mut self, order: &[Order], keys: &[Option<usize>]) -> Result<String> {
        let mut cases = Vec::new();
        let mut equal: Vec<String> = Vec::new();
        for (key, slot) in order.iter().zip(keys) {
            let (column, kind) = (self.column(key.field)?, self.kind(key.field));
            let value = slot.map(|slot| self.parameter(Err(slot), kind));
            let behind = match (&value, key.desc) {
                (Some(v), false) => format!("{column} > {v}"),
                (Some(v), true) => format!("({column} < {v} OR {column} IS NULL)"),
                (None, false) => format!("{column} IS NOT NULL"),
                (None, true) => "FALSE".to_owned(),
            };
            cases.push(format!("({})", equal.iter().cloned().chain([behind]).collect::<Vec<_>>().join(" AND ")));
            equal.push(value.map_or_else(|| format!("{column} IS NULL"), |v| format!("{column} = {v}")));
        }
        Ok(format!("({})", cases.join(" OR ")))
    }
}
