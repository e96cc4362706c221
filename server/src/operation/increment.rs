//! The executor of `increment`.

use super::Increment;
use crate::entity::{Bound, FieldDesc, Kind};
use crate::filter::{Filter, Op, Operand, Source};
use crate::operation::OpSpec;
use crate::operation::conditional_write::{ConditionalWrite, Refusal};
use crate::resource::{BoxFuture, Call, Executor, Outcome, Table};
use crate::store::{Assign, AssignValue};
use crate::validate::MAX_INTEGER;
use crate::{Error, Problem, Result, Value};

/// Plans an operation of this kind for one mounted entity.
///
/// # Errors
/// If the store refuses a statement of the operation.
pub(super) fn plan(
    kind: &'static Increment,
    spec: &'static OpSpec,
    table: &Table,
) -> Result<Box<dyn Executor>> {
    Ok(Box::new(Run::new(kind, spec, table)?))
}

pub(super) struct Run {
    field: &'static FieldDesc,
    position: usize,
    /// The comparison and the bound that the old value must satisfy; null counts as zero.
    bound: (Op, Value),
    /// Whether the new value is in range if the old value is null, which counts as zero.
    zero_fits: bool,
    write: ConditionalWrite,
}

impl Run {
    pub(super) fn new(
        kind: &'static Increment,
        spec: &'static OpSpec,
        table: &Table,
    ) -> Result<Self> {
        let field = &table.desc.fields[kind.field];
        let (bound, zero_fits, by) = limits(field, kind.by);
        let within = Filter::cond(
            kind.field,
            bound.0,
            Operand::One(Source::Value(bound.1.clone())),
        );
        let guard = if field.optional && zero_fits {
            Filter::Any(vec![
                Filter::cond(kind.field, Op::Eq, Operand::One(Source::Value(Value::Null))),
                within,
            ])
        } else {
            within
        };
        let add = Assign {
            field: kind.field,
            value: AssignValue::Add(Source::Value(by)),
        };
        let write = ConditionalWrite::new(spec, table, kind.matches, guard, vec![add], &[])?;
        Ok(Self {
            field,
            position: kind.field,
            bound,
            zero_fits,
            write,
        })
    }

    fn refuse(&self, record: &[Value]) -> Refusal {
        let fits = match (&record[self.position], &self.bound.1) {
            (Value::Null, _) => self.zero_fits,
            (Value::Int(old), Value::Int(bound)) => {
                if self.bound.0 == Op::Lte {
                    old <= bound
                } else {
                    old >= bound
                }
            }
            (Value::Float(old), Value::Float(bound)) => {
                if self.bound.0 == Op::Lte {
                    old <= bound
                } else {
                    old >= bound
                }
            }
            _ => false,
        };
        if fits {
            Refusal::Retry
        } else {
            Refusal::Error(Error::invalid(Problem::new(
                self.field.name_in_errors(),
                "range",
                "would leave the allowed range",
            )))
        }
    }
}

/// Returns the bound on the old value that keeps the new value in range, whether the change of a
/// null is in range, and the summand. The sum itself is never compared, because it could overflow.
fn limits(field: &FieldDesc, by: Bound) -> ((Op, Value), bool, Value) {
    let as_int = |b: Option<Bound>| match b {
        Some(Bound::Int(i)) => Some(i),
        Some(Bound::Float(f)) => Some(f as i64),
        None => None,
    };
    let as_float = |b: Option<Bound>| match b {
        Some(Bound::Int(i)) => Some(i as f64),
        Some(Bound::Float(f)) => Some(f),
        None => None,
    };
    let (min, max) = field.rules.range;
    match (field.kind, by) {
        (Kind::Integer, by) => {
            let by = as_int(Some(by)).unwrap_or(1);
            let (op, bound) = if by > 0 {
                (
                    Op::Lte,
                    as_int(max).map_or(MAX_INTEGER, |m| m.min(MAX_INTEGER)) - by,
                )
            } else {
                (
                    Op::Gte,
                    as_int(min).map_or(-MAX_INTEGER, |m| m.max(-MAX_INTEGER)) - by,
                )
            };
            let zero_fits =
                as_int(min).is_none_or(|min| by >= min) && as_int(max).is_none_or(|max| by <= max);
            ((op, Value::Int(bound)), zero_fits, Value::Int(by))
        }
        (_, by) => {
            let by = as_float(Some(by)).unwrap_or(1.0);
            let (op, edge) = if by > 0.0 {
                (Op::Lte, as_float(max).unwrap_or(f64::MAX))
            } else {
                (Op::Gte, as_float(min).unwrap_or(f64::MIN))
            };
            // The difference is rounded, so it may be the next double above the largest old value
            // whose sum is in range. The next double below is then the bound. A decrease is the
            // opposite case.
            let bound = match edge - by {
                bound if by > 0.0 && bound + by > edge => bound.next_down(),
                bound if by < 0.0 && bound + by < edge => bound.next_up(),
                bound => bound,
            };
            let zero_fits = as_float(min).is_none_or(|min| by >= min)
                && as_float(max).is_none_or(|max| by <= max);
            ((op, Value::Float(bound)), zero_fits, Value::Float(by))
        }
    }
}

impl Executor for Run {
    fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move {
            self.write
                .run(table, &call, |record| self.refuse(record))
                .await
                .map(Outcome::Record)
        })
    }
}
