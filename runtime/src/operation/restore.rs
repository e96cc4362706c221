//! `restore`: brings a deleted record back, in one statement.

use super::{Answer, AssignSpec, Kind};
use crate::Code;

/// Options of a restore.
#[derive(Debug)]
pub struct Restore {
    /// Which record: pins the primary key.
    pub matches: &'static [AssignSpec],
}

#[doc(hidden)]
impl Restore {
    /// Of one record.
    pub const fn new(matches: &'static [AssignSpec]) -> Self {
        Self { matches }
    }
}

impl Kind for Restore {
    fn name(&self) -> &'static str {
        "restore"
    }

    fn touches(&self, on: &crate::entity::EntityDesc) -> crate::entity::FieldSet {
        on.soft_delete.map_or(crate::entity::FieldSet::NONE, |mark| crate::entity::FieldSet::NONE.with(mark.field()))
    }

    fn capability(&self) -> &'static str {
        "atomic.transition"
    }

    fn returns(&self) -> Answer {
        Answer::Record
    }

    fn deleted(&self) -> bool {
        true
    }

    fn errors(&self) -> &'static [Code] {
        &[Code::NotFound, Code::Conflict]
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
    use super::Restore;
    use crate::entity::{DefaultDesc, SoftDelete};
    use crate::filter::{Filter, Source};
    use crate::operation::OpSpec;
    use crate::operation::guarded::{Guarded, Refusal};
    use crate::resource::{BoxFuture, Call, Executor, Outcome, Table};
    use crate::store::{Assign, AssignValue};
    use crate::{Error, Result, Value};

    pub(super) struct Run {
        guarded: Guarded,
    }

    impl Run {
        pub(super) fn new(kind: &'static Restore, spec: &'static OpSpec, table: &Table) -> Result<Self> {
            let Some(mark) = table.desc.soft_delete else {
                return Err(Error::internal(format!("`{}` restores records of `{}`, which are not kept", spec.name, table.desc.name)));
            };
            // What a record is before anybody has changed it; the compiler has seen to it that there is such a value.
            let value = match (mark, table.desc.fields[mark.field()].default) {
                (SoftDelete::Is(..), DefaultDesc::Literal(value)) => value(),
                _ => Value::Null,
            };
            let clear = Assign { field: mark.field(), value: AssignValue::Set(Source::Value(value)) };
            // Which records are deleted is the guard's to say.
            Ok(Self { guarded: Guarded::new(spec, table, kind.matches, Filter::TRUE, vec![clear], &[])? })
        }
    }

    impl Executor for Run {
        fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
            // A record that is still deleted could have been restored: another call came in between.
            Box::pin(async move { self.guarded.run(table, &call, |_| Refusal::Retry).await.map(Outcome::Record) })
        }
    }
}
