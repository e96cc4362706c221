//! Renders a read of related records to SQL: one statement returns the records for any number of
//! values.

use super::render::{Form, Renderer, Runs};
use linchpin_core::Result;
use linchpin_core::filter::{Filter, Source};
use linchpin_core::store::Order;
use linchpin_sql::access::{self, Reach};

impl Renderer<'_> {
    /// Renders a read of the records whose field has one of the values in a slot: at most `limit`
    /// records for each value. Also returns the thread on which the statement runs.
    pub(super) fn related(
        &mut self,
        filter: &Filter,
        (field, slot): (usize, usize),
        order: &[Order],
        limit: Option<&Source>,
    ) -> Result<(String, Runs)> {
        let (table, columns, column) = (self.table(), self.columns(), self.column(field)?);
        let runs = |reach: &Reach| match reach {
            Reach::One | Reach::Page(_) => Runs::Keyed {
                values: slot,
                limit: limit.cloned(),
            },
            Reach::Scan => Runs::InPool,
        };
        // An index must cover the read for one value.
        let reach = access::reach(
            self.entity,
            &filter.clone().and(Filter::eq_arg(field, slot)),
            order,
        );
        let values = self.parameter(Err(slot), Form::Plain);
        let condition = self.filter(filter)?;
        let all: Vec<Order> = std::iter::once(Order { field, desc: false })
            .chain(order.iter().copied())
            .collect();
        let all = self.order(&all)?;
        let Some(limit) = limit else {
            let runs = if field == self.entity.primary {
                runs(&reach)
            } else {
                Runs::InPool
            };
            let sql = format!(
                "SELECT {columns} FROM {table} WHERE {column} IN (SELECT value FROM json_each({values})) AND {condition} ORDER BY {all}"
            );
            return Ok((sql, runs));
        };
        let hint = if let Reach::Page(path) = &reach {
            self.index_hint(path)
        } else {
            String::new()
        };
        let (key, limit) = (
            self.column(self.entity.primary)?,
            self.source(limit, Form::Plain)?,
        );
        let first = if order.is_empty() {
            String::new()
        } else {
            format!(" ORDER BY {}", self.order(order)?)
        };
        // A join reads only the first `limit` records of each value, even if many records have that
        // value.
        let sql = format!(
            "SELECT {columns} FROM (SELECT DISTINCT value AS linchpin_value FROM json_each({values})) AS linchpin_values \
             CROSS JOIN {table} WHERE {key} IN (SELECT {key} FROM {table}{hint} \
             WHERE {column} = linchpin_values.linchpin_value AND {condition}{first} LIMIT {limit}) ORDER BY {all}"
        );
        Ok((sql, runs(&reach)))
    }
}
