//! Stores that lie, each in one way: the comparison must find every one of them.

use std::sync::Arc;

use linchpin::entity::{EntityDesc, Kind};
use linchpin::filter::{Filter, Op};
use linchpin::resource::BoxFuture;
use linchpin::store::memory::Memory;
use linchpin::store::{Assign, AssignValue, Plan, Reply, Rows, Statement, Store, Transaction, Truncate};
use linchpin::{Code, Result, Value};

use super::differential::differences;

/// Changes a plan on its way in.
type Twist = fn(&'static EntityDesc, Plan) -> Plan;
/// Changes what is written, and what comes back.
type Bend = fn(&Statement, &mut Vec<Value>);
type Turn = fn(&Statement, Result<Rows>) -> Result<Rows>;

#[derive(Clone, Copy)]
enum Lie {
    Plan(Twist),
    Args(Bend),
    Rows(Turn),
}

struct Liar(Memory, Lie);

impl Store for Liar {
    fn name(&self) -> &'static str {
        "liar"
    }
    fn supports(&self, capability: &str) -> bool {
        self.0.supports(capability)
    }
    fn prepare(&self, entity: &'static EntityDesc, plan: Plan) -> Result<Arc<Statement>> {
        match self.1 {
            Lie::Plan(twist) => self.0.prepare(entity, twist(entity, plan)),
            _ => self.0.prepare(entity, plan),
        }
    }
    fn run<'a>(&'a self, statement: &'a Arc<Statement>, mut args: Vec<Value>, rows: Rows) -> Reply<'a> {
        if let Lie::Args(bend) = self.1 {
            bend(statement, &mut args);
        }
        let reply = self.0.run(statement, args, rows);
        let Lie::Rows(turn) = self.1 else { return reply };
        match reply {
            Reply::Ready(rows) => Reply::Ready(turn(statement, rows)),
            Reply::Later(rows) => Reply::Later(Box::pin(async move { turn(statement, rows.await) })),
        }
    }
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn Transaction>>> {
        self.0.begin()
    }
    fn install<'a>(&'a self, entities: &'a [&'static EntityDesc]) -> BoxFuture<'a, Result<()>> {
        self.0.install(entities)
    }
    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.0.ready()
    }
    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.close()
    }
}

/// Every condition that is `wanted` becomes what `change` makes of it.
fn conditions(filter: Filter, change: &impl Fn(Filter) -> Filter) -> Filter {
    match filter {
        Filter::All(list) => Filter::All(list.into_iter().map(|f| conditions(f, change)).collect()),
        Filter::Any(list) => Filter::Any(list.into_iter().map(|f| conditions(f, change)).collect()),
        one => change(one),
    }
}

fn in_filter(plan: Plan, change: impl Fn(Filter) -> Filter) -> Plan {
    match plan {
        Plan::Select { filter, order, after, limit } => Plan::Select { filter: conditions(filter, &change), order, after, limit },
        Plan::Exists { filter } => Plan::Exists { filter: conditions(filter, &change) },
        Plan::Update { filter, set, pick } => Plan::Update { filter: conditions(filter, &change), set, pick },
        Plan::Delete { filter, pick } => Plan::Delete { filter: conditions(filter, &change), pick },
        plan => plan,
    }
}

fn operator(plan: Plan, from: Op, to: Op) -> Plan {
    in_filter(plan, |one| match one {
        Filter::Cond { field, op, value } if op == from => Filter::cond(field, to, value),
        one => one,
    })
}

fn without(plan: Plan, gone: impl Fn(usize, Op) -> bool) -> Plan {
    in_filter(plan, |one| match one {
        Filter::Cond { field, op, .. } if gone(field, op) => Filter::TRUE,
        one => one,
    })
}

fn in_set(plan: Plan, change: impl Fn(Assign) -> Option<Assign>) -> Plan {
    match plan {
        Plan::Update { filter, set, pick } => Plan::Update { filter, set: set.into_iter().filter_map(change).collect(), pick },
        plan => plan,
    }
}

const LIES: &[(&str, Lie)] = &[
    ("gte as gt", Lie::Plan(|_, plan| operator(plan, Op::Gte, Op::Gt))),
    ("contains as equality", Lie::Plan(|_, plan| operator(plan, Op::Contains, Op::Eq))),
    ("a tenant is nobody's business", Lie::Plan(|desc, plan| without(plan, |f, _| desc.tenant.is_some_and(|t| t.field == f)))),
    ("nothing expires", Lie::Plan(|desc, plan| without(plan, |f, op| op == Op::Gt && desc.ttl.is_some_and(|t| t.field == f)))),
    (
        "what is deleted is there",
        Lie::Plan(|desc, plan| match plan {
            plan @ (Plan::Select { .. } | Plan::Exists { .. }) => {
                without(plan, |f, op| matches!(op, Op::Eq | Op::Ne) && desc.soft_delete.is_some_and(|s| s.field() == f))
            }
            plan => plan,
        }),
    ),
    (
        "ties in the other direction",
        Lie::Plan(|_, plan| match plan {
            Plan::Select { filter, mut order, after, limit } => {
                if let [_, tie] = &mut order[..] {
                    tie.desc = !tie.desc;
                }
                Plan::Select { filter, order, after, limit }
            }
            plan => plan,
        }),
    ),
    (
        "a page that starts over",
        Lie::Plan(|_, plan| match plan {
            Plan::Select { filter, order, limit, .. } => Plan::Select { filter, order, after: None, limit },
            plan => plan,
        }),
    ),
    (
        "a state that does not matter",
        Lie::Plan(|desc, plan| match plan {
            plan @ Plan::Update { .. } => {
                without(plan, |f, op| matches!(op, Op::Eq | Op::In) && matches!(desc.fields[f].kind, Kind::Enum(_)))
            }
            plan => plan,
        }),
    ),
    (
        "an addition that sets",
        Lie::Plan(|_, plan| {
            in_set(plan, |a| {
                Some(match a.value {
                    AssignValue::Add(source) => Assign { value: AssignValue::Set(source), ..a },
                    _ => a,
                })
            })
        }),
    ),
    ("a version that stays", Lie::Plan(|desc, plan| in_set(plan, |a| (desc.version.is_none_or(|v| v.field != a.field)).then_some(a)))),
    ("lists without a bound", Lie::Plan(|_, plan| without(plan, |_, op| op == Op::Shorter))),
    (
        "weeks that begin as days do",
        Lie::Plan(|_, plan| match plan {
            Plan::Aggregate { filter, mut groups, compute, limit } => {
                for group in groups.iter_mut().filter(|group| group.truncate == Some(Truncate::Week)) {
                    group.truncate = Some(Truncate::Day);
                }
                Plan::Aggregate { filter, groups, compute, limit }
            }
            plan => plan,
        }),
    ),
    (
        "the last comes first",
        Lie::Plan(|_, plan| match plan {
            Plan::Delete { filter, pick: Some(mut pick) } => {
                for order in &mut pick.order {
                    order.desc = !order.desc;
                }
                Plan::Delete { filter, pick: Some(pick) }
            }
            plan => plan,
        }),
    ),
    (
        "short doubles",
        Lie::Args(|statement, args| {
            if matches!(statement.plan, Plan::Insert) {
                for value in args {
                    if let Value::Float(n) = value {
                        *n = f64::from(*n as f32);
                    }
                }
            }
        }),
    ),
    (
        "an empty text is null",
        Lie::Args(|statement, args| {
            if matches!(statement.plan, Plan::Update { .. }) {
                for value in args.iter_mut().filter(|value| **value == Value::Text(String::new())) {
                    *value = Value::Null;
                }
            }
        }),
    ),
    (
        "a conflict that nobody hears of",
        Lie::Rows(|statement, rows| match rows {
            Err(error) if error.code() == Code::Conflict && matches!(statement.plan, Plan::Insert) => Ok(Rows::count()),
            rows => rows,
        }),
    ),
    (
        "everything is new",
        Lie::Rows(|_, rows| {
            rows.map(|mut rows| {
                rows.created = true;
                rows
            })
        }),
    ),
    (
        "one fewer",
        Lie::Rows(|statement, rows| {
            rows.map(|mut rows| {
                if matches!(statement.plan, Plan::Update { .. } | Plan::Delete { .. }) && rows.count > 1 {
                    rows.count -= 1;
                }
                rows
            })
        }),
    ),
    (
        "nothing is ever the last page",
        Lie::Rows(|statement, rows| {
            rows.map(|mut rows| {
                if matches!(statement.plan, Plan::Select { .. }) && rows.count == 2 {
                    rows.more = true;
                }
                rows
            })
        }),
    ),
];

#[test]
fn every_lie_is_found() {
    for (name, lie) in LIES {
        let outcome = differences(400, 7, &[], || (Arc::new(Liar(Memory::new(), *lie)) as Arc<dyn Store>, ()));
        let Err(found) = outcome else { panic!("{name} was not found") };
        // A sequence that was shrunk can be understood.
        let steps = found.lines().next().and_then(|line| line.rsplit(": ").next()?.split(' ').next()?.parse::<usize>().ok());
        assert!(steps.is_some_and(|n| (1..=12).contains(&n)), "{name}: {found}");
    }
}
