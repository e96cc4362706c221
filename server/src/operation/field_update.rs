//! The executor of `field_update`.

use super::{FieldUpdate, OpSpec};
use crate::Result;
use crate::filter::Filter;
use crate::operation::conditional_write::{ConditionalWrite, Refusal};
use crate::resource::{BoxFuture, Call, Executor, Outcome, Table};

/// Plans an operation of this kind for one mounted entity.
///
/// # Errors
/// If the store refuses a statement of the operation.
pub(super) fn plan(
    kind: &'static FieldUpdate,
    spec: &'static OpSpec,
    table: &Table,
) -> Result<Box<dyn Executor>> {
    let write = ConditionalWrite::new(
        spec,
        table,
        kind.matches,
        Filter::TRUE,
        Vec::new(),
        kind.set,
    )?;
    Ok(Box::new(Run { write }))
}

pub(super) struct Run {
    pub(super) write: ConditionalWrite,
}

impl Executor for Run {
    fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move {
            self.write
                .run(table, &call, |_| Refusal::Retry)
                .await
                .map(Outcome::Record)
        })
    }
}
