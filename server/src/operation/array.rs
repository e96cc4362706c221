//! The executor of `array`.

use super::{ArrayAction, ArrayWrite};
use crate::filter::{Filter, Op, Operand, Source, SourceSpec};
use crate::operation::OpSpec;
use crate::operation::bind::{self, param_path};
use crate::operation::conditional_write::{ConditionalWrite, Refusal};
use crate::resource::{BoxFuture, Call, ChangeAttempts, Executor, Form, Outcome, Table};
use crate::store::{Assign, AssignValue};
use crate::{Error, Problem, Result, Value};

/// Plans an operation of this kind for one mounted entity.
///
/// # Errors
/// If the store refuses a statement of the operation.
pub(super) fn plan(
    kind: &'static ArrayWrite,
    spec: &'static OpSpec,
    table: &Table,
) -> Result<Box<dyn Executor>> {
    Ok(Box::new(Run::new(kind, spec, table)?))
}

pub(super) struct Run {
    kind: &'static ArrayWrite,
    spec: &'static OpSpec,
    /// The maximum number of elements, for a push.
    most: Option<u32>,
    /// The minimum number of elements, for a pull.
    least: u32,
    write: ConditionalWrite,
}

impl Run {
    pub(super) fn new(
        kind: &'static ArrayWrite,
        spec: &'static OpSpec,
        table: &Table,
    ) -> Result<Self> {
        let field = kind.field;
        let value = Source::from(&kind.value);
        let (least, limit) = table.desc.fields[field].rules.items;
        let (assign, most) = match kind.action {
            ArrayAction::Push { dedupe } => (
                AssignValue::Push {
                    value: value.clone(),
                    dedupe,
                },
                limit,
            ),
            ArrayAction::Pull => (AssignValue::Pull(value.clone()), None),
            ArrayAction::Set { .. } => (AssignValue::Set(value.clone()), None),
        };
        let guard = match (most, kind.action) {
            (None, _) => Filter::TRUE,
            (Some(most), action) => {
                let has_room = Filter::cond(
                    field,
                    Op::Shorter,
                    Operand::One(Source::Value(Value::Int(i64::from(most)))),
                );
                // An element that is already in the list is not added, so a full list is no error.
                let has_element = Filter::cond(field, Op::Has, Operand::One(value));
                if action == (ArrayAction::Push { dedupe: true }) {
                    Filter::Any(vec![has_element, has_room])
                } else {
                    has_room
                }
            }
        };
        let fixed = vec![Assign {
            field,
            value: assign,
        }];
        let least = if kind.action == ArrayAction::Pull {
            least.unwrap_or(0)
        } else {
            0
        };
        Ok(Self {
            kind,
            spec,
            most,
            least,
            write: ConditionalWrite::new(spec, table, kind.matches, guard, fixed, &[])?,
        })
    }

    /// Checks the value, and removes duplicates from a list.
    fn check(&self, table: &Table, call: &mut Call<'_>) -> Result<()> {
        let mut problems = Vec::new();
        self.judge(table, &call.args, &mut problems);
        if self.kind.action != ArrayAction::Pull {
            let field = self.kind.field;
            bind::judge_context(&self.kind.value, call.cx, |value| {
                table.validator.check_element(
                    field,
                    value,
                    table.desc.fields[field].wire,
                    &mut problems,
                );
            });
        }
        if !problems.is_empty() {
            return Err(Error::validation(problems));
        }
        if let (ArrayAction::Set { dedupe: true }, SourceSpec::Param(index)) =
            (self.kind.action, self.kind.value)
            && let Some(Some(Value::Strings(list))) = call.args.get_mut(index)
        {
            let mut seen = std::collections::HashSet::new();
            list.retain(|item| seen.insert(item.clone()));
        }
        Ok(())
    }

    /// A pull from a list with a minimum length. The number of removed elements is known only after
    /// a read, so the write applies only to the list that was read.
    async fn pull(&self, table: &Table, call: &Call<'_>) -> Result<Outcome> {
        bind::check(self.spec, table, call, &[])?;
        let element = bind::value_of(&Source::from(&self.kind.value), call.cx, &call.args)?;
        let version = table.desc.version.and(call.version);
        let (mut attempts, mut id) = (ChangeAttempts::default(), None);
        while attempts.next(call.cx, table.desc, id.as_ref()).await {
            let cx = attempts.inner(call.cx);
            let found =
                table.found(self.write.read(table, call, &Form::Records).await?, version)?;
            let Some(record) = found.records.first() else {
                return Err(Error::not_found());
            };
            let id = &*id.insert(record[table.desc.primary].clone());
            let old = list_of(&record[self.kind.field]);
            let new: Vec<String> = old
                .iter()
                .filter(|item| element.as_text() != Some(item.as_str()))
                .cloned()
                .collect();
            if new.len() < self.least as usize && new.len() < old.len() {
                let path = table.desc.fields[self.kind.field].wire;
                return Err(Error::invalid(Problem::new(
                    path,
                    "min_items",
                    format!("must keep at least {}", self.least),
                )));
            }
            let mut unchanged = vec![
                (table.desc.primary, id.clone()),
                (self.kind.field, Value::Strings(old)),
            ];
            unchanged.extend(
                table
                    .desc
                    .version
                    .map(|v| (v.field, record[v.field].clone())),
            );
            let set = vec![(self.kind.field, Value::Strings(new))];
            let rows = table
                .write_once(cx, self.spec.name, unchanged, set, call.form)
                .await?;
            if rows.count > 0 {
                return Ok(Outcome::Record(rows));
            }
        }
        Err(Error::kept_changing())
    }

    fn refuse(&self, table: &Table, record: &[Value]) -> Refusal {
        match self.most {
            Some(most) if list_of(&record[self.kind.field]).len() >= most as usize => {
                let path = table.desc.fields[self.kind.field].wire;
                Refusal::Error(Error::invalid(Problem::new(
                    path,
                    "max_items",
                    format!("must hold at most {most}"),
                )))
            }
            _ => Refusal::Retry,
        }
    }
}

/// The elements of a stored list; null has none.
fn list_of(value: &Value) -> Vec<String> {
    match value {
        Value::Strings(list) => list.clone(),
        Value::Json(text) => serde_json::from_str(text).unwrap_or_default(),
        _ => Vec::new(),
    }
}

impl Executor for Run {
    fn run<'a>(&'a self, table: &'a Table, mut call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move {
            self.check(table, &mut call)?;
            if self.least > 0 {
                return self.pull(table, &call).await;
            }
            self.write
                .run(table, &call, |record| self.refuse(table, record))
                .await
                .map(Outcome::Record)
        })
    }

    fn judge(&self, table: &Table, args: &[Option<Value>], problems: &mut Vec<Problem>) {
        let SourceSpec::Param(index) = self.kind.value else {
            return;
        };
        let (Some(param), Some(Some(value))) = (self.spec.params.get(index), args.get(index))
        else {
            return;
        };
        let (validator, field, path) = (&table.validator, self.kind.field, param_path(param));
        match (self.kind.action, value) {
            (ArrayAction::Set { dedupe: true }, Value::Strings(list)) => {
                validator.check_without_repeats(field, list, &path, problems);
            }
            (ArrayAction::Set { .. }, _) => validator.check(field, value, &path, problems),
            // Any text may be removed.
            (ArrayAction::Pull, Value::Text(_)) => {}
            (ArrayAction::Push { .. } | ArrayAction::Pull, _) => {
                validator.check_element(field, value, &path, problems);
            }
        }
    }
}
