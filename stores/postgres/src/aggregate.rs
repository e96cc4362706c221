//! Renders aggregates to SQL, and reads their rows.

use std::cell::Cell;

use super::bind;
use super::render::Renderer;
use super::row::Raw;
use linchpin_core::entity::{EntityDesc, Kind};
use linchpin_core::filter::Filter;
use linchpin_core::store::{Compute, Function, Group, Row, Truncate};
use linchpin_core::{Error, Result, ValueRef};

impl Renderer<'_> {
    pub(super) fn aggregate(
        &mut self,
        filter: &Filter,
        groups: &[Group],
        compute: &[Compute],
        limit: u32,
    ) -> Result<String> {
        let mut columns = groups
            .iter()
            .map(|group| self.group(*group))
            .collect::<Result<Vec<_>>>()?;
        for compute in compute {
            columns.push(self.computed(compute)?);
        }
        let (table, condition) = (self.table(), self.filter(filter)?);
        let keys: Vec<String> = (1..=groups.len()).map(|n| n.to_string()).collect();
        let order: Vec<String> = keys
            .iter()
            .map(|key| format!("{key} NULLS FIRST"))
            .collect();
        let grouped = if groups.is_empty() {
            String::new()
        } else {
            format!(
                " GROUP BY {} ORDER BY {}",
                keys.join(", "),
                order.join(", ")
            )
        };
        Ok(format!(
            "SELECT {} FROM {table} WHERE {condition}{grouped} LIMIT {limit}",
            columns.join(", ")
        ))
    }

    /// Like `aggregate`, but each group is also divided by the values of further fields. One
    /// statement reads everything, so that all numbers are from the same instant.
    ///
    /// The first column is the number of the part that a row belongs to: 0 for the groups, n for
    /// the groups divided by the nth further field. A further field must not be a group key and
    /// must not be listed twice, because the part would then be ambiguous.
    pub(super) fn divided(
        &mut self,
        filter: &Filter,
        groups: &[Group],
        by_value: &[usize],
        compute: &[Compute],
        limit: u32,
    ) -> Result<String> {
        if by_value.is_empty() {
            return self.aggregate(filter, groups, compute, limit);
        }
        let keys = groups
            .iter()
            .map(|group| self.group(*group))
            .collect::<Result<Vec<_>>>()?;
        let values = by_value
            .iter()
            .map(|field| self.column(*field))
            .collect::<Result<Vec<_>>>()?;
        let part = values
            .iter()
            .enumerate()
            .map(|(at, value)| format!(" WHEN GROUPING({value}) = 0 THEN {}", at + 1));
        let mut columns = vec![format!(
            "(CASE{} ELSE 0 END)::bigint",
            part.collect::<String>()
        )];
        columns.extend(keys.iter().chain(&values).cloned());
        for compute in compute {
            columns.push(self.computed(compute)?);
        }
        let set = |value: Option<&String>| {
            format!(
                "({})",
                keys.iter()
                    .chain(value)
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        };
        let sets: Vec<String> = std::iter::once(None)
            .chain(values.iter().map(Some))
            .map(set)
            .collect();
        let order: Vec<String> = (1..=1 + keys.len() + values.len())
            .map(|n| format!("{n} NULLS FIRST"))
            .collect();
        let (table, condition) = (self.table(), self.filter(filter)?);
        let (columns, sets, order) = (columns.join(", "), sets.join(", "), order.join(", "));
        Ok(format!(
            "SELECT {columns} FROM {table} WHERE {condition} GROUP BY GROUPING SETS ({sets}) ORDER BY {order} LIMIT {limit}"
        ))
    }

    fn computed(&mut self, compute: &Compute) -> Result<String> {
        let Compute {
            function,
            field,
            filter,
        } = compute;
        let kind = compute.kind(self.entity);
        let operand = match function {
            Function::Count => "*".to_owned(),
            _ => self.column(*field)?,
        };
        let filter_clause = if *filter == Filter::TRUE {
            String::new()
        } else {
            format!(" FILTER (WHERE {})", self.filter(filter)?)
        };
        Ok(match (function, kind) {
            (Function::Count, _) => format!("COUNT({operand}){filter_clause}"),
            // A sum of BIGINT is a NUMERIC, which does not overflow. If the sum is out of range,
            // the cast fails.
            (Function::Sum, Kind::Integer) => {
                format!("COALESCE(SUM({operand}){filter_clause}, 0)::bigint")
            }
            (Function::Sum, _) => format!("COALESCE(SUM({operand}){filter_clause}, 0)"),
            // AVG of doubles squares them internally, which can overflow.
            (Function::Avg, _) => quotient(
                &format!("SUM({operand}){filter_clause}::double precision"),
                &format!("COUNT({operand}){filter_clause}"),
            ),
            (Function::Min, Kind::Boolean) => format!("bool_and({operand}){filter_clause}"),
            (Function::Max, Kind::Boolean) => format!("bool_or({operand}){filter_clause}"),
            (Function::Min, _) => format!("MIN({operand}){filter_clause}"),
            (Function::Max, _) => format!("MAX({operand}){filter_clause}"),
        })
    }

    fn group(&self, Group { field, truncate }: Group) -> Result<String> {
        let column = self.column(field)?;
        let Some(truncate) = truncate else {
            return Ok(column);
        };
        let period = match truncate {
            Truncate::Year => "year",
            Truncate::Month => "month",
            Truncate::Week => "week",
            Truncate::Day => "day",
            Truncate::Hour => "hour",
        };
        Ok(format!("date_trunc('{period}', {column}, 'UTC')"))
    }
}

/// A row of aggregates.
pub(super) struct Computed<'a> {
    row: &'a tokio_postgres::Row,
    entity: &'static EntityDesc,
    /// The kinds of the columns.
    kinds: &'a [Kind],
    fault: Cell<bool>,
}

impl<'a> Computed<'a> {
    pub(super) fn new(
        row: &'a tokio_postgres::Row,
        entity: &'static EntityDesc,
        kinds: &'a [Kind],
    ) -> Self {
        Self {
            row,
            entity,
            kinds,
            fault: Cell::new(false),
        }
    }

    /// Checks that every value fits its column.
    ///
    /// # Errors
    /// `internal`: another program has written to the database.
    pub(super) fn validity(&self) -> Result<()> {
        if self.fault.get() {
            let table = self.entity.storage_name;
            return Err(Error::internal(format!(
                "{table} contains a value that no field can have; another program has written to \
                 the database"
            )));
        }
        Ok(())
    }

    fn read(&self, column: usize) -> Option<ValueRef<'_>> {
        let Some(Raw(bytes)) = self.row.try_get::<_, Option<Raw<'_>>>(column).ok()? else {
            return Some(ValueRef::Null);
        };
        Some(match *self.kinds.get(column)? {
            Kind::String | Kind::Enum(_) => ValueRef::Text(std::str::from_utf8(bytes).ok()?),
            Kind::Boolean => ValueRef::Bool(bytes != [0]),
            Kind::Integer => ValueRef::Int(i64::from_be_bytes(bytes.try_into().ok()?)),
            Kind::Number => ValueRef::Float(f64::from_be_bytes(bytes.try_into().ok()?)),
            Kind::Date => ValueRef::Date(bind::date(i64::from_be_bytes(bytes.try_into().ok()?))?),
            Kind::StringArray | Kind::Json | Kind::Items(_) => return None,
        })
    }
}

impl Row for Computed<'_> {
    fn value(&self, column: usize) -> ValueRef<'_> {
        self.read(column).unwrap_or_else(|| {
            self.fault.set(true);
            ValueRef::Null
        })
    }
}

/// A sum divided by a count; null if the count is zero. Postgres raises an error for a quotient
/// that rounds to zero (underflow), but other stores return zero. This happens if the sum, in units
/// of the smallest double, is at most half the count.
fn quotient(sum: &str, count: &str) -> String {
    let zero = format!("abs({sum}) / '5e-324'::double precision <= {count} / 2.0");
    format!(
        "CASE WHEN abs({sum}) < 1e-300 THEN CASE WHEN {zero} THEN {sum} * 0 ELSE {sum} / {count} END ELSE {sum} / NULLIF({count}, 0) END"
    )
}
