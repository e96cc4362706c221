//! `batch`: changes or removes every visible record that matches, in one statement; or claims the first of them for code.

use super::spec::written;
use super::{Answer, AssignSpec, Kind};
use crate::Code;
use crate::entity::SortDesc;
use crate::filter::{FilterSpec, SourceSpec};

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
    /// Changes so many at most and answers them: of many callers, each gets records of its own.
    pub claim: Option<u32>,
    /// Which of them come first, when not by the entity's default.
    pub sort: Option<SortDesc>,
}

#[doc(hidden)]
impl Batch {
    /// Writes `set` to what matches.
    pub const fn update(filter: FilterSpec, set: &'static [AssignSpec]) -> Self {
        Self { filter, set, delete: false, void: false, atomic: false, claim: None, sort: None }
    }

    /// Removes what matches.
    pub const fn delete(filter: FilterSpec) -> Self {
        Self { filter, set: &[], delete: true, void: false, atomic: false, claim: None, sort: None }
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

    /// So many records at most, which are answered.
    #[must_use]
    pub const fn claim(self, limit: u32) -> Self {
        Self { claim: Some(limit), ..self }
    }

    /// In an order of its own.
    #[must_use]
    pub const fn sort(self, sort: SortDesc) -> Self {
        Self { sort: Some(sort), ..self }
    }
}

impl Kind for Batch {
    fn name(&self) -> &'static str {
        "batch"
    }

    fn touches(&self, _: &crate::entity::EntityDesc) -> crate::entity::FieldSet {
        if self.delete { crate::entity::FieldSet::ALL } else { self.set.iter().map(|assign| assign.field).collect() }
    }

    fn capability(&self) -> &'static str {
        if self.atomic { "batch.atomic" } else { "batch.write" }
    }

    fn returns(&self) -> Answer {
        match (self.claim, self.void) {
            (Some(_), _) => Answer::List,
            (None, true) => Answer::Nothing,
            (None, false) => Answer::Count,
        }
    }

    fn errors(&self) -> &'static [Code] {
        if self.delete { &[] } else { &[Code::ValidationFailed, Code::Conflict] }
    }

    fn filter(&self) -> Option<&FilterSpec> {
        Some(&self.filter)
    }

    fn writes(&self, field: usize) -> Option<&'static SourceSpec> {
        written(self.set, field)
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
    use std::cmp::Ordering;

    use super::Batch;
    use crate::filter::Filter;
    use crate::filter::eval::compare;
    use crate::operation::OpSpec;
    use crate::operation::bind;
    use crate::operation::write::Write;
    use crate::resource::{BoxFuture, Call, Executor, Outcome, Table};
    use crate::store::{Order, Pick, Row, Rows};
    use crate::{Result, Value};

    pub(super) struct Run {
        kind: &'static Batch,
        spec: &'static OpSpec,
        filter: Filter,
        /// Of records that are answered.
        order: Vec<Order>,
        write: Write,
    }

    impl Run {
        pub(super) fn new(kind: &'static Batch, spec: &'static OpSpec, table: &Table) -> Result<Self> {
            let filter = Filter::from(&kind.filter);
            let order = table.order(kind.sort.as_ref().map_or(table.desc.sort, std::slice::from_ref));
            let write = if kind.delete {
                Write::remove(spec, table, filter.clone())?
            } else {
                let pick = kind.claim.map(|limit| Pick::free(order.clone(), limit));
                Write::many(spec, table, filter.clone(), kind.set, pick)?
            };
            Ok(Self { kind, spec, filter, order, write })
        }

        async fn change(&self, table: &Table, call: &Call<'_>) -> Result<Rows> {
            bind::check(self.spec, table, call, self.kind.set)?;
            bind::check_operands(self.spec, &self.filter, &call.args)?;
            let variant = self.write.of(table, call, None)?;
            let counts = self.kind.claim.is_none();
            // Then what would be written to is counted by the statement.
            let idle = counts && !self.kind.delete && self.write.writes_nothing(call);
            let rows = match (counts, idle) {
                (false, _) => table.rows(call.form),
                (true, true) => Rows::values(1),
                (true, false) => Rows::count(),
            };
            let mut rows = table.execute(call.cx, &variant.statement, variant.values(call, None)?, rows).await?;
            if let (true, Some(Value::Int(number))) = (idle, rows.records.first().and_then(|row| row.first())) {
                rows.count = usize::try_from(*number).unwrap_or_default();
            }
            Ok(rows)
        }
    }

    impl Run {
        fn compare(&self, a: &[Value], b: &[Value]) -> Ordering {
            let one = |order: &Order| {
                let by_value = compare(a.value(order.field), b.value(order.field));
                if order.desc { by_value.reverse() } else { by_value }
            };
            self.order.iter().map(one).find(|by| by.is_ne()).unwrap_or(Ordering::Equal)
        }
    }

    impl Executor for Run {
        fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
            Box::pin(async move {
                let mut rows = self.change(table, &call).await?;
                // What was chosen in an order comes back in none.
                rows.records.sort_by(|a, b| self.compare(a, b));
                Ok(match (self.kind.claim, self.kind.void) {
                    (Some(_), _) => Outcome::List(rows),
                    (None, true) => Outcome::Nothing,
                    (None, false) => Outcome::Count(rows.count as u64),
                })
            })
        }
    }
}
