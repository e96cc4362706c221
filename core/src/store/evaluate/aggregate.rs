//! Aggregates over records in memory.

use std::collections::BTreeMap;

use super::Key;
use crate::entity::EntityDesc;
use crate::filter::eval::{compare, matches};
use crate::store::{Compute, Function, Group};
use crate::{Error, Problem, Result, Value};

/// The error for a sum that an integer cannot hold.
fn sum_overflow() -> Error {
    Error::invalid(Problem::new(
        "",
        "range",
        "a sum is outside of the range of 64-bit integers",
    ))
}

/// The groups of records, in the order of their keys.
pub(super) struct Groups<'a> {
    by: &'a [Group],
    compute: &'a [Compute],
    args: &'a [Value],
    found: BTreeMap<Vec<Key>, Vec<Sum>>,
}

impl<'a> Groups<'a> {
    pub(super) fn new(groups: &'a [Group], compute: &'a [Compute], args: &'a [Value]) -> Self {
        let mut found = BTreeMap::new();
        if groups.is_empty() {
            found.insert(Vec::new(), vec![Sum::default(); compute.len()]);
        }
        Self {
            by: groups,
            compute,
            args,
            found,
        }
    }

    /// Adds a record to its group.
    pub(super) fn add(&mut self, record: &[Value]) {
        let key = |group: &Group| match (&record[group.field], group.truncate) {
            (Value::Date(at), Some(to)) => Value::Date(at.truncated(to)),
            (value, _) => value.clone(),
        };
        let keys = self.by.iter().map(|group| Key(key(group))).collect();
        let sums = self
            .found
            .entry(keys)
            .or_insert_with(|| vec![Sum::default(); self.compute.len()]);
        for (compute, sum) in self.compute.iter().zip(sums) {
            if matches(&compute.filter, record, self.args) {
                match compute.function {
                    Function::Count => sum.count += 1,
                    _ => sum.add(&record[compute.field]),
                }
            }
        }
    }

    /// Returns the rows: the keys, then the computed values.
    pub(super) fn rows(self, entity: &EntityDesc) -> impl Iterator<Item = Result<Vec<Value>>> {
        let compute = self.compute;
        let is_integer = |c: &Compute| matches!(c.kind(entity), crate::entity::Kind::Integer);
        let are_integers: Vec<bool> = compute.iter().map(is_integer).collect();
        self.found.into_iter().map(move |(keys, sums)| {
            let computed = compute
                .iter()
                .zip(&are_integers)
                .zip(sums)
                .map(|((compute, is_integer), sum)| sum.value(compute.function, *is_integer));
            keys.into_iter()
                .map(|Key(value)| Ok(value))
                .chain(computed)
                .collect()
        })
    }
}

/// The values from which every function is computed.
#[derive(Clone, Default)]
struct Sum {
    /// The number of values that are not null; for `Count` the number of records.
    count: i64,
    integer: i128,
    double: f64,
    /// The sum of the low-order bits that `double` has lost by rounding.
    rounding_error: f64,
    least: Option<Value>,
    greatest: Option<Value>,
}

impl Sum {
    fn add(&mut self, value: &Value) {
        if value.is_null() {
            return;
        }
        self.count += 1;
        match value {
            Value::Int(n) => self.integer += i128::from(*n),
            Value::Float(f) => {
                // Neumaier summation: the order of values hardly affects the result.
                let sum = self.double + f;
                self.rounding_error += if self.double.abs() >= f.abs() {
                    (self.double - sum) + f
                } else {
                    (f - sum) + self.double
                };
                self.double = sum;
            }
            _ => {}
        }
        let compared_with = |other: &Option<Value>| {
            other
                .as_ref()
                .map(|other| compare(value.as_ref(), other.as_ref()))
        };
        if compared_with(&self.least).is_none_or(std::cmp::Ordering::is_lt) {
            self.least = Some(value.clone());
        }
        if compared_with(&self.greatest).is_none_or(std::cmp::Ordering::is_gt) {
            self.greatest = Some(value.clone());
        }
    }

    /// Returns the result of a function. If `is_integer` is true, a sum is an integer.
    fn value(self, function: Function, is_integer: bool) -> Result<Value> {
        let double = self.double + self.rounding_error;
        Ok(match function {
            Function::Count => Value::Int(self.count),
            Function::Sum if is_integer => {
                Value::Int(i64::try_from(self.integer).map_err(|_| sum_overflow())?)
            }
            Function::Sum => Value::Float(double),
            Function::Avg if self.count == 0 => Value::Null,
            Function::Avg => Value::Float((self.integer as f64 + double) / self.count as f64),
            Function::Min => self.least.unwrap_or_default(),
            Function::Max => self.greatest.unwrap_or_default(),
        })
    }
}
