//! The executor of `aggregate`.

use std::collections::BTreeMap;

use super::{Aggregate, MAX_GROUPS};
use crate::filter::Filter;
use crate::operation::OpSpec;
use crate::operation::bind;
use crate::resource::{BoxFuture, Call, Executor, Form, Outcome, Table};
use crate::store::{Compute, Function, Group, Truncate};
use crate::{Result, Value};

/// Plans an operation of this kind for one mounted entity.
pub(super) fn plan(
    kind: &'static Aggregate,
    spec: &'static OpSpec,
    table: &Table,
) -> Box<dyn Executor> {
    Box::new(Run::new(kind, spec, table))
}

/// For one field: the key of each group, and the number of records for each value of the field.
type Counts = Vec<(Vec<Value>, BTreeMap<String, i64>)>;

pub(super) struct Run {
    kind: &'static Aggregate,
    spec: &'static OpSpec,
    filter: Filter,
    /// The members that one statement computes.
    compute: Vec<Compute>,
    /// Whether members count records by value. If so, the last computed value is the number of
    /// records of the group.
    counts_by_value: bool,
    /// The fields whose values are counted, each once. Group keys are not counted, because a group
    /// has one value of each key.
    by_value: Vec<usize>,
    /// The JSON text before each value: `{"status":` or `,"total":`, keys first.
    names: Vec<Box<[u8]>>,
}

impl Run {
    pub(super) fn new(kind: &'static Aggregate, spec: &'static OpSpec, table: &Table) -> Self {
        let filter =
            |filter: Option<&crate::filter::FilterSpec>| filter.map_or(Filter::TRUE, Filter::from);
        let mut compute = Vec::new();
        let (mut counts_by_value, mut by_value) = (false, Vec::new());
        for output in kind.compute {
            match output.function {
                Some(function) => compute.push(Compute {
                    function,
                    field: output.field,
                    filter: filter(output.filter.as_ref()),
                }),
                None => {
                    counts_by_value = true;
                    if !kind.is_key(output.field) && !by_value.contains(&output.field) {
                        by_value.push(output.field);
                    }
                }
            }
        }
        if counts_by_value {
            compute.push(Compute {
                function: Function::Count,
                field: 0,
                filter: Filter::TRUE,
            });
        }
        let key = kind.group.map(|group| table.desc.fields[group.field].wire);
        let names = key
            .into_iter()
            .chain(kind.compute.iter().map(|output| output.name));
        let names = names.enumerate().map(|(n, name)| {
            format!("{}\"{name}\":", if n == 0 { '{' } else { ',' })
                .into_bytes()
                .into()
        });
        Self {
            kind,
            spec,
            filter: filter(kind.filter.as_ref()),
            compute,
            counts_by_value,
            by_value,
            names: names.collect(),
        }
    }

    async fn aggregate(&self, table: &Table, call: &Call<'_>) -> Result<Outcome> {
        bind::check(self.spec, table, call, &[])?;
        bind::check_operands(self.spec, &self.filter, &call.args)?;
        for compute in &self.compute {
            bind::check_operands(self.spec, &compute.filter, &call.args)?;
        }
        let resolve = |filter: &Filter| bind::resolve(filter.clone(), call.cx, &call.args);
        let filter = resolve(&self.filter)?;
        let compute = self
            .compute
            .iter()
            .map(|c| {
                Ok(Compute {
                    filter: resolve(&c.filter)?,
                    ..c.clone()
                })
            })
            .collect::<Result<_>>()?;
        let keys: Vec<Group> = self.kind.group.into_iter().collect();
        let groups = (keys.clone(), self.by_value.clone());
        let rows = table
            .aggregate(call.cx, self.spec.name, filter, groups, compute, MAX_GROUPS)
            .await?;
        let (rows, mut counts) = self.split_rows(rows, keys.len());
        let rows = rows
            .into_iter()
            .map(|row| self.row(row, &mut counts))
            .collect();
        Ok(self.answer(rows, call.form))
    }

    /// Separates the rows of whole groups from the rows that count the values of a field in a
    /// group.
    fn split_rows(&self, rows: Vec<Box<[Value]>>, keys: usize) -> (Vec<Vec<Value>>, Vec<Counts>) {
        let mut counts: Vec<Counts> = vec![Vec::new(); self.by_value.len()];
        if counts.is_empty() {
            return (rows.into_iter().map(<[Value]>::into_vec).collect(), counts);
        }
        let mut group_rows = Vec::new();
        // A row is: a number, the keys, one value per field of `by_value`, the computed values. The
        // number is 0 for a whole group, otherwise the position in `by_value`, from 1 (see
        // `aggregate_kinds`).
        for row in rows {
            let mut row = row.into_vec();
            let computed = row.split_off(1 + keys + self.by_value.len());
            let values = row.split_off(1 + keys);
            let divided_by = row
                .remove(0)
                .as_int()
                .and_then(|number| usize::try_from(number).ok())
                .unwrap_or_default();
            let (Some(index), Some(Value::Int(number))) =
                (divided_by.checked_sub(1), computed.last())
            else {
                row.extend(computed);
                group_rows.push(row);
                continue;
            };
            let (Some(found), Some(value)) = (
                counts.get_mut(index),
                values.get(index).filter(|value| !value.is_null()),
            ) else {
                continue;
            };
            // The rows are sorted by the keys, so the rows of one group are consecutive.
            if found.last().is_none_or(|(last, _)| *last != row) {
                found.push((row, BTreeMap::new()));
            }
            if let Some((_, counts)) = found.last_mut() {
                counts.insert(text(value), *number);
            }
        }
        // The order is reversed, because the function `row` visits the groups in ascending order
        // and removes the last element of each list.
        for found in &mut counts {
            found.reverse();
        }
        (group_rows, counts)
    }

    /// A row of the response: the key, then every member.
    fn row(&self, mut row: Vec<Value>, counts: &mut [Counts]) -> Vec<Value> {
        let total = if self.counts_by_value {
            row.pop()
                .and_then(|total| total.as_int())
                .unwrap_or_default()
        } else {
            0
        };
        let mut values = row.into_iter();
        let keys: Vec<Value> = values
            .by_ref()
            .take(usize::from(self.kind.group.is_some()))
            .collect();
        let mut out = Vec::with_capacity(self.names.len());
        out.extend(keys.iter().map(|key| self.display_key(key)));
        let of_group = |found: &mut Counts| match found.last() {
            Some((key, _)) if *key == keys => {
                found.pop().map(|(_, counts)| counts).unwrap_or_default()
            }
            _ => BTreeMap::new(),
        };
        let counted: Vec<BTreeMap<String, i64>> = counts.iter_mut().map(of_group).collect();
        for output in self.kind.compute {
            if output.function.is_some() {
                out.push(values.next().unwrap_or_default());
            } else if self.kind.is_key(output.field) {
                let key = keys.first().filter(|key| !key.is_null());
                out.push(Value::Json(object(
                    &key.map(|key| (text(key), total)).into_iter().collect(),
                )));
            } else {
                let counts_of_field = self
                    .by_value
                    .iter()
                    .position(|field| *field == output.field)
                    .and_then(|index| counted.get(index));
                out.push(Value::Json(
                    counts_of_field.map_or_else(|| "{}".to_owned(), object),
                ));
            }
        }
        out
    }

    /// The key of a group in responses. A truncated date has only its leading part: `2026-11`.
    fn display_key(&self, key: &Value) -> Value {
        match (key, self.kind.group.and_then(|group| group.truncate)) {
            (Value::Date(at), Some(period)) => {
                let length = match period {
                    Truncate::Year => 4,
                    Truncate::Month => 7,
                    Truncate::Week | Truncate::Day => 10,
                    Truncate::Hour => 13,
                };
                Value::Text(at.to_string().chars().take(length).collect())
            }
            _ => key.clone(),
        }
    }

    fn answer(&self, rows: Vec<Vec<Value>>, form: &Form) -> Outcome {
        let Form::Json(_) = form else {
            return Outcome::Numbers {
                rows,
                json: Vec::new(),
            };
        };
        let mut json = Vec::with_capacity(64 * rows.len());
        for (n, row) in rows.iter().enumerate() {
            if n > 0 {
                json.push(b',');
            }
            for (name, value) in self.names.iter().zip(row) {
                json.extend_from_slice(name);
                crate::json::write_value(value.as_ref(), &mut json);
            }
            json.push(b'}');
        }
        Outcome::Numbers {
            rows: Vec::new(),
            json,
        }
    }
}

/// A value as the name of a member.
fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        _ => String::new(),
    }
}

fn object(counts: &BTreeMap<String, i64>) -> String {
    let mut out = b"{".to_vec();
    for (n, (name, count)) in counts.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        crate::json::write_str(name, &mut out);
        out.push(b':');
        out.extend_from_slice(count.to_string().as_bytes());
    }
    out.push(b'}');
    // The text is JSON that was built from valid strings.
    String::from_utf8_lossy(&out).into_owned()
}

impl Executor for Run {
    fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move { self.aggregate(table, &call).await })
    }
}
