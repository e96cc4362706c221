//! Compares the costs in the route report with the number of statements that calls send, on each
//! store. Random sequences of calls reach the routes of the fixture.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use linchpin::entity::EntityDesc;
use linchpin::filter::{Filter, Op};
use linchpin::http::Claims;
use linchpin::prelude::*;
use linchpin::resource::BoxFuture;
use linchpin::store::memory::Memory;
use linchpin::store::{Plan, Reply, Rows, Statement, Store, Transaction};
use linchpin::{Result, Value};
use serde_json::Value as Json;

use super::around::{Around, Watch};
use super::fixture::ALL;
use super::generate;
use super::sequence::{Call, What};
use super::side::{HeaderActor, Side};

/// Counts the statements of a store, inside and outside of transactions. Statements that claim or
/// settle an idempotency key are not counted, because the report does not count them.
struct Counting(Arc<AtomicUsize>);

impl Watch for Counting {
    fn run<'a>(
        &'a self,
        store: &'a dyn Store,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        count(&self.0, statement);
        store.run(statement, args, rows)
    }

    fn wrap_transaction(&self, transaction: Box<dyn Transaction>) -> Box<dyn Transaction> {
        Box::new(Counted {
            transaction,
            sent: Arc::clone(&self.0),
        })
    }
}

/// A transaction of the counting store.
struct Counted {
    transaction: Box<dyn Transaction>,
    sent: Arc<AtomicUsize>,
}

fn count(sent: &AtomicUsize, statement: &Statement) {
    if statement.entity.storage_name != Claims::entity().storage_name && !sweeps(statement) {
        sent.fetch_add(1, Ordering::SeqCst);
    }
}

/// Whether a statement belongs to the sweeper, which runs once at the start, concurrently with the
/// first call.
fn sweeps(statement: &Statement) -> bool {
    let expires = statement.entity.ttl.map(|ttl| ttl.field);
    matches!(&statement.plan, Plan::Select { filter: Filter::Cond { field, op: Op::Lte, .. }, .. } if expires == Some(*field))
}

impl Transaction for Counted {
    fn run<'a>(
        &'a mut self,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> BoxFuture<'a, Result<Rows>> {
        count(&self.sent, statement);
        self.transaction.run(statement, args, rows)
    }
    fn take_advisory_lock(&mut self, key: i64) -> BoxFuture<'_, Result<()>> {
        self.transaction.take_advisory_lock(key)
    }
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        self.transaction.commit()
    }
    fn rollback(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.transaction.rollback()
    }
}

/// Prints the route report of the fixture's app.
#[tokio::test]
#[ignore = "a program for the tests below"]
async fn program() {
    if std::env::var_os("ROUTES_OF_THE_FIXTURE").is_none() {
        return;
    }
    // The report uses only the kind of the store. No connection is opened.
    let database = match std::env::var("ROUTES_OF_THE_FIXTURE").as_deref() {
        Ok("postgres") => "postgres://nobody@localhost/nothing",
        Ok("sqlite") => "sqlite:nothing.db",
        _ => "memory:",
    };
    let config = Config::new()
        .signing_secret("a secret of at least thirty-two bytes")
        .database(database);
    App::new(config)
        .plugin(HeaderActor::new())
        .package(&ALL)
        .run_with(&["routes", "--json"].map(str::to_owned))
        .await
        .unwrap();
    std::process::exit(0);
}

/// The reported number of statements by method and path on a store; `None` if the report contains
/// no number for the route.
fn reported(store: &str) -> HashMap<(String, String), Option<usize>> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--ignored",
            "--exact",
            "--nocapture",
            "--quiet",
            "costs::program",
        ])
        .env("ROUTES_OF_THE_FIXTURE", store);
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows = printed
        .lines()
        .find(|line| line.starts_with('['))
        .unwrap_or_else(|| panic!("{output:?}"));
    let rows: Vec<Json> = serde_json::from_str(rows).unwrap();
    let text = |row: &Json, key: &str| row[key].as_str().unwrap().to_owned();
    rows.iter()
        .map(|row| {
            (
                (text(row, "method"), text(row, "path")),
                row["statements"]
                    .as_u64()
                    .map(|n| usize::try_from(n).unwrap()),
            )
        })
        .collect()
}

/// The number of relations that a call includes, with the prefixes of their paths.
fn included(call: &Call) -> usize {
    let mut paths = BTreeSet::new();
    for path in call
        .query
        .iter()
        .filter(|(name, _)| name == "include")
        .flat_map(|(_, value)| value.split(','))
    {
        let mut so_far = String::new();
        for name in path.split('.') {
            so_far = format!("{so_far}.{name}");
            paths.insert(so_far.clone());
        }
    }
    paths.len()
}

/// Repetitions, which the report excludes: expired records that conflict with a write are removed,
/// and the write is sent again.
fn allowed_repetitions(call: &Call, desc: Option<&EntityDesc>) -> usize {
    if call.method != "GET" && desc.is_some_and(|desc| desc.ttl.is_some()) {
        2
    } else {
        0
    }
}

async fn check_costs(store: Arc<dyn Store>, sequences: u64) {
    let reported = reported(store.name());
    let sent = Arc::new(AtomicUsize::new(0));
    let mut side = Side::new(Arc::new(Around::new(store, Counting(Arc::clone(&sent))))).await;
    let routes = side.routes();
    let mut highest: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut too_many = BTreeMap::new();
    for seed in 0..sequences {
        side.reset().await;
        for step in generate::sequence(&routes, seed) {
            side.advance(step.advance);
            let desc = match &step.what {
                What::Call(call) => {
                    let endpoint = routes
                        .iter()
                        .find(|e| e.path == call.route && e.method.as_str() == call.method);
                    let desc = endpoint
                        .and_then(|e| e.table.as_ref())
                        .map(|table| table.desc);
                    let before = sent.load(Ordering::SeqCst);
                    let answer = side.call(step.actor, call, false).await;
                    let took = sent.load(Ordering::SeqCst) - before;
                    let route = (call.method.clone(), call.route.clone());
                    if let Some(cost) = reported.get(&route).copied().flatten() {
                        let allowed = cost + included(call) + allowed_repetitions(call, desc);
                        if took > allowed {
                            too_many.entry(route.clone()).or_insert_with(|| {
                                format!("{took} for {allowed}: {call:?}\n{answer:?}")
                            });
                        }
                        if included(call) + allowed_repetitions(call, desc) == 0 {
                            let known = highest.entry(route).or_default();
                            *known = took.max(*known);
                        }
                    }
                    desc.filter(|_| call.method != "GET")
                }
                What::Code(code) => {
                    side.act(&code.acts, code.end).await;
                    None
                }
                What::Filtered(_) => None,
            };
            // Later steps must find the records of this step.
            if let Some(desc) = desc {
                side.contents(desc).await;
            }
        }
    }
    side.stop().await;
    assert!(
        too_many.is_empty(),
        "more statements than reported: {too_many:#?}"
    );
    // A reported number is too high if no call sends so many statements.
    let is_never_reached =
        |route: &(String, String), took: &usize| reported[route].is_some_and(|cost| *took < cost);
    let inflated: Vec<_> = highest
        .iter()
        .filter(|(route, took)| is_never_reached(route, took))
        .map(|(r, n)| (r, n, reported[r]))
        .collect();
    assert!(
        inflated.len() * 10 <= highest.len(),
        "{} of {} routes never need the reported number of statements: {inflated:#?}",
        inflated.len(),
        highest.len()
    );
    assert!(highest.len() > 100, "{} routes", highest.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory() {
    check_costs(Arc::new(Memory::new()), 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite() {
    let (store, _folder) = super::on_sqlite();
    check_costs(store, 200).await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    let (store, ()) = super::on_few_connections();
    check_costs(store, 200).await;
}
