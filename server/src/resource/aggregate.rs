//! Aggregates over the records of a table.

use super::page::{Clock, lift};
use super::{Form, Table};
use crate::filter::{Filter, Source};
use crate::store::{Assign, AssignValue, Compute, Figure, Group, Plan, Rows, layout};
use crate::{Cx, Error, Problem, Result, Value};

impl Table {
    /// Computes one row per group, with the row-level filter of a route: the keys, then the
    /// results, sorted by the keys. With fields in `by_value`, it also returns one row for each
    /// value of these fields in a group. Those rows have another form: see
    /// `store::plan::aggregate_kinds`.
    ///
    /// Filters may contain only fixed values and the instant of the call.
    ///
    /// # Errors
    /// `validation_failed`: `too_many` for more than `max_groups` groups, `range` for a sum that
    /// its type cannot represent.
    pub async fn aggregate(
        &self,
        cx: &Cx,
        route: &'static str,
        filter: Filter,
        (groups, by_value): (Vec<Group>, Vec<usize>),
        compute: Vec<Compute>,
        max_groups: u32,
    ) -> Result<Vec<Box<[Value]>>> {
        let mut args = Vec::new();
        let mut shape = vec![b'a'];
        let filter = lift(filter, &mut Clock::of(cx), &mut args, &mut shape);
        for group in &groups {
            shape.extend_from_slice(&[
                0xfd,
                group.field as u8,
                group.truncate.map_or(0xff, |to| to as u8),
            ]);
        }
        shape.extend(by_value.iter().flat_map(|field| [0xfb, *field as u8]));
        let lifted = compute.into_iter().map(|compute| {
            shape.extend_from_slice(&[0xfc, compute.field as u8, compute.function as u8]);
            Compute {
                filter: lift(compute.filter, &mut Clock::of(cx), &mut args, &mut shape),
                ..compute
            }
        });
        let compute: Vec<Compute> = lifted.collect();
        let parts = by_value.len() + 1;
        let width = groups.len() + compute.len() + if parts > 1 { parts } else { 0 };
        shape.extend_from_slice(&max_groups.to_le_bytes());
        let all = max_groups.saturating_mul(u32::try_from(parts).unwrap_or(u32::MAX));
        let statement = self.shape(route, &shape, || Plan::Aggregate {
            filter,
            groups,
            by_value,
            compute,
            limit: all.saturating_add(1),
        })?;
        let rows = self
            .execute(
                cx,
                &statement,
                args,
                Rows::values(width).limit(all as usize, Vec::new()),
            )
            .rows()
            .await?;
        let part = |row: &[Value]| {
            if parts > 1 {
                row.first().and_then(Value::as_int).unwrap_or_default()
            } else {
                0
            }
        };
        if rows.more
            || rows
                .records
                .chunk_by(|a, b| part(a) == part(b))
                .any(|part| part.len() > max_groups as usize)
        {
            let text = format!(
                "the result would have more than {max_groups} groups: request fewer records"
            );
            return Err(Error::invalid(Problem::new("", "too_many", text)));
        }
        // A sum of doubles may be infinite, which JSON cannot represent.
        let is_infinite = |value: &Value| matches!(value, Value::Float(f) if !f.is_finite());
        if rows.records.iter().any(|row| row.iter().any(is_infinite)) {
            return Err(Error::invalid(Problem::new(
                "",
                "range",
                "a sum is beyond the range of numbers",
            )));
        }
        Ok(rows.records)
    }

    /// Locks the matching record for the transaction of `cx` and returns its key, if the record is
    /// visible. Waits for other transactions that have locked it.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn lock(
        &self,
        cx: &Cx,
        route: &'static str,
        matches: Filter,
    ) -> Result<Option<Value>> {
        let (mut args, mut shape) = (Vec::new(), vec![b'k']);
        let matches = lift(matches, &mut Clock::of(cx), &mut args, &mut shape);
        let statement = self.shape(route, &shape, || Plan::Lock {
            filter: matches,
            pick: None,
        })?;
        let rows = self
            .execute(cx, &statement, args, self.rows(&Form::Records))
            .rows()
            .await?;
        Ok(rows
            .records
            .into_iter()
            .next()
            .map(|mut record| std::mem::take(&mut record[self.desc.primary])))
    }

    /// Writes one field of a record. As with every update, the `on_update` dates and the version
    /// change, too.
    ///
    /// # Errors
    /// The error of the store.
    pub(crate) async fn write_field(
        &self,
        cx: &Cx,
        route: &'static str,
        key: Value,
        field: usize,
        value: Value,
        form: &Form,
    ) -> Result<Rows> {
        let statement = self.shape(route, &[b'w', field as u8], || {
            let value = AssignValue::Set(Source::Arg {
                index: 1,
                nullable: true,
            });
            let set = self.touch(vec![Assign { field, value }], 2);
            Plan::Update {
                filter: Filter::eq_arg(self.desc.primary, 0),
                set,
                pick: None,
            }
        })?;
        let args = vec![key, value, Value::Date(cx.now())];
        self.execute(cx, &statement, args, self.rows(form))
            .rows()
            .await
    }

    /// Computes a number over records of `source` and writes it to the matching record, in one
    /// statement. Returns no row if there is no such record, or if the field cannot hold the
    /// number.
    ///
    /// The values in the filters of `figure` are literal and become arguments here. The row-level
    /// filter of `source` restricts the records that `figure` counts.
    ///
    /// # Errors
    /// The error of the store; 401 or 403 if the caller lacks a value that the row-level filter
    /// needs.
    pub(crate) async fn write_figure(
        &self,
        cx: &Cx,
        (route, matches): (&'static str, Filter),
        field: usize,
        source: &Self,
        figure: Figure,
        form: &Form,
    ) -> Result<Rows> {
        let (mut args, mut shape) = (Vec::new(), vec![b'n', field as u8]);
        let matches = lift(matches, &mut Clock::of(cx), &mut args, &mut shape);
        shape.extend_from_slice(source.desc.name.as_bytes());
        shape.extend_from_slice(&[
            0xfc,
            figure.compute.field as u8,
            figure.compute.function as u8,
        ]);
        let mut lifted = |filter| lift(filter, &mut Clock::of(cx), &mut args, &mut shape);
        let source_conditions = match source.condition(cx, "list")? {
            Filter::All(list) => list,
            condition => vec![condition],
        };
        // Stores add the condition "not deleted" themselves.
        let source_conditions = source_conditions
            .into_iter()
            .map(|c| {
                if layout::is_live(source.desc, &c) {
                    c
                } else {
                    lifted(c)
                }
            })
            .collect();
        let filter = lifted(figure.filter).and(Filter::All(source_conditions));
        let compute = Compute {
            filter: lifted(figure.compute.filter),
            ..figure.compute
        };
        args.push(Value::Date(cx.now()));
        let statement = self.shape(route, &shape, || {
            let figure = AssignValue::Figure(Box::new(Figure {
                filter,
                compute,
                ..figure
            }));
            Plan::Update {
                filter: matches,
                set: self.touch(
                    vec![Assign {
                        field,
                        value: figure,
                    }],
                    args.len() - 1,
                ),
                pick: None,
            }
        })?;
        self.execute(cx, &statement, args, self.rows(form))
            .rows()
            .await
    }

    /// All matching records that the list of the entity returns, in the default order.
    ///
    /// # Errors
    /// `validation_failed` with `too_many` for more records than `max_records`.
    pub(crate) async fn list_all(
        &self,
        cx: &Cx,
        filter: Filter,
        max_records: u32,
    ) -> Result<Vec<Box<[Value]>>> {
        let mut args = Vec::new();
        let mut shape = vec![b'e'];
        let filter = lift(filter, &mut Clock::of(cx), &mut args, &mut shape);
        let order = self.order(self.desc.sort);
        args.push(Value::Int(i64::from(max_records) + 1));
        let limit = Some(Source::Arg {
            index: args.len() - 1,
            nullable: false,
        });
        let statement = self.shape("list", &shape, || Plan::Select {
            filter,
            order,
            after: None,
            limit,
        })?;
        let rows = self
            .rows(&Form::Records)
            .limit(max_records as usize, Vec::new());
        let rows = self.execute(cx, &statement, args, rows).rows().await?;
        if rows.more {
            let text = format!(
                "more than {max_records} records of `{}` match: use a narrower filter",
                self.desc.name
            );
            return Err(Error::invalid(Problem::new("", "too_many", text)));
        }
        Ok(rows.records)
    }
}
