//! `lookup`: finds one record or a page by declared fields.

use super::{Answer, AssignSpec, Kind};
use crate::entity::SortDesc;
use crate::filter::FilterSpec;

/// Options of a lookup.
#[derive(Debug)]
pub struct Lookup {
    /// `field == source`, in declaration order; an omitted parameter drops its condition.
    pub fields: &'static [AssignSpec],
    /// A further filter.
    pub filter: Option<FilterSpec>,
    /// `returns = "many"`.
    pub many: bool,
    /// Omitted limit means the default limit.
    pub paginate: bool,
    /// Replaces the default sort.
    pub sort: Option<SortDesc>,
    /// Cap on `limit`, in records.
    pub limit: Option<u32>,
    /// Finds deleted records, and no others.
    pub deleted: bool,
}

#[doc(hidden)]
impl Lookup {
    /// A lookup of one record.
    pub const fn new(fields: &'static [AssignSpec]) -> Self {
        Self { fields, filter: None, many: false, paginate: false, sort: None, limit: None, deleted: false }
    }

    /// With a further filter.
    #[must_use]
    pub const fn filter(self, filter: FilterSpec) -> Self {
        Self { filter: Some(filter), ..self }
    }

    /// Answers a page.
    #[must_use]
    pub const fn many(self) -> Self {
        Self { many: true, ..self }
    }

    /// An omitted limit means the default limit.
    #[must_use]
    pub const fn paginate(self) -> Self {
        Self { paginate: true, ..self }
    }

    /// With a sort of its own.
    #[must_use]
    pub const fn sort(self, sort: SortDesc) -> Self {
        Self { sort: Some(sort), ..self }
    }

    /// Of deleted records.
    #[must_use]
    pub const fn deleted(self) -> Self {
        Self { deleted: true, ..self }
    }

    /// With a cap on the limit.
    #[must_use]
    pub const fn limit(self, limit: u32) -> Self {
        Self { limit: Some(limit), ..self }
    }
}

impl Kind for Lookup {
    fn name(&self) -> &'static str {
        "lookup"
    }

    fn matches(&self) -> &'static [AssignSpec] {
        self.fields
    }

    fn capability(&self) -> &'static str {
        "operation.lookup"
    }

    fn reads(&self) -> bool {
        true
    }

    fn deleted(&self) -> bool {
        self.deleted
    }

    fn returns(&self) -> Answer {
        if self.many { Answer::Page } else { Answer::RecordOrNull }
    }

    fn filter(&self) -> Option<&FilterSpec> {
        self.filter.as_ref()
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
    use super::Lookup;
    use crate::Result;
    use crate::Value;
    use crate::filter::{Filter, Source};
    use crate::operation::OpSpec;
    use crate::operation::bind::{self, Slots};
    use crate::resource::{BoxFuture, Call, Executor, Outcome, Prepared, Table};
    use crate::store::{Order, Plan};

    pub(super) struct Run {
        kind: &'static Lookup,
        spec: &'static OpSpec,
        filter: Filter,
        order: Vec<Order>,
        /// `returns = "one"` with every parameter given: the statement is ready.
        one: Option<(Prepared, Slots)>,
    }

    impl Run {
        pub(super) fn new(kind: &'static Lookup, spec: &'static OpSpec, table: &Table) -> Result<Self> {
            let mut filter = bind::equalities(kind.fields);
            if let Some(further) = &kind.filter {
                filter = filter.and(further.into());
            }
            let sort = kind.sort.unwrap_or(table.desc.sort);
            let order = table.order(sort.field, sort.desc);
            let one = if kind.many {
                None
            } else {
                let mut slots = Slots::default();
                let bound = slots.filter(table.desc, filter.clone());
                // A filter that pins a unique needs no order; the store sees one row at most.
                // Uniques hold of live records alone.
                let pinned = !kind.deleted && table.pins_one(kind.fields);
                let order = if pinned { Vec::new() } else { order.clone() };
                let limit = (!pinned).then_some(Source::Value(Value::Int(1)));
                let plan = Plan::Select { filter: bound, order, after: None, limit };
                Some((table.prepare(spec.name, plan)?, slots))
            };
            Ok(Self { kind, spec, filter, order, one })
        }

        async fn one(&self, table: &Table, call: &Call<'_>, statement: &Prepared, slots: &Slots) -> Result<Outcome> {
            if call.args.iter().all(Option::is_some) {
                let args = slots.values(call.cx, &call.args)?;
                return table.execute(call.cx, statement, args, table.rows(call.form)).await.map(Outcome::Record);
            }
            let filter = bind::resolve(self.filter.clone(), call.cx, &call.args)?;
            table.first(call.cx, self.spec.name, filter, self.order.clone(), call.form).await.map(Outcome::Record)
        }

        async fn many(&self, table: &Table, call: &Call<'_>) -> Result<Outcome> {
            let pagination = &table.desc.pagination;
            let limit = match call.page.limit {
                Some(limit) => Some(self.kind.limit.map_or(limit, |cap| limit.min(cap))),
                None if self.kind.paginate || !pagination.unbounded_lookup => {
                    Some(self.kind.limit.map_or(pagination.default_limit, |cap| cap.min(pagination.default_limit)))
                }
                None => self.kind.limit,
            };
            let filter = bind::resolve_page(self.filter.clone(), self.spec, call)?;
            table.page(call.cx, self.spec.name, filter, self.order.clone(), limit, call.page.cursor.as_deref(), call.form).await
        }
    }

    impl Executor for Run {
        fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
            Box::pin(async move {
                bind::check(self.spec, table, &call, &[])?;
                bind::check_operands(self.spec, &self.filter, &call.args)?;
                match &self.one {
                    Some((statement, slots)) => self.one(table, &call, statement, slots).await,
                    None => self.many(table, &call).await,
                }
            })
        }
    }
}
