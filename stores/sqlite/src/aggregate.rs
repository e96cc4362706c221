//! Renders aggregates to SQL, and reads their rows.

use std::cell::Cell;

use rusqlite::types::ValueRef as Sql;

use super::render::Renderer;
use linchpin_core::entity::{EntityDesc, Kind};
use linchpin_core::filter::Filter;
use linchpin_core::store::{Compute, Function, Group, Row, Truncate};
use linchpin_core::{Error, Result, Timestamp, ValueRef};

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
        let keys = keys.join(", ");
        let grouped = if groups.is_empty() {
            String::new()
        } else {
            format!(" GROUP BY {keys} ORDER BY {keys}")
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
    /// the groups divided by the nth further field.
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
        let table = self.table();
        let mut parts = Vec::with_capacity(by_value.len() + 1);
        for part in 0..=by_value.len() {
            let mut columns = vec![part.to_string()];
            for group in groups {
                columns.push(self.group(*group)?);
            }
            for (at, field) in by_value.iter().enumerate() {
                columns.push(if at + 1 == part {
                    self.column(*field)?
                } else {
                    "NULL".to_owned()
                });
            }
            for compute in compute {
                columns.push(self.computed(compute)?);
            }
            // By column position: the part number is first, then the keys, then the values.
            let value = (part > 0).then_some(1 + groups.len() + part);
            let keys: Vec<String> = (2..2 + groups.len())
                .chain(value)
                .map(|n| n.to_string())
                .collect();
            let grouped = if keys.is_empty() {
                String::new()
            } else {
                format!(" GROUP BY {}", keys.join(", "))
            };
            parts.push(format!(
                "SELECT {} FROM {table} WHERE {}{grouped}",
                columns.join(", "),
                self.filter(filter)?
            ));
        }
        let order: Vec<String> = (1..=1 + groups.len() + by_value.len())
            .map(|n| n.to_string())
            .collect();
        Ok(format!(
            "{} ORDER BY {} LIMIT {limit}",
            parts.join(" UNION ALL "),
            order.join(", ")
        ))
    }

    fn computed(
        &mut self,
        Compute {
            function,
            field,
            filter,
        }: &Compute,
    ) -> Result<String> {
        let operand = match function {
            Function::Count => "*".to_owned(),
            _ => self.column(*field)?,
        };
        let filter_clause = if *filter == Filter::TRUE {
            String::new()
        } else {
            format!(" FILTER (WHERE {})", self.filter(filter)?)
        };
        Ok(match function {
            Function::Count => format!("COUNT({operand}){filter_clause}"),
            Function::Sum => format!("COALESCE(SUM({operand}){filter_clause}, 0)"),
            Function::Avg => format!("AVG({operand}){filter_clause}"),
            Function::Min => format!("MIN({operand}){filter_clause}"),
            Function::Max => format!("MAX({operand}){filter_clause}"),
        })
    }

    /// A group key: dates are milliseconds since 1970, and may be negative.
    fn group(&self, Group { field, truncate }: Group) -> Result<String> {
        let column = self.column(field)?;
        let Some(truncate) = truncate else {
            return Ok(column);
        };
        // `%` keeps the sign of the dividend.
        let remainder = |millis: i64, origin: i64| {
            format!("((({column} - {origin}) % {millis}) + {millis}) % {millis}")
        };
        let floor = |millis: i64, origin: i64| format!("{column} - {}", remainder(millis, origin));
        let start = |unit: &str| {
            format!(
                "unixepoch(({}) / 1000, 'unixepoch', 'start of {unit}') * 1000",
                floor(86_400_000, 0)
            )
        };
        Ok(match truncate {
            Truncate::Year => start("year"),
            Truncate::Month => start("month"),
            // 1970-01-05 was a Monday.
            Truncate::Week => floor(604_800_000, 345_600_000),
            Truncate::Day => floor(86_400_000, 0),
            Truncate::Hour => floor(3_600_000, 0),
        })
    }
}

/// A row of aggregates.
pub(super) struct Computed<'a, 's> {
    row: &'a rusqlite::Row<'s>,
    columns: &'a [Kind],
    fault: Cell<bool>,
}

impl<'a, 's> Computed<'a, 's> {
    pub(super) fn new(row: &'a rusqlite::Row<'s>, columns: &'a [Kind]) -> Self {
        Self {
            row,
            columns,
            fault: Cell::new(false),
        }
    }

    /// Checks that every value fits its column.
    ///
    /// # Errors
    /// `internal`: another program has written to the database.
    pub(super) fn validity(&self, entity: &EntityDesc) -> Result<()> {
        if self.fault.get() {
            let table = entity.storage_name;
            return Err(Error::internal(format!(
                "{table} contains a value that no field can have; another program has written to \
                 the database"
            )));
        }
        Ok(())
    }
}

impl Row for Computed<'_, '_> {
    fn value(&self, column: usize) -> ValueRef<'_> {
        let (Ok(value), Some(kind)) = (self.row.get_ref(column), self.columns.get(column)) else {
            self.fault.set(true);
            return ValueRef::Null;
        };
        match (value, kind) {
            (Sql::Null, _) => ValueRef::Null,
            (Sql::Integer(i), Kind::Integer) => ValueRef::Int(i),
            (Sql::Integer(i), Kind::Date) => ValueRef::Date(Timestamp::from_millis(i)),
            (Sql::Integer(i), Kind::Boolean) => ValueRef::Bool(i != 0),
            (Sql::Integer(i), Kind::Number) => ValueRef::Float(i as f64),
            (Sql::Real(f), Kind::Number) => ValueRef::Float(f),
            (Sql::Text(bytes), Kind::String | Kind::Enum(_)) => match std::str::from_utf8(bytes) {
                Ok(text) => ValueRef::Text(text),
                Err(_) => {
                    self.fault.set(true);
                    ValueRef::Null
                }
            },
            _ => {
                self.fault.set(true);
                ValueRef::Null
            }
        }
    }
}
