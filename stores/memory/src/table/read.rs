//! The reads of a table.

use std::ops::Bound;

use super::{Data, Key, Record, Table, fixed};
use crate::others::{LockedTable, Tables};
use linchpin_core::filter::{Filter, Op, Operand};
use linchpin_core::store::evaluate::Sight;
use linchpin_core::store::{Pick, Plan, Rows};
use linchpin_core::{Result, Value};

impl Table {
    /// Runs a plan that reads.
    pub(crate) fn run(
        &self,
        data: &Data,
        others: &[LockedTable<'_>],
        plan: &Plan,
        args: &[Value],
        rows: &mut Rows,
    ) -> Result<()> {
        let all = Filter::TRUE;
        let filter = plan.filter().unwrap_or(&all);
        let sight = Sight {
            entity: self.entity,
            records: self.candidates(data, filter, args),
            others: &self.tables(data, others),
            args,
        };
        sight.read(plan, rows)
    }

    /// The matching records, or the first ones in an order.
    pub(super) fn picked(
        &self,
        data: &Data,
        others: &[LockedTable<'_>],
        filter: &Filter,
        pick: Option<&Pick>,
        args: &[Value],
    ) -> Vec<Record> {
        let sight = Sight {
            entity: self.entity,
            records: self.candidates(data, filter, args),
            others: &self.tables(data, others),
            args,
        };
        sight.picked(filter, pick).into_iter().cloned().collect()
    }

    /// The tables that a filter can read.
    pub(super) fn tables<'a>(&self, data: &'a Data, others: &'a [LockedTable<'a>]) -> Tables<'a> {
        Tables {
            own: self.entity,
            data,
            others,
        }
    }

    /// The records that can match: one if the filter fixes the primary key, else all.
    fn candidates<'a>(
        &self,
        data: &'a Data,
        filter: &Filter,
        args: &[Value],
    ) -> impl Iterator<Item = &'a Record> + Clone + use<'a> {
        let range = match fixed_key(filter, self.entity.primary, args) {
            Some(key) => (
                Bound::Included(Key(key.clone())),
                Bound::Included(Key(key.clone())),
            ),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        data.records.range(range).map(|(_, record)| record)
    }
}

/// The key that a filter requires, if any.
fn fixed_key<'a>(filter: &'a Filter, primary: usize, args: &'a [Value]) -> Option<&'a Value> {
    match filter {
        Filter::All(list) => list.iter().find_map(|f| fixed_key(f, primary, args)),
        Filter::Cond {
            field,
            op: Op::Eq,
            value: Operand::One(source),
        } if *field == primary => fixed(source, args),
        Filter::Any(_)
        | Filter::Cond { .. }
        | Filter::Item { .. }
        | Filter::Linked(_)
        | Filter::Given(_) => None,
    }
}
