//! Renders pages to SQL: an order, a position and a limit. The SQL reads ranges of an index.

use tokio_postgres::types::Type;

use super::render::{Renderer, quote, type_of};
use linchpin_core::filter::{Filter, Source};
use linchpin_core::store::{After, CustomSql, Order};
use linchpin_core::{Error, Result};
use linchpin_sql::custom_sql::{Dialect, embedded};
use linchpin_sql::keyset::{Next, Stretch, stretches};

impl Renderer<'_> {
    /// The records of a filter in an order, from a position.
    pub(super) fn select(
        &mut self,
        filter: &Filter,
        order: &[Order],
        after: Option<&After>,
        limit: Option<&Source>,
    ) -> Result<String> {
        let (table, columns) = (self.table(), self.columns());
        let condition = self.filter(filter)?;
        let after_position = match after {
            None | Some(After::Count(_)) => vec![None],
            Some(After::Keys(keys)) if order.is_empty() || order.len() != keys.len() => {
                return Err(Error::internal(format!(
                    "a position has {} keys, but its order has another number of fields",
                    keys.len()
                )));
            }
            Some(After::Keys(keys)) => self
                .after_position(order, keys)?
                .into_iter()
                .map(Some)
                .collect(),
        };
        let mut tail = String::new();
        if !order.is_empty() {
            tail = format!(" ORDER BY {}", self.order(order)?);
        }
        if let Some(limit) = limit {
            tail.push_str(&format!(" LIMIT {}", self.source(limit, Type::INT8)?));
        }
        if let Some(After::Count(slot)) = after {
            tail.push_str(&format!(
                " OFFSET {}",
                self.parameter(Err(*slot), Type::INT8)
            ));
        }
        let one = |after_position: &Option<String>| {
            let after_position = after_position
                .as_ref()
                .map_or(String::new(), |b| format!(" AND {b}"));
            format!("SELECT {columns} FROM {table} WHERE {condition}{after_position}{tail}")
        };
        Ok(match &after_position[..] {
            [part] => one(part),
            // Each part reads a range of the index, at most a page of records. The union of the
            // parts is sorted and cut to one page.
            parts => format!(
                "{}{tail}",
                parts
                    .iter()
                    .map(|p| format!("({})", one(p)))
                    .collect::<Vec<_>>()
                    .join(" UNION ALL ")
            ),
        })
    }

    /// The records of a filter with custom SQL for a further condition and the order.
    pub(super) fn chosen(
        &mut self,
        filter: &Filter,
        sql: &CustomSql,
        order: &[Order],
        limit: Option<&Source>,
    ) -> Result<String> {
        let (condition, mut by) = embedded(sql, self.entity, Dialect::Postgres, &|field| {
            self.naming.column_named(self.entity, field).map(quote)
        })?;
        // The parameters of the custom SQL come first.
        for (slot, kind) in sql.kinds.iter().enumerate() {
            self.parameter(Err(slot), type_of(*kind));
        }
        let (table, columns) = (self.table(), self.columns());
        let filter = self.filter(filter)?;
        if !by.is_empty() && !order.is_empty() {
            by.push_str(", ");
        }
        by.push_str(&self.order(order)?);
        let limit = limit
            .map(|l| self.source(l, Type::INT8))
            .transpose()?
            .map_or(String::new(), |l| format!(" LIMIT {l}"));
        Ok(format!(
            "SELECT {columns} FROM {table} WHERE {filter} AND ({condition}) ORDER BY {by}{limit}"
        ))
    }

    /// The conditions of the records after a position; no record matches two of them.
    fn after_position(&mut self, order: &[Order], keys: &[Option<usize>]) -> Result<Vec<String>> {
        let entity = self.entity;
        let optional = |o: &Order| entity.fields.get(o.field).is_some_and(|f| f.optional);
        let parts: Vec<String> = stretches(order, keys, optional, true)
            .iter()
            .map(|stretch| self.stretch(order, keys, stretch))
            .collect::<Result<_>>()?;
        // Null is the smallest value, so in descending order no record follows it.
        Ok(if parts.is_empty() {
            vec!["FALSE".to_owned()]
        } else {
            parts
        })
    }

    /// The condition of one range after a position. It is one index seek, also for late pages.
    fn stretch(
        &mut self,
        order: &[Order],
        keys: &[Option<usize>],
        stretch: &Stretch,
    ) -> Result<String> {
        let mut conditions = Vec::with_capacity(stretch.equal + 1);
        for (key, slot) in order[..stretch.equal].iter().zip(keys) {
            let (column, kind) = (self.column(key.field)?, self.kind(key.field));
            conditions.push(match slot {
                Some(slot) => format!("{column} = {}", self.parameter(Err(*slot), kind)),
                None => format!("{column} IS NULL"),
            });
        }
        conditions.push(match stretch.next {
            Next::All => "TRUE".to_owned(),
            Next::Null => format!("{} IS NULL", self.column(order[stretch.equal].field)?),
            Next::Present => format!("{} IS NOT NULL", self.column(order[stretch.equal].field)?),
            Next::Beyond(count) => {
                let run = stretch.equal..stretch.equal + count;
                self.row_after(&order[run.clone()], &keys[run])?
            }
        });
        Ok(conditions.join(" AND "))
    }

    /// `(a, b) > ($1, $2)`.
    fn row_after(&mut self, order: &[Order], keys: &[Option<usize>]) -> Result<String> {
        let operator = if order.first().is_some_and(|o| o.desc) {
            "<"
        } else {
            ">"
        };
        let columns: Vec<String> = order
            .iter()
            .map(|o| self.column(o.field))
            .collect::<Result<_>>()?;
        let mut values = Vec::with_capacity(keys.len());
        for (order, key) in order.iter().zip(keys) {
            let slot =
                key.ok_or_else(|| Error::internal("a position holds a null among values"))?;
            let kind = self.kind(order.field);
            values.push(self.parameter(Err(slot), kind));
        }
        Ok(format!(
            "({}) {operator} ({})",
            columns.join(", "),
            values.join(", ")
        ))
    }
}
