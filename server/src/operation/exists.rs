//! The executor of `exists`.

use super::Exists;
use crate::Result;
use crate::operation::OpSpec;
use crate::operation::bind::{self, Slots, equalities};
use crate::resource::{BoxFuture, Call, Executor, Outcome, Prepared, Table};
use crate::store::Rows;

/// Plans an operation of this kind for one mounted entity.
///
/// # Errors
/// If the store refuses a statement of the operation.
pub(super) fn plan(
    kind: &'static Exists,
    spec: &'static OpSpec,
    table: &Table,
) -> Result<Box<dyn Executor>> {
    let mut slots = Slots::default();
    let filter = slots.filter(
        table.desc,
        equalities(kind.fields).and(equalities(kind.check)),
    );
    let statement = table.prepare(spec.name, crate::store::Plan::Exists { filter })?;
    Ok(Box::new(Run {
        spec,
        statement,
        slots,
    }))
}

pub(super) struct Run {
    pub(super) spec: &'static OpSpec,
    pub(super) statement: Prepared,
    pub(super) slots: Slots,
}

impl Executor for Run {
    fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move {
            bind::check(self.spec, table, &call, &[])?;
            let args = self.slots.values(call.cx, &call.args)?;
            let rows = table
                .execute(call.cx, &self.statement, args, Rows::count())
                .await?;
            Ok(Outcome::Boolean(rows.count > 0))
        })
    }
}
