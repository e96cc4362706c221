//! Stores that lie, each in one way: the comparison must find every one of them.

use std::sync::Arc;

use futures_util::FutureExt;
use linchpin::entity::{EntityDesc, Kind};
use linchpin::event::Entry;
use linchpin::filter::{Filter, Op, Source};
use linchpin::http::Claims;
use linchpin::resource::BoxFuture;
use linchpin::store::memory::Memory;
use linchpin::store::{After, Assign, AssignValue, Order, Outbox, Plan, Reply, Rows, Statement, Store, Transaction, Truncate};
use linchpin::{Code, Result, Timestamp, Value};

use super::differential::differences;

/// Changes a plan on its way in.
type Twist = fn(&'static EntityDesc, Plan) -> Plan;
/// Changes what is written, and what comes back.
type Bend = fn(&Statement, &mut Vec<Value>);
type Turn = fn(&Statement, Result<Rows>) -> Result<Rows>;

/// Changes what those who listen are told.
type Whisper = fn(&mut Vec<(i64, Entry)>);

#[derive(Clone, Copy)]
enum Lie {
    Plan(Twist),
    Args(Bend),
    Rows(Turn),
    /// What is undone is there all the same.
    Undone,
    Events(Whisper),
}

impl Lie {
    fn bend(self, statement: &Statement, args: &mut Vec<Value>) {
        if let Self::Args(bend) = self {
            bend(statement, args);
        }
    }

    fn turn(self, statement: &Statement, rows: Result<Rows>) -> Result<Rows> {
        if let Self::Rows(turn) = self { turn(statement, rows) } else { rows }
    }
}

struct Liar(Memory, Lie);

impl Store for Liar {
    // Functions of the user's are those of the store it is in truth.
    fn name(&self) -> &'static str {
        "memory"
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
        self.1.bend(statement, &mut args);
        let lie = self.1;
        match self.0.run(statement, args, rows) {
            Reply::Ready(rows) => Reply::Ready(lie.turn(statement, rows)),
            Reply::Later(rows) => Reply::Later(Box::pin(async move { lie.turn(statement, rows.await) })),
        }
    }
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn Transaction>>> {
        Box::pin(async move { Ok(Box::new(Half(Some(self.0.begin().await?), self.1)) as Box<dyn Transaction>) })
    }
    fn outbox(&self) -> Option<&dyn Outbox> {
        Some(self)
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

/// A transaction of a liar.
struct Half(Option<Box<dyn Transaction>>, Lie);

impl Transaction for Half {
    fn run<'a>(&'a mut self, statement: &'a Arc<Statement>, mut args: Vec<Value>, rows: Rows) -> BoxFuture<'a, Result<Rows>> {
        self.1.bend(statement, &mut args);
        let lie = self.1;
        let open = self.0.as_mut().expect("it has not ended");
        Box::pin(async move { lie.turn(statement, open.run(statement, args, rows).await) })
    }
    fn commit(mut self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        self.0.take().expect("it has not ended").commit()
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        if let (Some(open), Lie::Undone) = (self.0.take(), self.1) {
            open.commit().now_or_never().expect("memory does not wait").expect("committed");
        }
    }
}

impl Outbox for Liar {
    fn open<'a>(&'a self, consumers: &'a [&'a str]) -> BoxFuture<'a, Result<()>> {
        self.0.outbox().expect("memory has one").open(consumers)
    }
    fn knows<'a>(&'a self, consumer: &'a str) -> BoxFuture<'a, Result<bool>> {
        self.0.outbox().expect("memory has one").knows(consumer)
    }
    fn waiting<'a>(&'a self, consumer: &'a str, given: &'a [i64], limit: usize) -> BoxFuture<'a, Result<Vec<(i64, Entry)>>> {
        Box::pin(async move {
            let mut waiting = self.0.outbox().expect("memory has one").waiting(consumer, given, limit).await?;
            if let Lie::Events(whisper) = self.1 {
                whisper(&mut waiting);
            }
            Ok(waiting)
        })
    }
    fn settle<'a>(&'a self, consumer: &'a str, given: &'a [i64]) -> BoxFuture<'a, Result<()>> {
        self.0.outbox().expect("memory has one").settle(consumer, given)
    }
    fn prune<'a>(&'a self, consumers: &'a [&'a str], before: Timestamp, limit: usize) -> BoxFuture<'a, Result<usize>> {
        self.0.outbox().expect("memory has one").prune(consumers, before, limit)
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

fn in_related(plan: Plan, change: impl Fn(Filter) -> Filter) -> Plan {
    match plan {
        Plan::Related { filter, field, values, order, limit } => {
            Plan::Related { filter: conditions(filter, &change), field, values, order, limit }
        }
        plan => plan,
    }
}

/// Whether it is about calls under an idempotency key.
fn is_claim(statement: &Statement) -> bool {
    statement.entity.name == Claims::entity().name
}

/// Whether it is the one behind the last of a sequence.
fn is_end(entry: &Entry) -> bool {
    entry.event.contains("end-") || entry.record.as_ref().is_some_and(|key| key.contains("end-"))
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

/// Position of a field of the fixture's, by entity and wire name.
fn field(desc: &EntityDesc, entity: &str, wire: &str) -> Option<usize> {
    (desc.name == entity).then(|| desc.field_by_wire(wire)).flatten()
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
        "gates that are open",
        Lie::Plan(|_, plan| {
            in_filter(plan, |one| match one {
                Filter::Linked(_) => Filter::TRUE,
                one => one,
            })
        }),
    ),
    (
        "nobody is somebody",
        Lie::Plan(|_, plan| {
            in_filter(plan, |one| match one {
                Filter::Given(_) => Filter::TRUE,
                one => one,
            })
        }),
    ),
    (
        "ties in the other direction",
        Lie::Plan(|_, plan| match plan {
            Plan::Select { filter, mut order, after, limit } => {
                if let [_, .., tie] = &mut order[..] {
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
    (
        "a number of others that stays",
        Lie::Plan(|desc, plan| in_set(plan, |a| (field(desc, "Person", "openMemos") != Some(a.field)).then_some(a))),
    ),
    (
        "a number that is never counted at first",
        Lie::Plan(|desc, plan| match plan {
            Plan::Aggregate { compute, groups, limit, .. } if desc.name == "Project" => {
                Plan::Aggregate { filter: Filter::Any(Vec::new()), groups, compute, limit }
            }
            plan => plan,
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
        "keys that name nobody",
        Lie::Rows(|statement, rows| {
            rows.map(|mut rows| {
                if matches!(statement.plan, Plan::Hold { .. }) {
                    rows.count = 1;
                }
                rows
            })
        }),
    ),
    (
        "a restriction that nobody asks about",
        Lie::Rows(|statement, rows| {
            rows.map(|mut rows| {
                if statement.entity.name == "Desk" && matches!(statement.plan, Plan::Exists { .. }) {
                    rows.count = 0;
                }
                rows
            })
        }),
    ),
    (
        "a key that stays behind",
        Lie::Plan(|desc, plan| {
            let key = field(desc, "Memo", "authorId");
            in_set(plan, |a| {
                let forgets = Some(a.field) == key && matches!(a.value, AssignValue::Set(Source::Value(Value::Null)));
                (!forgets).then_some(a)
            })
        }),
    ),
    (
        "children that stay behind",
        Lie::Plan(|desc, plan| match plan {
            Plan::Delete { filter, pick: pick @ Some(_) } if desc.name == "Node" => {
                Plan::Delete { filter: filter.and(Filter::Any(Vec::new())), pick }
            }
            plan => plan,
        }),
    ),
    (
        "included in the other direction",
        Lie::Plan(|_, plan| match plan {
            Plan::Related { filter, field, values, mut order, limit } => {
                for key in &mut order {
                    key.desc = !key.desc;
                }
                Plan::Related { filter, field, values, order, limit }
            }
            plan => plan,
        }),
    ),
    (
        "included although it is deleted",
        Lie::Plan(|desc, plan| match plan {
            plan @ Plan::Related { .. } => in_related(plan, |one| match one {
                Filter::Cond { field, .. } if desc.soft_delete.is_some_and(|s| s.field() == field) => Filter::TRUE,
                one => one,
            }),
            plan => plan,
        }),
    ),
    (
        "a call under a key that is a new one",
        Lie::Rows(|statement, rows| match rows {
            Err(_) if is_claim(statement) && matches!(statement.plan, Plan::Insert) => Ok(Rows::count()),
            rows => rows,
        }),
    ),
    (
        "an answer that nobody keeps",
        Lie::Plan(|desc, plan| {
            let status = field(desc, Claims::entity().name, "status");
            in_set(plan, |a| (Some(a.field) != status).then_some(a))
        }),
    ),
    ("others' papers are one's own", Lie::Plan(|desc, plan| without(plan, |f, _| field(desc, "Paper", "authorId") == Some(f)))),
    ("one container is all of them", Lie::Plan(|desc, plan| without(plan, |f, _| field(desc, "Thread", "containerId") == Some(f)))),
    (
        "a function that sees everybody's",
        Lie::Plan(|desc, plan| match plan {
            plan @ Plan::Select { after: None, .. } => without(plan, |f, _| field(desc, "Parcel", "tenantId") == Some(f)),
            plan => plan,
        }),
    ),
    (
        "back, and still deleted",
        Lie::Plan(|desc, plan| {
            let mark = field(desc, "Project", "deletedAt");
            in_set(plan, |a| (Some(a.field) != mark || !matches!(a.value, AssignValue::Set(Source::Value(Value::Null)))).then_some(a))
        }),
    ),
    (
        "there already, and written once more",
        Lie::Plan(|desc, plan| match plan {
            plan @ Plan::Update { .. } => without(plan, |f, op| op == Op::In && field(desc, "Project", "stage") == Some(f)),
            plan => plan,
        }),
    ),
    (
        "more work than was asked for",
        Lie::Plan(|desc, plan| match plan {
            Plan::Update { filter, set, pick: Some(mut pick) } if desc.name == "Job" => {
                pick.limit += 1;
                Plan::Update { filter, set, pick: Some(pick) }
            }
            plan => plan,
        }),
    ),
    (
        "a choice by what is not there",
        Lie::Rows(|statement, rows| {
            rows.map(|mut rows| {
                if let (Plan::Lock { .. }, Some(views)) = (&statement.plan, field(statement.entity, "Sample", "views")) {
                    rows.records.iter_mut().for_each(|record| record[views] = Value::Int(0));
                }
                rows
            })
        }),
    ),
    ("undone, and there all the same", Lie::Undone),
    (
        "an event that is lost",
        Lie::Events(|waiting| {
            waiting.retain(|(_, entry)| entry.entity != "diff_nodes" || is_end(entry));
        }),
    ),
    (
        "an event that comes twice",
        Lie::Events(|waiting| {
            if let Some((at, entry)) = waiting.iter().find(|(_, entry)| !is_end(entry)) {
                waiting.insert(0, (*at, entry.clone()));
            }
        }),
    ),
    (
        "numbers that mean nothing",
        Lie::Plan(|_, plan| match plan {
            Plan::Select { filter, order, after: Some(After::Count(_)), limit } => Plan::Select { filter, order, after: None, limit },
            plan => plan,
        }),
    ),
    (
        "one direction for all",
        Lie::Plan(|_, plan| match plan {
            Plan::Select { filter, order, after, limit } => {
                let desc = order.first().is_some_and(|first| first.desc);
                Plan::Select { filter, order: order.into_iter().map(|o| Order { desc, ..o }).collect(), after, limit }
            }
            plan => plan,
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
    let mut missed = Vec::new();
    for (name, lie) in LIES {
        let outcome = differences(1000, 7, &[], 1, || (Arc::new(Liar(Memory::new(), *lie)) as Arc<dyn Store>, ()));
        let Err(found) = outcome else {
            missed.push(*name);
            continue;
        };
        // A sequence that was shrunk can be understood.
        let steps = found.lines().next().and_then(|line| line.rsplit(": ").next()?.split(' ').next()?.parse::<usize>().ok());
        assert!(steps.is_some_and(|n| (1..=12).contains(&n)), "{name}: {found}");
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
