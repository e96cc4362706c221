//! Conditions on records of other tables; the statement locks all of these tables.

use std::sync::Arc;

use parking_lot::RwLockReadGuard;

use super::table::{Data, Record, Table};
use linchpin_core::entity::EntityDesc;
use linchpin_core::filter::eval::{self, Others, compare};
use linchpin_core::filter::{Filter, Linked};
use linchpin_core::store::Plan;
use linchpin_core::store::evaluate::Key;
use linchpin_core::{Value, ValueRef};

/// Another table, locked for reading.
pub(super) struct LockedTable<'a> {
    entity: &'static EntityDesc,
    data: RwLockReadGuard<'a, Data>,
}

impl<'a> LockedTable<'a> {
    pub(super) fn of(table: &'a Arc<Table>) -> Self {
        Self {
            entity: table.entity(),
            data: table.read(),
        }
    }
}

/// The tables that conditions can read.
pub(super) struct Tables<'a> {
    /// The entity of the statement.
    pub(super) own: &'static EntityDesc,
    pub(super) data: &'a Data,
    pub(super) others: &'a [LockedTable<'a>],
}

impl Tables<'_> {
    pub(super) fn matches(&self, filter: &Filter, record: &Record, args: &[Value]) -> bool {
        eval::matches_among(filter, &record[..], args, self)
    }

    fn data(&self, entity: &EntityDesc) -> Option<&Data> {
        if entity.storage_name == self.own.storage_name {
            return Some(self.data);
        }
        self.others
            .iter()
            .find(|table| table.entity.storage_name == entity.storage_name)
            .map(|table| &*table.data)
    }
}

impl Others for Tables<'_> {
    fn any(&self, linked: &Linked, value: ValueRef<'_>, args: &[Value]) -> bool {
        let Some(data) = self.data(linked.of) else {
            return false;
        };
        let record_matches = |record: &Record| self.matches(&linked.filter, record, args);
        if linked.at == linked.of.primary {
            return data
                .records
                .get(&Key(value.to_owned()))
                .is_some_and(record_matches);
        }
        data.records.values().any(|record| {
            compare(record[linked.at].as_ref(), value).is_eq() && record_matches(record)
        })
    }
}

/// The other entities in the conditions of a plan, in the order of their table names. Every
/// statement locks tables in this order, which prevents deadlocks.
pub(super) fn other_entities(entity: &EntityDesc, plan: &Plan) -> Vec<&'static EntityDesc> {
    fn add_linked(filter: &Filter, found: &mut Vec<&'static EntityDesc>) {
        match filter {
            Filter::All(list) | Filter::Any(list) => list.iter().for_each(|f| add_linked(f, found)),
            Filter::Linked(linked) => {
                found.push(linked.of);
                add_linked(&linked.filter, found);
            }
            Filter::Cond { .. } | Filter::Item { .. } | Filter::Given(_) => {}
        }
    }
    let mut found = Vec::new();
    if let Some(filter) = plan.filter() {
        add_linked(filter, &mut found);
    }
    found.retain(|other| other.storage_name != entity.storage_name);
    found.sort_by_key(|other| other.storage_name);
    found.dedup_by_key(|other| other.storage_name);
    found
}
