//! Changes of plans, for faults.

use linchpin::entity::EntityDesc;
use linchpin::event::Entry;
use linchpin::filter::{Filter, Op};
use linchpin::http::Claims;
use linchpin::store::{Assign, Plan, Statement};

/// Replaces every condition of a filter by the result of `change`.
fn conditions(filter: Filter, change: &impl Fn(Filter) -> Filter) -> Filter {
    match filter {
        Filter::All(list) => Filter::All(list.into_iter().map(|f| conditions(f, change)).collect()),
        Filter::Any(list) => Filter::Any(list.into_iter().map(|f| conditions(f, change)).collect()),
        one => change(one),
    }
}

pub fn in_filter(plan: Plan, change: impl Fn(Filter) -> Filter) -> Plan {
    match plan {
        Plan::Select {
            filter,
            order,
            after,
            limit,
        } => Plan::Select {
            filter: conditions(filter, &change),
            order,
            after,
            limit,
        },
        Plan::Exists { filter } => Plan::Exists {
            filter: conditions(filter, &change),
        },
        Plan::Update { filter, set, pick } => Plan::Update {
            filter: conditions(filter, &change),
            set,
            pick,
        },
        Plan::Delete { filter, pick } => Plan::Delete {
            filter: conditions(filter, &change),
            pick,
        },
        plan => plan,
    }
}

pub fn in_related(plan: Plan, change: impl Fn(Filter) -> Filter) -> Plan {
    match plan {
        Plan::Related {
            filter,
            field,
            values,
            order,
            limit,
        } => Plan::Related {
            filter: conditions(filter, &change),
            field,
            values,
            order,
            limit,
        },
        plan => plan,
    }
}

/// Whether the statement reads or writes claims of idempotency keys.
pub fn is_claim(statement: &Statement) -> bool {
    statement.entity.name == Claims::entity().name
}

/// Whether the event is the marker after the last event of a sequence.
pub fn is_end(entry: &Entry) -> bool {
    entry.text().contains("end-")
        || entry
            .event
            .record_id
            .as_ref()
            .is_some_and(|key| key.contains("end-"))
}

pub fn operator(plan: Plan, from: Op, to: Op) -> Plan {
    in_filter(plan, |one| match one {
        Filter::Cond { field, op, value } if op == from => Filter::cond(field, to, value),
        one => one,
    })
}

pub fn without(plan: Plan, removed: impl Fn(usize, Op) -> bool) -> Plan {
    in_filter(plan, |one| match one {
        Filter::Cond { field, op, .. } if removed(field, op) => Filter::TRUE,
        one => one,
    })
}

pub fn in_set(plan: Plan, change: impl Fn(Assign) -> Option<Assign>) -> Plan {
    match plan {
        Plan::Update { filter, set, pick } => Plan::Update {
            filter,
            set: set.into_iter().filter_map(change).collect(),
            pick,
        },
        plan => plan,
    }
}

/// Position of a field in the fixture, by entity and wire name.
pub fn field(desc: &EntityDesc, entity: &str, wire: &str) -> Option<usize> {
    (desc.name == entity)
        .then(|| desc.field_by_wire(wire))
        .flatten()
}
