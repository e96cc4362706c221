//! `exists`: whether a record with these values is visible.

use super::{Answer, AssignSpec, Kind};

/// Options of an exists.
#[derive(Debug)]
pub struct Exists {
    /// `field == source`, all required.
    pub fields: &'static [AssignSpec],
    /// Further equality checks.
    pub check: &'static [AssignSpec],
}

#[doc(hidden)]
impl Exists {
    /// An exists over these fields.
    pub const fn new(fields: &'static [AssignSpec]) -> Self {
        Self { fields, check: &[] }
    }

    /// With further equality checks.
    #[must_use]
    pub const fn check(self, check: &'static [AssignSpec]) -> Self {
        Self { check, ..self }
    }
}

impl Kind for Exists {
    fn name(&self) -> &'static str {
        "exists"
    }

    fn matches(&self) -> &'static [AssignSpec] {
        self.fields
    }

    fn capability(&self) -> &'static str {
        "operation.exists"
    }

    fn reads(&self) -> bool {
        true
    }

    fn returns(&self) -> Answer {
        Answer::Exists
    }

    #[cfg(feature = "server")]
    fn plan(
        &'static self,
        spec: &'static super::OpSpec,
        table: &crate::resource::Table,
    ) -> crate::Result<Box<dyn crate::resource::Executor>> {
        use crate::operation::bind::{Slots, equalities};
        let mut slots = Slots::default();
        let filter = slots.filter(table.desc, equalities(self.fields).and(equalities(self.check)));
        let statement = table.prepare(spec.name, crate::store::Plan::Exists { filter })?;
        Ok(Box::new(run::Run { spec, statement, slots }))
    }
}

#[cfg(feature = "server")]
mod run {
    use crate::Result;
    use crate::operation::OpSpec;
    use crate::operation::bind::{self, Slots};
    use crate::resource::{BoxFuture, Call, Executor, Outcome, Prepared, Table};
    use crate::store::Rows;

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
                let rows = table.execute(call.cx, &self.statement, args, Rows::count()).await?;
                Ok(Outcome::Boolean(rows.count > 0))
            })
        }
    }
}
