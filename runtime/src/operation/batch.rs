//! `batch`: changes or removes every visible record that matches, in one statement.

use super::{Answer, AssignSpec, Kind};
use crate::Code;
use crate::filter::FilterSpec;

/// Options of a batch.
#[derive(Debug)]
pub struct Batch {
    /// Which records; never all of them.
    pub filter: FilterSpec,
    /// What is written; empty for a batch that deletes.
    pub set: &'static [AssignSpec],
    /// Whether the records are removed.
    pub delete: bool,
    /// Answer nothing instead of the number of records.
    pub void: bool,
    /// Whether the store must be able to undo it as a whole.
    pub atomic: bool,
}

#[doc(hidden)]
impl Batch {
    /// Writes `set` to what matches.
    pub const fn update(filter: FilterSpec, set: &'static [AssignSpec]) -> Self {
        Self { filter, set, delete: false, void: false, atomic: false }
    }

    /// Removes what matches.
    pub const fn delete(filter: FilterSpec) -> Self {
        Self { filter, set: &[], delete: true, void: false, atomic: false }
    }

    /// Answers nothing.
    #[must_use]
    pub const fn void(self) -> Self {
        Self { void: true, ..self }
    }

    /// All or nothing, whatever the store.
    #[must_use]
    pub const fn atomic(self) -> Self {
        Self { atomic: true, ..self }
    }
}

impl Kind for Batch {
    fn name(&self) -> &'static str {
        "batch"
    }

    fn capability(&self) -> &'static str {
        if self.atomic { "batch.atomic" } else { "batch.write" }
    }

    fn returns(&self) -> Answer {
        if self.void { Answer::Nothing } else { Answer::Count }
    }

    fn errors(&self) -> &'static [Code] {
        if self.delete { &[] } else { &[Code::ValidationFailed, Code::Conflict] }
    }

    fn filter(&self) -> Option<&FilterSpec> {
        Some(&self.filter)
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
    use super::Batch;
    use crate::Result;
    use crate::filter::Filter;
    use crate::operation::OpSpec;
    use crate::operation::bind::{self, Slots};
    use crate::operation::write::Write;
    use crate::resource::{BoxFuture, Call, Executor, Outcome, Prepared, Table};
    use crate::store::{Plan, Rows};

    pub(super) struct Run {
        kind: &'static Batch,
        spec: &'static OpSpec,
        filter: Filter,
        what: What,
    }

    enum What {
        Write(Write),
        Remove(Prepared, Slots),
    }

    impl Run {
        pub(super) fn new(kind: &'static Batch, spec: &'static OpSpec, table: &Table) -> Result<Self> {
            let filter = Filter::from(&kind.filter);
            let what = if kind.delete {
                let mut slots = Slots::default();
                let filter = slots.filter(table.desc, filter.clone());
                What::Remove(table.prepare(spec.name, Plan::Delete { filter, pick: None })?, slots)
            } else {
                What::Write(Write::new(spec, table, filter.clone(), Vec::new(), kind.set)?)
            };
            Ok(Self { kind, spec, filter, what })
        }

        async fn count(&self, table: &Table, call: &Call<'_>) -> Result<usize> {
            bind::check(self.spec, table, call, self.kind.set)?;
            bind::check_operands(self.spec, &self.filter, &call.args)?;
            let rows = match &self.what {
                What::Remove(statement, slots) => {
                    let args = slots.values(call.cx, &call.args)?;
                    table.execute(call.cx, statement, args, Rows::count()).await?
                }
                What::Write(write) => {
                    let variant = write.of(table, call, None)?;
                    table.execute(call.cx, &variant.statement, variant.values(call, None)?, Rows::count()).await?
                }
            };
            Ok(rows.count)
        }
    }

    impl Executor for Run {
        fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
            Box::pin(async move {
                let count = self.count(table, &call).await?;
                Ok(if self.kind.void { Outcome::Nothing } else { Outcome::Count(count as u64) })
            })
        }
    }
}
