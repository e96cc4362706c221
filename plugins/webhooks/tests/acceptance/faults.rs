//! Tests of faults: killed workers, late responses, and changes between attempts.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};

use linchpin_webhooks::WebhooksConfig;

use crate::bed::TestApp;
use crate::receiver::{Plan, Receiver};
use crate::server;

/// The environment variable with the folder of the database, for a worker that the test kills.
const FOLDER: &str = "LINCHPIN_TEST_FOLDER";
/// The file with a line for each worker that has started.
const STARTED: &str = "started";
const WORKERS: usize = 4;
/// In each round, all workers are killed.
const ROUNDS: usize = 4;
/// The number of endpoints that become active in each round. A process serves at most 23 of one
/// tenant, so other processes serve a part of them.
const ENDPOINTS_PER_ROUND: usize = 26;
const ENDPOINTS: usize = ROUNDS * ENDPOINTS_PER_ROUND;
const ORDERS: usize = 10;
/// The number of deliveries.
const ALL: i64 = (ENDPOINTS * ORDERS) as i64;
/// Longer than a lease.
const LONGER_THAN_LEASE: Duration = Duration::from_secs(80);

/// A worker in a separate process. The tests that kill workers start it.
#[tokio::test]
#[ignore = "a program that another test starts"]
async fn worker() {
    let folder = std::env::var_os(FOLDER).expect("a test that kills workers sets it");
    let folder = Path::new(&folder);
    let _test_app = TestApp::joining(folder).await;
    let started = std::fs::File::options()
        .create(true)
        .append(true)
        .open(folder.join(STARTED));
    let mut started = started.unwrap();
    writeln!(started, "{}", std::process::id()).unwrap();
    std::future::pending::<()>().await;
}

struct WorkerProcess(Child);

impl WorkerProcess {
    fn start(folder: &Path) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "faults::worker", "--ignored"])
            .env(FOLDER, folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // SIGKILL: no handler runs.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn workers_that_are_killed_lose_no_delivery_on_sqlite() {
    workers_that_are_killed_lose_no_delivery(TestApp::with(one_at_a_time).await).await;
}

#[tokio::test]
async fn workers_that_are_killed_lose_no_delivery_on_postgres() {
    let test_app = TestApp::at(&server::fresh_database(), one_at_a_time).await;
    workers_that_are_killed_lose_no_delivery(test_app).await;
}

/// The worker of this process sends one delivery at a time, so the worker processes send most
/// deliveries.
fn one_at_a_time(config: &mut WebhooksConfig) {
    config.workers = 1;
}

async fn workers_that_are_killed_lose_no_delivery(test_app: TestApp) {
    let receiver = Receiver::start().await;
    let mut paths = Vec::new();
    for _ in 0..ENDPOINTS {
        let paused = json!({ "maxPerSecond": 1_000, "maxInFlight": 1, "status": "paused" });
        let made = test_app.endpoint(&receiver.url(), paused).await;
        paths.push(format!(
            "/webhooks/endpoints/{}",
            made["id"].as_str().unwrap()
        ));
    }
    for n in 0..ORDERS {
        test_app.order(&n.to_string()).await;
    }
    let rows = |sql: &'static str| test_app.numbers(sql);
    while rows("SELECT count(*) FROM webhooks_webhook_deliveries") != [ALL] {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    receiver.always(Plan::Late(Duration::from_millis(40), 200));
    let mut workers: Vec<_> = (0..WORKERS)
        .map(|_| WorkerProcess::start(test_app.folder()))
        .collect();
    let started = &|| {
        let lines = std::fs::read_to_string(test_app.folder().join(STARTED));
        lines.unwrap_or_default().lines().count()
    };
    let until_started = |count: usize| async move {
        let waited = tokio::time::timeout(Duration::from_mins(2), async {
            while started() < count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        assert!(waited.await.is_ok(), "{} of {count} started", started());
    };
    until_started(WORKERS).await;
    // In each round, the workers are killed at a different moment of their work.
    for (round, paths) in paths.chunks(ENDPOINTS_PER_ROUND).enumerate() {
        for path in paths {
            let active = test_app
                .admin()
                .patch(path, json!({ "status": "active" }))
                .await;
            assert_eq!(active.unwrap().status(), 200);
        }
        // This process sends one request at a time, so a second running request belongs to a worker
        // process.
        let pause = 40 + 37 * u64::try_from(round).unwrap();
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let waited = tokio::time::timeout(Duration::from_mins(1), async {
            while receiver.running() < 2 {
                tokio::task::yield_now().await;
            }
        });
        assert!(waited.await.is_ok(), "the workers send nothing");
        workers.clear();
        workers.extend((0..WORKERS).map(|_| WorkerProcess::start(test_app.folder())));
        until_started((round + 2) * WORKERS).await;
    }
    // The remaining workers deliver everything.
    let open = "SELECT count(*) FROM webhooks_webhook_deliveries WHERE status <> 'delivered'";
    for round in 0_u64.. {
        if rows(open) == [0] {
            break;
        }
        assert!(round < 1_200, "{:?} are open after two minutes", rows(open));
        tokio::time::sleep(Duration::from_millis(100)).await;
        if round % 4 == 3 {
            test_app.advance(LONGER_THAN_LEASE);
        }
    }
    drop(workers);
    let mut arrived: HashMap<String, usize> = HashMap::new();
    for request in receiver.arrived() {
        let delivery = request.header("x-webhook-delivery").to_owned();
        *arrived.entry(delivery).or_default() += 1;
    }
    assert_eq!(
        arrived.len(),
        ENDPOINTS * ORDERS,
        "a delivery did not arrive"
    );
    // One result was counted for each delivery. The attempts of workers that had lost their lease
    // have `lease_lost` in `error_kind`.
    let counted = rows(
        "SELECT count(*), count(DISTINCT delivery_id) FROM webhooks_webhook_attempts \
         WHERE error_kind IS NULL",
    );
    assert_eq!(counted, [ALL, ALL]);
}

#[tokio::test]
async fn a_result_that_comes_after_the_lease_changes_nothing() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    test_app.endpoint(&receiver.url(), json!({})).await;
    receiver.next([Plan::Late(Duration::from_secs(2), 200)]);
    test_app.order("one").await;
    receiver.until(1).await;
    test_app.advance(LONGER_THAN_LEASE);
    let delivered = test_app.until("delivered").await;
    assert_eq!(
        receiver.count(),
        2,
        "the next owner of the lease sends it again"
    );
    let path = format!("/webhooks/deliveries/{}", delivered["id"].as_str().unwrap());
    let attempts = test_app.attempts(&path, 2).await;
    let kinds: Vec<&Json> = attempts
        .iter()
        .map(|attempt| &attempt["errorKind"])
        .collect();
    assert!(kinds.contains(&&json!("lease_lost")), "{kinds:?}");
    let after = test_app.get(&path).await;
    for member in ["status", "attempts", "deliveredAt", "version"] {
        assert_eq!(after[member], delivered[member], "{member}");
    }
}

/// Changes the database on a separate thread, so that the app and the receiver continue to run.
async fn on_blocking_thread(
    mut database: server::Server,
    change: fn(&mut server::Server),
) -> server::Server {
    let changed = tokio::task::spawn_blocking(move || {
        change(&mut database);
        database
    });
    changed.await.expect("the database was changed")
}

/// Sends a delivery whose response arrives while the database is not available, and calls
/// `during_outage` before the database starts again. Returns how often the delivery was sent.
async fn attempts_without_database(during_outage: impl AsyncFnOnce(&TestApp)) -> usize {
    let database = server::Server::start();
    let test_app = TestApp::at(&database.url(), |_| {}).await;
    let receiver = Receiver::start().await;
    test_app.endpoint(&receiver.url(), json!({})).await;
    receiver.next([Plan::Late(Duration::from_millis(300), 200)]);
    test_app.order("one").await;
    receiver.until(1).await;
    let database = on_blocking_thread(database, server::Server::kill).await;
    receiver.idle().await;
    during_outage(&test_app).await;
    let _database = on_blocking_thread(database, server::Server::restart).await;
    let deliveries = async || test_app.admin().get("/webhooks/deliveries").await.unwrap();
    while deliveries().await.status() != 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for polls in 0.. {
        if test_app.deliveries().await[0]["status"] == "delivered" {
            break;
        }
        assert!(polls < 2_000, "the delivery is still open");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let delivered = test_app.deliveries().await.remove(0);
    let sent = receiver.count();
    assert_eq!(delivered["attempts"], 1, "a lost answer is not counted");
    // The clock of the app does not advance, so no lease ends.
    test_app.order("two").await;
    receiver.until(sent + 1).await;
    sent
}

#[tokio::test]
async fn a_result_is_written_after_a_database_outage() {
    let sent = attempts_without_database(async |_: &TestApp| {}).await;
    assert_eq!(sent, 1, "the answer was not lost");
}

/// The lease has ended, so the delivery may be sent again before its result is written.
#[tokio::test]
async fn a_delivery_continues_after_a_database_outage() {
    attempts_without_database(async |test_app: &TestApp| test_app.advance(LONGER_THAN_LEASE)).await;
}

#[tokio::test]
async fn deliveries_continue_after_the_clock_was_set_back() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    test_app.endpoint(&receiver.url(), json!({})).await;
    test_app.order("one").await;
    test_app.until("delivered").await;
    test_app.turn_back(Duration::from_hours(1));
    for order in ["two", "three"] {
        test_app.order(order).await;
    }
    receiver.until(3).await;
    // A delivery that failed before the change is sent again when the new clock reaches its due
    // time.
    receiver.next([Plan::status(500)]);
    test_app.order("four").await;
    let failed = |one: &Json| one["status"] == "failed";
    while !test_app.deliveries().await.iter().any(failed) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    test_app.turn_back(Duration::from_hours(1));
    test_app.order("five").await;
    receiver.until(5).await;
    test_app.advance(Duration::from_hours(1) + Duration::from_secs(10));
    receiver.until(6).await;
}

#[tokio::test]
async fn an_endpoint_is_read_again_at_each_attempt() {
    let (test_app, old, new) = (
        TestApp::start().await,
        Receiver::start().await,
        Receiver::start().await,
    );
    let made = test_app.endpoint(&old.url(), json!({})).await;
    let path = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    old.next([Plan::status(500)]);
    test_app.order("one").await;
    test_app.until("failed").await;
    let changed = json!({ "url": new.url(), "headers": { "x-own": "new" } });
    assert_eq!(
        test_app
            .admin()
            .patch(&path, changed)
            .await
            .unwrap()
            .status(),
        200
    );
    let rotate = test_app
        .admin()
        .post(
            &format!("{path}/rotate-secret"),
            json!({ "overlapSeconds": 0 }),
        )
        .await;
    let rotated = rotate.unwrap().json().unwrap();
    test_app.advance(Duration::from_secs(10));
    let arrived = new.until(1).await.remove(0);
    assert_eq!((old.count(), arrived.header("x-own")), (1, "new"));
    assert_eq!(arrived.header("x-webhook-attempt"), "2");
    let signatures = arrived.header("webhook-signature");
    assert_eq!(
        signatures,
        crate::delivery::expected_signature(&rotated["secret"], &arrived)
    );
    // If the endpoint is paused between two attempts, the delivery is held, even if it is due.
    new.next([Plan::status(500)]);
    test_app.until("delivered").await;
    test_app.order("two").await;
    test_app.until("failed").await;
    let pause = test_app
        .admin()
        .patch(&path, json!({ "isActive": false }))
        .await;
    assert_eq!(pause.unwrap().status(), 200);
    test_app.advance(Duration::from_hours(2));
    test_app.order("three").await;
    while test_app.deliveries().await.len() < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(new.count(), 2, "nothing is sent to a paused endpoint");
    let active = test_app
        .admin()
        .patch(&path, json!({ "isActive": true }))
        .await;
    assert_eq!(active.unwrap().status(), 200);
    new.until(4).await;
}

#[tokio::test]
async fn replays_recoveries_and_the_schedule_do_not_send_twice() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let made = test_app.endpoint(&receiver.url(), json!({})).await;
    let endpoint = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    let began = linchpin::Timestamp::system_now().to_string();
    let abort = ("webhook-delivery", "abort-message".to_owned());
    receiver.next([Plan::Answer(400, vec![abort])]);
    test_app.order("one").await;
    let dead = test_app.until("dead").await;
    let replay = format!(
        "/webhooks/deliveries/{}/replay",
        dead["id"].as_str().unwrap()
    );
    let recover = format!("{endpoint}/recover");
    let since = json!({ "since": began });
    let (a, b, c, d) = (
        test_app.admin(),
        test_app.admin(),
        test_app.admin(),
        test_app.admin(),
    );
    let (a, b, c, d) = tokio::join!(
        a.post(&replay, json!({})),
        b.post(&replay, json!({})),
        c.post(&recover, since.clone()),
        d.post(&recover, since),
    );
    let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
    for answer in [a, b, c, d] {
        *statuses.entry(answer.unwrap().status()).or_default() += 1;
    }
    assert!(
        statuses
            .keys()
            .all(|status| [200, 202, 409].contains(status)),
        "{statuses:?}"
    );
    test_app.until("delivered").await;
    let attempts = test_app
        .attempts(
            &format!("/webhooks/deliveries/{}", dead["id"].as_str().unwrap()),
            2,
        )
        .await;
    assert_eq!((attempts.len(), receiver.count()), (2, 2), "{statuses:?}");
    assert_eq!(test_app.deliveries().await.len(), 1);
}
