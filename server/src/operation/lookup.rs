//! The executor of `lookup`.

use super::Lookup;
use crate::Result;
use crate::Value;
use crate::entity::page::Refused;
use crate::filter::{Filter, Source};
use crate::operation::bind::{self, Slots};
use crate::operation::{NamedSort, OpSpec};
use crate::resource::{BoxFuture, Call, Executor, Outcome, PageRequest, Prepared, Table, refused};
use crate::store::{Order, Plan};

/// Plans an operation of this kind for one mounted entity.
///
/// # Errors
/// If the store refuses a statement of the operation.
pub(super) fn plan(
    kind: &'static Lookup,
    spec: &'static OpSpec,
    table: &Table,
) -> Result<Box<dyn Executor>> {
    Ok(Box::new(Run::new(kind, spec, table)?))
}

pub(super) struct Run {
    kind: &'static Lookup,
    spec: &'static OpSpec,
    filter: Filter,
    order: Vec<Order>,
    /// The order of each named sort: its fields and their directions.
    orders: Vec<Vec<Order>>,
    /// The prepared statement of `returns = "one"`, for calls that give every parameter.
    one: Option<(Prepared, Slots)>,
}

impl Run {
    pub(super) fn new(kind: &'static Lookup, spec: &'static OpSpec, table: &Table) -> Result<Self> {
        let mut filter = bind::equalities(kind.fields);
        if let Some(further) = &kind.filter {
            filter = filter.and(further.into());
        }
        let order = table.order(
            kind.sort
                .as_ref()
                .map_or(table.desc.sort, std::slice::from_ref),
        );
        let orders = kind
            .sorts
            .iter()
            .map(|sort| table.order(sort.keys))
            .collect();
        let one = if kind.many {
            None
        } else {
            let mut slots = Slots::default();
            let bound = slots.filter(table.desc, filter.clone());
            // At most one row matches a filter on a unique constraint, so it needs no order. Unique
            // constraints apply only to records that are not deleted.
            let matches_one = !kind.deleted && table.pins_one(kind.fields);
            let order = if matches_one {
                Vec::new()
            } else {
                order.clone()
            };
            let limit = (!matches_one).then_some(Source::Value(Value::Int(1)));
            let plan = Plan::Select {
                filter: bound,
                order,
                after: None,
                limit,
            };
            Some((table.prepare(spec.name, plan)?, slots))
        };
        Ok(Self {
            kind,
            spec,
            filter,
            order,
            orders,
            one,
        })
    }

    async fn one(
        &self,
        table: &Table,
        call: &Call<'_>,
        statement: &Prepared,
        slots: &Slots,
    ) -> Result<Outcome> {
        if call.args.iter().all(Option::is_some) {
            let args = slots.values(call.cx, &call.args)?;
            return table
                .execute(call.cx, statement, args, table.rows(call.form))
                .await
                .map(Outcome::Record);
        }
        let filter = bind::resolve(self.filter.clone(), call.cx, &call.args)?;
        table
            .first(
                call.cx,
                self.spec.name,
                filter,
                self.order.clone(),
                call.form,
            )
            .await
            .map(Outcome::Record)
    }

    async fn many(&self, table: &Table, call: &Call<'_>) -> Result<Outcome> {
        let (kind, pagination) = (self.kind, &table.desc.pagination);
        let mut page_args = call.page.clone();
        let sort = if kind.sorts.is_empty() {
            None
        } else {
            Some(chosen(kind.sorts, page_args.sort.take().as_deref()).map_err(refused)?)
        };
        if let Some(cap) = kind.limit {
            page_args.limit = page_args.limit.map(|limit| limit.min(cap));
        }
        let omitted = if kind.paginate || !pagination.unbounded_lookup {
            Some(kind.limit.map_or(pagination.default_limit, |cap| {
                cap.min(pagination.default_limit)
            }))
        } else {
            kind.limit
        };
        let page = kind
            .paging()
            .within(pagination.max_limit)
            .resolve(&page_args, omitted)
            .map_err(refused)?;
        let filter = bind::resolve_page(self.filter.clone(), self.spec, call)?;
        let (sort, order) = match sort {
            Some(at) => (Some(kind.sorts[at].name), self.orders[at].clone()),
            None => (None, self.order.clone()),
        };
        table
            .page(
                call.cx,
                PageRequest {
                    route: self.spec.name,
                    sort,
                    filter,
                    order,
                    page,
                },
                call.form,
            )
            .await
    }
}

/// The position of the order that a call chooses.
fn chosen(sorts: &[NamedSort], name: Option<&str>) -> std::result::Result<usize, Refused> {
    let Some(name) = name else { return Ok(0) };
    sorts
        .iter()
        .position(|sort| sort.name == name)
        .ok_or_else(|| ("sort", "enum", NamedSort::one_of(sorts)))
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
