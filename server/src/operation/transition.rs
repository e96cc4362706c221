//! The executor of `transition`.

pub(crate) mod choice;

use self::choice::Erased;
use super::Transition;
use crate::entity::Flags;
use crate::filter::{Filter, Op, Operand, Source};
use crate::operation::bind::{self, Slots};
use crate::operation::conditional_write::{ConditionalWrite, Refusal};
use crate::operation::{OpSpec, equalities};
use crate::resource::{BoxFuture, Call, Executor, Form, Outcome, Prepared, Table};
use crate::store::{Assign, AssignValue, Plan, Rows};
use crate::{Code, Error, Problem, Result, Value};

/// The function that chooses the value of a transition, in the form that the server calls. The
/// macro generates it as a wrapper of the function of the app.
pub type Chooser = fn(Erased) -> BoxFuture<'static, Result<Value>>;

/// Plans an operation of this kind for one mounted entity.
///
/// # Errors
/// If the store refuses a statement of the operation.
pub(super) fn plan(
    kind: &'static Transition,
    spec: &'static OpSpec,
    table: &Table,
) -> Result<Box<dyn Executor>> {
    Ok(Box::new(Run::new(kind, spec, table)?))
}

pub(super) struct Run {
    kind: &'static Transition,
    spec: &'static OpSpec,
    from: Vec<Value>,
    /// Each value that may be written, with its write.
    to: Vec<(Value, ConditionalWrite)>,
    choice: Option<Choice>,
}

/// The function that chooses the value to write.
struct Choice {
    chooser: Chooser,
    /// Reads the record and locks it until the transaction ends.
    look: Prepared,
    slots: Slots,
}

impl Choice {
    fn new(chooser: Chooser, kind: &Transition, spec: &OpSpec, table: &Table) -> Result<Self> {
        let mut slots = Slots::default();
        let filter = slots.filter(table.desc, equalities(kind.matches));
        Ok(Self {
            chooser,
            look: table.prepare(spec.name, Plan::Lock { filter, pick: None })?,
            slots,
        })
    }
}

impl Run {
    pub(super) fn new(
        kind: &'static Transition,
        spec: &'static OpSpec,
        table: &Table,
    ) -> Result<Self> {
        let from: Vec<Value> = kind.from.iter().map(|value| value()).collect();
        let write = |value: &fn() -> Value| {
            let states = from.iter().cloned().map(Source::Value).collect();
            let guard = Filter::cond(kind.field, Op::In, Operand::List(states));
            let value = value();
            let to = Assign {
                field: kind.field,
                value: AssignValue::Set(Source::Value(value.clone())),
            };
            Ok::<_, Error>((
                value,
                ConditionalWrite::new(spec, table, kind.matches, guard, vec![to], kind.set)?,
            ))
        };
        let to = kind.to.iter().map(write).collect::<Result<_>>()?;
        let choice = kind
            .chooser
            .map(|chooser| {
                let other = || {
                    Error::internal(format!(
                        "the chooser of `{}` is a `Chooser` of another version of linchpin",
                        spec.name
                    ))
                };
                Choice::new(
                    *chooser.downcast_ref().ok_or_else(other)?,
                    kind,
                    spec,
                    table,
                )
            })
            .transpose()?;
        Ok(Self {
            kind,
            spec,
            from,
            to,
            choice,
        })
    }

    fn refuse(&self, table: &Table, record: &[Value]) -> Refusal {
        let current = &record[self.kind.field];
        if self.from.contains(current) {
            return Refusal::Retry;
        }
        if self.kind.already_ok && self.to.iter().any(|(value, _)| value == current) {
            return Refusal::Unchanged;
        }
        let error = Error::new(Code::InvalidTransition, "The record is in another state");
        let field = &table.desc.fields[self.kind.field];
        if !field.readable() || field.flags.has(Flags::SENSITIVE) {
            // The error does not contain the value of a field that callers cannot read.
            return Refusal::Error(error);
        }
        let mut details = vec![Problem::new(field.wire, "current", display(current))];
        details.extend(
            self.from
                .iter()
                .map(|value| Problem::new(field.wire, "expected", display(value))),
        );
        Refusal::Error(error.with_details(details))
    }

    /// Writes a value.
    async fn write(&self, to: &ConditionalWrite, table: &Table, call: &Call<'_>) -> Result<Rows> {
        to.run(table, call, |record| self.refuse(table, record))
            .await
    }

    /// Calls a function that chooses the value to write. The record is locked from the read to the
    /// write.
    async fn choose(&self, choice: &Choice, table: &Table, call: &Call<'_>) -> Result<Rows> {
        let expected = table.desc.version.and(call.version);
        let args = choice.slots.values(call.cx, &call.args)?;
        let found = table
            .execute(call.cx, &choice.look, args, table.rows(&Form::Records))
            .await?;
        let record = table
            .found(found, expected)?
            .records
            .pop()
            .ok_or_else(Error::not_found)?;
        let unchanged = match self.refuse(table, &record) {
            Refusal::Error(error) => return Err(error),
            Refusal::Unchanged => true,
            Refusal::Retry => false,
        };
        if unchanged {
            // All these writes return the record in the same form.
            let (_, any) = self.to.first().ok_or_else(Error::not_found)?;
            return table.found(any.read(table, call, call.form).await?, expected);
        }
        let chosen = (choice.chooser)(Erased::new(
            table.sibling(table.desc)?,
            call.cx.clone(),
            record,
        ))
        .await?;
        let Some((_, to)) = self.to.iter().find(|(value, _)| *value == chosen) else {
            let (name, value) = (self.spec.name, display(&chosen));
            return Err(Error::internal(format!(
                "the chooser of `{name}` returned `{value}`, which is not in `one_of`"
            )));
        };
        self.write(to, table, call).await
    }
}

impl Executor for Run {
    fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move {
            let rows = match (&self.choice, &self.to[..]) {
                (None, [(_, to)]) => self.write(to, table, &call).await?,
                (Some(choice), _) => {
                    // Errors of the arguments are reported before any record is read.
                    bind::check(self.spec, table, &call, self.kind.set)?;
                    table.refuse_ambiguous(call.cx, self.kind.matches)?;
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
                        let call = async |cx: &_| {
                            self.choose(
                                choice,
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
                        };
                        let done = retry.attempt(cx, call).await;
                        if let Some(done) = retry.finished(done).await {
                            break done?;
                        }
                    }
                }
                (None, _) => {
                    let name = self.spec.name;
                    return Err(Error::internal(format!(
                        "`{name}` has several targets and nothing that chooses"
                    )));
                }
            };
            Ok(if self.kind.boolean {
                Outcome::Boolean(true)
            } else {
                Outcome::Record(rows)
            })
        })
    }
}

fn display(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        other => {
            let mut out = Vec::new();
            crate::json::write_value(other.as_ref(), &mut out);
            String::from_utf8_lossy(&out).into_owned()
        }
    }
}
