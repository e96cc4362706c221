//! The executor of `consume`.

use super::Consume;
use crate::entity::EntityDesc;
use crate::filter::{Filter, Op, Operand, Source};
use crate::operation::OpSpec;
use crate::operation::bind::{self, Slots};
use crate::resource::{BoxFuture, Call, Executor, Outcome, Prepared, Table};
use crate::store::{Pick, Plan, Rows};
use crate::{Result, Value};

/// Plans an operation of this kind for one mounted entity.
///
/// # Errors
/// If the store refuses a statement of the operation.
pub(super) fn plan(
    kind: &'static Consume,
    spec: &'static OpSpec,
    table: &Table,
) -> Result<Box<dyn Executor>> {
    Ok(Box::new(Run::new(kind, spec, table)?))
}

pub(super) struct Run {
    kind: &'static Consume,
    spec: &'static OpSpec,
    filter: Filter,
    statement: Prepared,
    slots: Slots,
}

impl Run {
    pub(super) fn new(
        kind: &'static Consume,
        spec: &'static OpSpec,
        table: &Table,
    ) -> Result<Self> {
        let mut filter = Filter::from(&kind.filter);
        if let Some(field) = kind.expiry {
            let valid = Filter::cond(field, Op::Gt, Operand::One(Source::Now));
            let never = Filter::cond(field, Op::Eq, Operand::One(Source::Value(Value::Null)));
            filter = filter.and(if table.desc.fields[field].optional {
                never.or(valid)
            } else {
                valid
            });
        }
        let mut slots = Slots::default();
        let bound = slots.filter(table.desc, filter.clone());
        // If the filter matches at most one record, the statement waits for its lock; otherwise it
        // takes the first record that is not locked.
        let pick = if matches_one(table.desc, &filter) {
            Pick::part
        } else {
            Pick::free
        };
        let pick = Some(pick(table.order(table.desc.sort), 1));
        let statement = table.prepare(
            spec.name,
            Plan::Delete {
                filter: bound,
                pick,
            },
        )?;
        Ok(Self {
            kind,
            spec,
            filter,
            statement,
            slots,
        })
    }
}

/// Whether a condition matches at most one record: it fixes the key, or every field of a unique
/// constraint.
fn matches_one(desc: &EntityDesc, filter: &Filter) -> bool {
    let is_fixed = |field: &usize| fixes(filter, *field);
    is_fixed(&desc.primary)
        || desc
            .uniques
            .iter()
            .any(|unique| unique.fields.iter().all(is_fixed))
}

fn fixes(filter: &Filter, at: usize) -> bool {
    match filter {
        Filter::All(parts) => parts.iter().any(|part| fixes(part, at)),
        Filter::Cond {
            field,
            op: Op::Eq,
            value: Operand::One(_),
        } => *field == at,
        _ => false,
    }
}

impl Executor for Run {
    fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move {
            bind::check(self.spec, table, &call, &[])?;
            bind::check_operands(self.spec, &self.filter, &call.args)?;
            let args = self.slots.values(call.cx, &call.args)?;
            let rows = if self.kind.boolean {
                Rows::count()
            } else {
                table.rows(call.form)
            };
            let rows = table.execute(call.cx, &self.statement, args, rows).await?;
            Ok(if self.kind.boolean {
                Outcome::Boolean(rows.count > 0)
            } else {
                Outcome::Record(rows)
            })
        })
    }
}
