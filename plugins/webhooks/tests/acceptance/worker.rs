//! Tests of the worker: its reads, and its requests while no result can be written.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use linchpin::filter::{Filter, Op};
use linchpin::prelude::*;
use linchpin::store::sqlite::{SqliteOptions, SqliteStore};
use linchpin::store::{Reply, Rows, Statement, Store, Transaction};
use linchpin::testing::Client;
use linchpin::{Actor, ActorKind, BoxFuture, Running, Value};
use linchpin_safe_client::{Answers, Resolve};
use linchpin_webhooks::{Webhooks, webhook_events};
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use tokio::sync::Semaphore;

use crate::around::{Around, Watch};
use crate::bed::{FIRST, Order, SHOP};
use crate::receiver::Receiver;

const SECRET: &str = "a signing secret for tests of at least 32 bytes";
const DELIVERIES: &str = "webhooks_webhook_deliveries";

/// A resolver that returns this machine. Each call waits for a permit. The number counts the calls.
#[derive(Clone)]
struct BlockingResolver(Arc<(AtomicUsize, Semaphore)>);

impl BlockingResolver {
    fn new() -> Self {
        Self(Arc::new((AtomicUsize::new(0), Semaphore::new(0))))
    }

    /// The number of calls so far.
    fn call_count(&self) -> usize {
        self.0.0.load(Ordering::SeqCst)
    }

    /// Lets this number of calls return.
    fn open(&self, times: usize) {
        self.0.1.add_permits(times);
    }
}

impl Resolve for BlockingResolver {
    fn resolve<'a>(&'a self, _: &'a str) -> Answers<'a> {
        Box::pin(async {
            self.0.0.fetch_add(1, Ordering::SeqCst);
            self.0.1.acquire().await.unwrap().forget();
            Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])
        })
    }
}

/// The number of reads of the deliveries of an endpoint, and the reads among them that use no
/// index.
#[derive(Default)]
struct Reads {
    all: AtomicUsize,
    scans: Mutex<Vec<String>>,
}

#[derive(Clone)]
struct WatchedStore(Arc<Reads>);

impl WatchedStore {
    /// Counts a statement that reads the deliveries of an endpoint. Every index begins with the
    /// tenant, so without a condition on the tenant the statement examines all rows.
    fn record_read(&self, statement: &Statement) {
        let Some(Filter::All(parts)) = statement.plan.filter() else {
            return;
        };
        let entity = statement.entity;
        let requires_equality = |column: &str| {
            let at = entity.fields.iter().position(|field| field.name == column);
            parts.iter().any(
                |part| matches!(part, Filter::Cond { field, op: Op::Eq, .. } if Some(*field) == at),
            )
        };
        let reads = entity.storage_name == DELIVERIES && statement.plan.reads();
        if reads && requires_equality("endpoint_id") {
            self.0.all.fetch_add(1, Ordering::SeqCst);
            if !requires_equality("tenant_id") {
                self.0.scans.lock().push(format!("{:?}", statement.plan));
            }
        }
    }
}

impl Watch for WatchedStore {
    fn run<'a>(
        &'a self,
        store: &'a dyn Store,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        self.record_read(statement);
        store.run(statement, args, rows)
    }

    fn wrap_transaction(&self, transaction: Box<dyn Transaction>) -> Box<dyn Transaction> {
        Box::new(WatchedTransaction(transaction, self.clone()))
    }
}

struct WatchedTransaction(Box<dyn Transaction>, WatchedStore);

impl Transaction for WatchedTransaction {
    fn run<'a>(
        &'a mut self,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> BoxFuture<'a, linchpin::Result<Rows>> {
        self.1.record_read(statement);
        self.0.run(statement, args, rows)
    }

    fn take_advisory_lock(&mut self, key: i64) -> BoxFuture<'_, linchpin::Result<()>> {
        self.0.take_advisory_lock(key)
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, linchpin::Result<()>> {
        self.0.commit()
    }

    fn rollback(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.0.rollback()
    }
}

/// Starts an app on a file, and counts the reads of its worker.
async fn start(file: &Path, resolver: &BlockingResolver) -> (Running, Arc<Reads>) {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(SqliteOptions::new(file)).unwrap());
    let reads = Arc::new(Reads::default());
    let watching = WatchedStore(Arc::clone(&reads));
    let webhooks = Webhooks::new(webhook_events! { Order: [created] })
        .resolver(resolver.clone())
        .configure(|config| {
            config.allow_http = true;
            config.allow_cidrs = vec!["127.0.0.0/8".parse().unwrap()];
        });
    let config = Config::new()
        .port(0)
        .signing_secret(SECRET)
        .data_keys([FIRST]);
    let app = App::new(config)
        .store(Arc::new(Around::new(store, watching)))
        .plugin(JwtAuth::new())
        .plugin(webhooks)
        .package(&SHOP)
        .start()
        .await
        .unwrap();
    (app, reads)
}

fn client(app: &Running) -> Client {
    let actor = Actor {
        kind: ActorKind::User,
        id: Some("user".to_owned()),
        tenant_id: Some("t1".to_owned()),
        roles: vec!["admin".to_owned()],
        ..Actor::anonymous()
    };
    let token = JwtAuth::token(SECRET, &actor, Duration::from_hours(1)).unwrap();
    Client::new(app).bearer(&token).unwrap()
}

fn count(file: &Path, status: &str) -> i64 {
    let connection = rusqlite::Connection::open(file).unwrap();
    connection.busy_timeout(Duration::from_secs(20)).unwrap();
    let sql = format!("SELECT count(*) FROM {DELIVERIES} WHERE status = ?");
    connection
        .query_row(&sql, [status], |row| row.get(0))
        .unwrap()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited in vain for {what}");
}

#[tokio::test]
async fn requests_continue_while_no_result_can_be_written_and_no_read_scans_deliveries() {
    let (folder, resolver) = (tempfile::tempdir().unwrap(), BlockingResolver::new());
    let file = folder.path().join("app.db");
    let (receiver, (app, reads)) = (Receiver::start().await, start(&file, &resolver).await);
    let client = client(&app);
    let url = receiver.url().replace("127.0.0.1", "hooks.example");
    resolver.open(1);
    let made = client
        .post(
            "/webhooks/endpoints",
            json!({ "url": url, "events": ["*"], "status": "paused" }),
        )
        .await
        .unwrap();
    assert_eq!(made.status(), 201, "{:?}", made.text());
    let made: Json = made.json().unwrap();
    for title in ["one", "two"] {
        let order = client
            .post("/orders", json!({ "title": title }))
            .await
            .unwrap();
        assert_eq!(order.status(), 201, "{:?}", order.text());
    }
    until("the intake of two orders", || count(&file, "pending") == 2).await;
    let path = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    let active = client
        .patch(&path, json!({ "status": "active" }))
        .await
        .unwrap();
    assert_eq!(active.status(), 200, "{:?}", active.text());
    // The first call was for the new endpoint, the others are for the two deliveries.
    until("the start of two deliveries", || resolver.call_count() == 3).await;

    // From here on the result of the first request cannot be written.
    let lock = rusqlite::Connection::open(&file).unwrap();
    lock.busy_timeout(Duration::from_secs(20)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    resolver.open(1);
    receiver.until(1).await;
    resolver.open(1);
    receiver.until(2).await;
    lock.execute_batch("ROLLBACK").unwrap();
    until("two results", || count(&file, "delivered") == 2).await;

    app.stop().await.unwrap();
    assert!(reads.all.load(Ordering::SeqCst) >= 2);
    let scans = reads.scans.lock();
    assert!(scans.is_empty(), "{scans:#?}");
}
