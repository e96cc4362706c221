//! The executor of `restore`.

use super::Restore;
use crate::entity::{DefaultDesc, SoftDelete};
use crate::filter::{Filter, Source};
use crate::operation::OpSpec;
use crate::operation::bind::value_of;
use crate::operation::conditional_write::{ConditionalWrite, Refusal};
use crate::resource::{BoxFuture, Call, Executor, Outcome, Table};
use crate::store::{Assign, AssignValue, Rows};
use crate::{Error, Result, Value};

/// Plans an operation of this kind for one mounted entity.
///
/// # Errors
/// If the store refuses a statement of the operation.
pub(super) fn plan(
    kind: &'static Restore,
    spec: &'static OpSpec,
    table: &Table,
) -> Result<Box<dyn Executor>> {
    Ok(Box::new(Run::new(kind, spec, table)?))
}

pub(super) struct Run {
    kind: &'static Restore,
    write: ConditionalWrite,
}

impl Run {
    pub(super) fn new(
        kind: &'static Restore,
        spec: &'static OpSpec,
        table: &Table,
    ) -> Result<Self> {
        let Some(mark) = table.desc.soft_delete else {
            return Err(Error::internal(format!(
                "`{}` restores records of `{}`, which has no `soft_delete`",
                spec.name, table.desc.name
            )));
        };
        // The value of a record that is not deleted. The macro has checked that there is one.
        let value = match (mark, table.desc.fields[mark.field()].default) {
            (SoftDelete::Is(..), DefaultDesc::Literal(value)) => value(),
            _ => Value::Null,
        };
        let clear = Assign {
            field: mark.field(),
            value: AssignValue::Set(Source::Value(value)),
        };
        // The row-level filter of this operation matches only deleted records.
        Ok(Self {
            kind,
            write: ConditionalWrite::new(
                spec,
                table,
                kind.matches,
                Filter::TRUE,
                vec![clear],
                &[],
            )?,
        })
    }
}

impl Run {
    async fn restore(&self, table: &Table, call: &Call<'_>) -> Result<Rows> {
        // The write changed no record, but the read after it found a deleted record. So another
        // call changed the record between the two statements, and the write is repeated.
        self.write.run(table, call, |_| Refusal::Retry).await
    }

    /// Restores a record with foreign keys within a transaction, and checks the keys.
    async fn restore_child(&self, table: &Table, call: &Call<'_>) -> Result<Rows> {
        let rows = self.restore(table, call).await?;
        let key = self
            .kind
            .matches
            .iter()
            .find(|assign| assign.field == table.desc.primary);
        let key = key.ok_or_else(|| Error::internal("a restore that pins no key"))?;
        table
            .check_restored(
                call.cx,
                value_of(&Source::from(&key.value), call.cx, &call.args)?,
            )
            .await?;
        Ok(rows)
    }
}

impl Executor for Run {
    fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move {
            if !table.has_references() {
                return self.restore(table, &call).await.map(Outcome::Record);
            }
            let Call {
                cx,
                args,
                page,
                form,
                version,
            } = call;
            let mut retry = table.retry(cx);
            loop {
                let (args, page) = (args.clone(), page.clone());
                let done = retry
                    .attempt(cx, async |cx| {
                        self.restore_child(
                            table,
                            &Call {
                                cx,
                                args,
                                page,
                                form,
                                version,
                            },
                        )
                        .await
                    })
                    .await;
                if let Some(done) = retry.finished(done).await {
                    return done.map(Outcome::Record);
                }
            }
        })
    }
}
