//! The executor of `batch`.

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

/// Plans an operation of this kind for one mounted entity.
///
/// # Errors
/// If the store refuses a statement of the operation.
pub(super) fn plan(
    kind: &'static Batch,
    spec: &'static OpSpec,
    table: &Table,
) -> Result<Box<dyn Executor>> {
    Ok(Box::new(Run::new(kind, spec, table)?))
}

pub(super) struct Run {
    kind: &'static Batch,
    spec: &'static OpSpec,
    filter: Filter,
    /// The order of returned records.
    order: Vec<Order>,
    write: Write,
}

impl Run {
    pub(super) fn new(kind: &'static Batch, spec: &'static OpSpec, table: &Table) -> Result<Self> {
        let filter = Filter::from(&kind.filter);
        let order = table.order(
            kind.sort
                .as_ref()
                .map_or(table.desc.sort, std::slice::from_ref),
        );
        let write = if kind.delete {
            Write::remove(spec, table, filter.clone())?
        } else {
            let pick = kind.claim.map(|limit| Pick::free(order.clone(), limit));
            Write::many(spec, table, filter.clone(), kind.set, pick)?
        };
        Ok(Self {
            kind,
            spec,
            filter,
            order,
            write,
        })
    }

    async fn change(&self, table: &Table, call: &Call<'_>) -> Result<Rows> {
        bind::check(self.spec, table, call, self.kind.set)?;
        bind::check_operands(self.spec, &self.filter, &call.args)?;
        let variant = self.write.of(table, call, None)?;
        let returns_count = self.kind.claim.is_none();
        // If the call writes no value, the statement only counts the matching records.
        let writes_nothing = returns_count && !self.kind.delete && self.write.writes_nothing(call);
        let rows = match (returns_count, writes_nothing) {
            (false, _) => table.rows(call.form),
            (true, true) => Rows::values(1),
            (true, false) => Rows::count(),
        };
        let mut rows = table
            .execute(
                call.cx,
                &variant.statement,
                variant.values(call, None)?,
                rows,
            )
            .await?;
        if let (true, Some(Value::Int(number))) = (
            writes_nothing,
            rows.records.first().and_then(|row| row.first()),
        ) {
            rows.count = usize::try_from(*number).unwrap_or_default();
        }
        Ok(rows)
    }
}

impl Run {
    fn compare(&self, a: &[Value], b: &[Value]) -> Ordering {
        let one = |order: &Order| {
            let by_value = compare(a.value(order.field), b.value(order.field));
            if order.desc {
                by_value.reverse()
            } else {
                by_value
            }
        };
        self.order
            .iter()
            .map(one)
            .find(|by| by.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

impl Executor for Run {
    fn run<'a>(&'a self, table: &'a Table, call: Call<'a>) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move {
            let mut rows = self.change(table, &call).await?;
            // The store returns the chosen records in an arbitrary order.
            rows.records.sort_by(|a, b| self.compare(a, b));
            Ok(match (self.kind.claim, self.kind.void) {
                (Some(_), _) => Outcome::List(rows),
                (None, true) => Outcome::Nothing,
                (None, false) => Outcome::Count(rows.count as u64),
            })
        })
    }
}
