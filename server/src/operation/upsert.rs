//! The executor of `upsert`.

use super::Upsert;
use crate::filter::{Filter, Op, Operand, Source};
use crate::operation::bind::{self, value_of};
use crate::operation::{AssignSpec, OpSpec};
use crate::resource::{BoxFuture, Call, ChangeAttempts, Draft, Executor, Form, Outcome, Table};
use crate::store::{Assign, AssignValue, Plan, Rows};
use crate::{Code, Error, Result, Value};

/// Plans an operation of this kind for one mounted entity.
pub(super) fn plan(
    kind: &'static Upsert,
    spec: &'static OpSpec,
    table: &Table,
) -> Box<dyn Executor> {
    Box::new(Run::new(kind, spec, table))
}

/// The maximum number of attempts to create a record while a record with the same key fields exists
/// that the caller cannot see. In each attempt, another call may have created and removed that
/// record.
const MAX_INVISIBLE: usize = 3;

/// The error if the record exists, but the caller cannot see it.
fn exists() -> Error {
    Error::new(Code::Conflict, "The record exists already")
}

pub(super) struct Run {
    kind: &'static Upsert,
    spec: &'static OpSpec,
    keys: Vec<usize>,
}

impl Run {
    pub(super) fn new(kind: &'static Upsert, spec: &'static OpSpec, _: &Table) -> Self {
        Self {
            kind,
            spec,
            keys: kind.matches.iter().map(|a| a.field).collect(),
        }
    }

    /// The record that would be created, and the fields that `set` assigns in this call.
    fn record(&self, table: &Table, call: &Call<'_>) -> Result<(Vec<Value>, Vec<usize>)> {
        let mut draft = Draft::new(table.desc);
        let mut given = Vec::with_capacity(self.kind.set.len());
        let mut apply_assigns =
            |list: &[AssignSpec], given: Option<&mut Vec<usize>>| -> Result<()> {
                let mut written = Vec::new();
                for assign in list {
                    let source = Source::from(&assign.value);
                    let value = match source {
                        Source::Param(p) => call.args.get(p).cloned().flatten(),
                        other => Some(value_of(&other, call.cx, &call.args)?),
                    };
                    if let Some(value) = value {
                        draft.values[assign.field] = Some(value);
                        written.push(assign.field);
                    }
                }
                if let Some(given) = given {
                    given.extend(written);
                }
                Ok(())
            };
        apply_assigns(self.kind.matches, None)?;
        apply_assigns(self.kind.set, Some(&mut given))?;
        apply_assigns(self.kind.on_create, None)?;
        // The rule over the whole record is checked later, because the result may be an existing
        // record.
        let draft = table.checked_fields(call.cx, draft)?;
        Ok((
            draft
                .values
                .into_iter()
                .map(Option::unwrap_or_default)
                .collect(),
            given,
        ))
    }

    async fn upsert(&self, table: &Table, call: &Call<'_>) -> Result<Outcome> {
        // The validation rules of the record check the values later; here only presence and null
        // are checked.
        bind::check(self.spec, table, call, &[])?;
        let (mut args, given) = self.record(table, call)?;
        let id = vec![table.desc.primary];
        if table.desc.check.is_some() {
            return self.upsert_checked(table, call, args, &given).await;
        }
        let now = args.len();
        args.push(Value::Date(call.cx.now()));
        let mut shape = b"upsert:".to_vec();
        shape.extend_from_slice(self.spec.name.as_bytes());
        shape.push(0);
        shape.extend(given.iter().map(|field| *field as u8));
        let statement = table.shape(self.spec.name, &shape, || {
            let assign = |field: &usize| Assign {
                field: *field,
                value: AssignValue::Set(Source::Arg {
                    index: *field,
                    nullable: table.desc.fields[*field].optional,
                }),
            };
            let set = table.touch(given.iter().map(assign).collect(), now);
            Plan::Upsert {
                keys: self.keys.clone(),
                filter: Filter::TRUE,
                set,
            }
        })?;
        let rows = table
            .execute(
                call.cx,
                &statement,
                args,
                table.rows(call.form).limit(1, id),
            )
            .await?;
        Self::outcome(rows)
    }

    /// If there is a rule over the whole record, the write depends on the existing record.
    async fn upsert_checked(
        &self,
        table: &Table,
        call: &Call<'_>,
        new: Vec<Value>,
        given: &[usize],
    ) -> Result<Outcome> {
        // Whether the record is created or updated, the event is one of this operation.
        let cx = &call.cx.for_operation(self.spec.name);
        // The record may be created or removed between two statements. The attempts use no queue,
        // because the update of an existing record waits in its own queue.
        let (mut attempts, mut invisible) = (ChangeAttempts::default(), 0);
        while attempts.next(cx, table.desc, None).await {
            let same = self
                .keys
                .iter()
                .map(|k| Filter::cond(*k, Op::Eq, Operand::One(Source::Value(new[*k].clone()))));
            let found = table
                .first(
                    cx,
                    self.spec.name,
                    Filter::All(same.collect()),
                    Vec::new(),
                    &Form::Records,
                )
                .await?;
            let Some(old) = found.records.first() else {
                let values = new.iter().cloned().map(Some).collect();
                match table
                    .create(
                        cx,
                        Draft {
                            values,
                            ..Draft::new(table.desc)
                        },
                        call.form,
                    )
                    .await
                {
                    Ok((mut rows, id)) => {
                        rows.created = true;
                        rows.last = vec![id];
                        return Self::outcome(rows);
                    }
                    // Another call may have created the record in between; then the next read finds
                    // it. If no read finds it, the record is not visible to the caller.
                    Err(error)
                        if error.code() == Code::Conflict
                            && self.is_about_match_fields(&error, table) =>
                    {
                        invisible += 1;
                        if invisible == MAX_INVISIBLE {
                            return Err(exists());
                        }
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            };
            let id = old[table.desc.primary].clone();
            let mut changes = Draft::new(table.desc);
            for field in given {
                changes.values[*field] = Some(new[*field].clone());
            }
            match table.update(cx, id.clone(), changes, None, call.form).await {
                Ok(mut rows) => {
                    rows.last = vec![id];
                    return Self::outcome(rows);
                }
                Err(error) if error.code() == Code::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::kept_changing())
    }

    /// Whether a conflict is about the fields by which the record is matched.
    fn is_about_match_fields(&self, error: &Error, table: &Table) -> bool {
        error.details().iter().all(|p| {
            self.keys
                .iter()
                .any(|k| table.desc.fields[*k].wire == p.path)
        })
    }

    fn outcome(rows: Rows) -> Result<Outcome> {
        if rows.count == 0 {
            return Err(exists());
        }
        Ok(Outcome::Upserted(rows))
    }
}

impl Executor for Run {
    fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move { self.upsert(table, &call).await })
    }
}
