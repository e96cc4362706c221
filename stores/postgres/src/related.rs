//! Renders a read of related records to SQL: one statement returns the records for any number of
//! values.

use tokio_postgres::types::Type;

use super::render::{Renderer, list_of};
use linchpin_core::filter::{Filter, Source};
use linchpin_core::store::Order;
use linchpin_core::{Error, Result};

impl Renderer<'_> {
    /// Renders a read of the records whose field has one of the values in a slot: at most `limit`
    /// records for each value.
    pub(super) fn related(
        &mut self,
        filter: &Filter,
        (field, slot): (usize, usize),
        order: &[Order],
        limit: Option<&Source>,
    ) -> Result<String> {
        let (table, columns, column) = (self.table(), self.columns(), self.column(field)?);
        let kind = self
            .entity
            .fields
            .get(field)
            .map(|f| f.kind)
            .ok_or_else(|| Error::internal("a plan names a field that does not exist"))?;
        let values = self.parameter(Err(slot), list_of(kind)?);
        let condition = self.filter(filter)?;
        let all: Vec<Order> = std::iter::once(Order { field, desc: false })
            .chain(order.iter().copied())
            .collect();
        let all = self.order(&all)?;
        let Some(limit) = limit else {
            return Ok(format!(
                "SELECT {columns} FROM {table} WHERE {column} = ANY({values}) AND {condition} ORDER BY {all}"
            ));
        };
        let limit = self.source(limit, Type::INT8)?;
        let first = if order.is_empty() {
            String::new()
        } else {
            format!(" ORDER BY {}", self.order(order)?)
        };
        // A lateral join reads only the first `limit` records of each value, even if many records
        // have that value.
        Ok(format!(
            "SELECT {columns} FROM (SELECT DISTINCT unnest({values})) AS linchpin_values(linchpin_value) CROSS JOIN LATERAL \
             (SELECT * FROM {table} WHERE {column} = linchpin_values.linchpin_value AND {condition}{first} LIMIT {limit}) AS {table} \
             ORDER BY {all}"
        ))
    }
}
