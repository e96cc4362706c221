//! `transition`: moves a field from one of some values to another, in one statement.

use super::spec::written;
use super::{Answer, AssignSpec, Kind};
use crate::filter::SourceSpec;
use crate::{Code, Value};

/// Options of a transition.
#[derive(Debug)]
pub struct Transition {
    /// Position of the state field.
    pub field: usize,
    /// The allowed present values.
    pub from: &'static [fn() -> Value],
    /// The value written.
    pub to: fn() -> Value,
    /// Which record: pins the primary key or a whole unique.
    pub matches: &'static [AssignSpec],
    /// Further fields written.
    pub set: &'static [AssignSpec],
    /// A record that is there already is answered unchanged.
    pub already_ok: bool,
    /// Answer `true` instead of the record.
    pub boolean: bool,
}

#[doc(hidden)]
impl Transition {
    /// A move of a field.
    pub const fn new(field: usize, from: &'static [fn() -> Value], to: fn() -> Value, matches: &'static [AssignSpec]) -> Self {
        Self { field, from, to, matches, set: &[], already_ok: false, boolean: false }
    }

    /// With further fields written.
    #[must_use]
    pub const fn set(self, set: &'static [AssignSpec]) -> Self {
        Self { set, ..self }
    }

    /// Answers a record that is there already.
    #[must_use]
    pub const fn already_ok(self) -> Self {
        Self { already_ok: true, ..self }
    }

    /// Answers `true`.
    #[must_use]
    pub const fn boolean(self) -> Self {
        Self { boolean: true, ..self }
    }
}

impl Kind for Transition {
    fn name(&self) -> &'static str {
        "transition"
    }

    fn transition(&self) -> Option<&Transition> {
        Some(self)
    }

    fn matches(&self) -> &'static [AssignSpec] {
        self.matches
    }

    fn writes(&self, field: usize) -> Option<&'static SourceSpec> {
        written(self.set, field)
    }

    fn capability(&self) -> &'static str {
        "atomic.transition"
    }

    fn returns(&self) -> Answer {
        if self.boolean { Answer::Boolean } else { Answer::Record }
    }

    fn errors(&self) -> &'static [Code] {
        &[Code::InvalidTransition, Code::NotFound, Code::Conflict]
    }

    #[cfg(feature = "server")]
    fn plan(
        &'static self,
        spec: &'static super::OpSpec,
        table: &crate::resource::Table,
    ) -> crate::Result<Box<dyn crate::resource::Executor>> {
        Ok(Box::new(run::Run::new(self, spec, table)?))
    }
}

#[cfg(feature = "server")]
mod run {
    use super::Transition;
    use crate::filter::{Filter, Op, Operand, Source};
    use crate::operation::OpSpec;
    use crate::operation::guarded::{Guarded, Refusal};
    use crate::resource::{BoxFuture, Call, Executor, Outcome, Table};
    use crate::store::{Assign, AssignValue};
    use crate::{Code, Error, Problem, Result, Value};

    pub(super) struct Run {
        kind: &'static Transition,
        from: Vec<Value>,
        guarded: Guarded,
    }

    impl Run {
        pub(super) fn new(kind: &'static Transition, spec: &'static OpSpec, table: &Table) -> Result<Self> {
            let from: Vec<Value> = kind.from.iter().map(|value| value()).collect();
            let states = from.iter().cloned().map(Source::Value).collect();
            let guard = Filter::cond(kind.field, Op::In, Operand::List(states));
            let to = Assign { field: kind.field, value: AssignValue::Set(Source::Value((kind.to)())) };
            Ok(Self { kind, from, guarded: Guarded::new(spec, table, kind.matches, guard, vec![to], kind.set)? })
        }

        fn refuse(&self, table: &Table, record: &[Value]) -> Refusal {
            let current = &record[self.kind.field];
            if self.from.contains(current) {
                return Refusal::Retry;
            }
            if self.kind.already_ok && *current == (self.kind.to)() {
                return Refusal::Unchanged;
            }
            let path = table.desc.fields[self.kind.field].wire;
            let mut details = vec![Problem::new(path, "current", display(current))];
            details.extend(self.from.iter().map(|value| Problem::new(path, "expected", display(value))));
            Refusal::Error(Error::new(Code::InvalidTransition, "The record is in another state").with_details(details))
        }
    }

    impl Executor for Run {
        fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
            Box::pin(async move {
                let rows = self.guarded.run(table, &call, |record| self.refuse(table, record)).await?;
                Ok(if self.kind.boolean { Outcome::Boolean(true) } else { Outcome::Record(rows) })
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
}
