//! Faults: workers that are killed, answers that come too late, and changes between attempts.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};

use linchpin_webhooks::WebhooksConfig;

use crate::bed::Bed;
use crate::receiver::{Plan, Receiver};
use crate::server;

/// The folder of the database of a worker that the test kills.
const FOLDER: &str = "LINCHPIN_TEST_FOLDER";
/// The file with a line for each worker that has started.
const STARTED: &str = "started";
const WORKERS: usize = 4;
const KILLS: u64 = 16;
const ENDPOINTS: usize = 25;
const ORDERS: usize = 40;
/// The deliveries.
const ALL: i64 = (ENDPOINTS * ORDERS) as i64;
/// Longer than a lease.
const TAKEN_OVER: Duration = Duration::from_secs(80);

/// A worker of another process. The test that kills it starts it.
#[tokio::test]
#[ignore = "a program that another test starts"]
async fn worker() {
    let folder = std::env::var_os(FOLDER).expect("the other test sets it");
    let folder = Path::new(&folder);
    let _bed = Bed::joining(folder).await;
    let started = std::fs::File::options()
        .create(true)
        .append(true)
        .open(folder.join(STARTED));
    let mut started = started.unwrap();
    writeln!(started, "{}", std::process::id()).unwrap();
    std::future::pending::<()>().await;
}

struct Killed(Child);

impl Killed {
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

impl Drop for Killed {
    fn drop(&mut self) {
        // SIGKILL: no handler runs.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn workers_that_are_killed_lose_no_delivery_on_sqlite() {
    workers_that_are_killed_lose_no_delivery(Bed::with(one_at_a_time).await).await;
}

#[tokio::test]
async fn workers_that_are_killed_lose_no_delivery_on_postgres() {
    let bed = Bed::at(&server::fresh_database(), one_at_a_time).await;
    workers_that_are_killed_lose_no_delivery(bed).await;
}

/// The worker of this process takes one delivery at a time, so the others send most of them.
fn one_at_a_time(config: &mut WebhooksConfig) {
    config.workers = 1;
}

async fn workers_that_are_killed_lose_no_delivery(bed: Bed) {
    let receiver = Receiver::start().await;
    let mut paths = Vec::new();
    for _ in 0..ENDPOINTS {
        let paused = json!({ "maxPerSecond": 1_000, "maxInFlight": 1, "status": "paused" });
        let made = bed.endpoint(&receiver.url(), paused).await;
        paths.push(format!(
            "/webhooks/endpoints/{}",
            made["id"].as_str().unwrap()
        ));
    }
    for n in 0..ORDERS {
        bed.order(&n.to_string()).await;
    }
    let rows = |sql: &'static str| bed.numbers(sql);
    while rows("SELECT count(*) FROM webhooks_webhook_deliveries") != [ALL] {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    receiver.always(Plan::Late(Duration::from_millis(40), 200));
    let mut workers: Vec<_> = (0..WORKERS).map(|_| Killed::start(bed.folder())).collect();
    let started = || {
        let lines = std::fs::read_to_string(bed.folder().join(STARTED));
        lines.unwrap_or_default().lines().count()
    };
    while started() < WORKERS {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for path in &paths {
        let active = bed.admin().patch(path, json!({ "status": "active" })).await;
        assert_eq!(active.unwrap().status(), 200);
    }
    let open = "SELECT count(*) FROM webhooks_webhook_deliveries WHERE status <> 'delivered'";
    for round in 0_u64.. {
        if rows(open) == [0] {
            break;
        }
        assert!(round < 600, "{:?} are open after a minute", rows(open));
        // Another worker each time, at another moment of its work; in the end they finish it.
        tokio::time::sleep(Duration::from_millis(40 + 37 * (round % 5))).await;
        if round < KILLS {
            let next = usize::try_from(round).unwrap() % WORKERS;
            workers[next] = Killed::start(bed.folder());
        }
        if round % 4 == 3 {
            bed.advance(TAKEN_OVER);
        }
    }
    assert!(started() > 2 * WORKERS, "only {} started", started());
    drop(workers);
    let mut arrived: HashMap<String, usize> = HashMap::new();
    for request in receiver.arrived() {
        let delivery = request.header("x-webhook-delivery").to_owned();
        *arrived.entry(delivery).or_default() += 1;
    }
    assert_eq!(
        arrived.len(),
        ENDPOINTS * ORDERS,
        "each arrived at least once"
    );
    // One result was counted for each; what a worker without lease learned was not.
    let counted = rows(
        "SELECT count(*), count(DISTINCT delivery_id) FROM webhooks_webhook_attempts \
         WHERE error_kind IS NULL",
    );
    assert_eq!(counted, [ALL, ALL]);
}

#[tokio::test]
async fn a_result_that_comes_after_the_lease_changes_nothing() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    bed.endpoint(&receiver.url(), json!({})).await;
    receiver.next([Plan::Late(Duration::from_secs(2), 200)]);
    bed.order("one").await;
    receiver.until(1).await;
    bed.advance(TAKEN_OVER);
    let delivered = bed.until("delivered").await;
    assert_eq!(receiver.count(), 2, "another lease sent it again");
    let path = format!("/webhooks/deliveries/{}", delivered["id"].as_str().unwrap());
    let attempts = bed.attempts(&path, 2).await;
    let kinds: Vec<&Json> = attempts
        .iter()
        .map(|attempt| &attempt["errorKind"])
        .collect();
    assert!(kinds.contains(&&json!("lease_lost")), "{kinds:?}");
    let after = bed.get(&path).await;
    for member in ["status", "attempts", "deliveredAt", "version"] {
        assert_eq!(after[member], delivered[member], "{member}");
    }
}

/// Changes the database on a thread of its own: the app and the receiver go on meanwhile.
async fn without_pause(
    mut database: server::Server,
    change: fn(&mut server::Server),
) -> server::Server {
    let changed = tokio::task::spawn_blocking(move || {
        change(&mut database);
        database
    });
    changed.await.expect("the database was changed")
}

/// A delivery whose answer comes while the database is away. `away` happens meanwhile. The number
/// of times it was sent.
async fn answered_without_database(away: impl AsyncFnOnce(&Bed)) -> usize {
    let database = server::Server::start();
    let bed = Bed::at(&database.url(), |_| {}).await;
    let receiver = Receiver::start().await;
    bed.endpoint(&receiver.url(), json!({})).await;
    receiver.next([Plan::Late(Duration::from_millis(300), 200)]);
    bed.order("one").await;
    receiver.until(1).await;
    let database = without_pause(database, server::Server::kill).await;
    receiver.idle().await;
    away(&bed).await;
    let _database = without_pause(database, server::Server::restart).await;
    let deliveries = async || bed.admin().get("/webhooks/deliveries").await.unwrap();
    while deliveries().await.status() != 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for looks in 0.. {
        if bed.deliveries().await[0]["status"] == "delivered" {
            break;
        }
        assert!(looks < 2_000, "the delivery does not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let delivered = bed.deliveries().await.remove(0);
    let sent = receiver.count();
    assert_eq!(delivered["attempts"], 1, "a lost answer is not counted");
    // Nothing waits for the end of a lease, because the clock of the app does not move.
    bed.order("two").await;
    receiver.until(sent + 1).await;
    sent
}

#[tokio::test]
async fn a_result_is_written_after_the_database_was_away_for_a_moment() {
    let sent = answered_without_database(async |_: &Bed| {}).await;
    assert_eq!(sent, 1, "the answer was not lost");
}

/// The lease has ended, so the delivery may be sent again before its result is written.
#[tokio::test]
async fn a_delivery_goes_on_after_the_database_was_away_for_a_minute() {
    answered_without_database(async |bed: &Bed| bed.advance(TAKEN_OVER)).await;
}

#[tokio::test]
async fn deliveries_go_on_after_the_clock_was_turned_back() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    bed.endpoint(&receiver.url(), json!({})).await;
    bed.order("one").await;
    bed.until("delivered").await;
    bed.turn_back(Duration::from_hours(1));
    for order in ["two", "three"] {
        bed.order(order).await;
    }
    receiver.until(3).await;
    // What failed before the change of the clock is tried again at its time by the new clock.
    receiver.next([Plan::status(500)]);
    bed.order("four").await;
    let failed = |one: &Json| one["status"] == "failed";
    while !bed.deliveries().await.iter().any(failed) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bed.turn_back(Duration::from_hours(1));
    bed.order("five").await;
    receiver.until(5).await;
    bed.advance(Duration::from_hours(1) + Duration::from_secs(10));
    receiver.until(6).await;
}

#[tokio::test]
async fn an_endpoint_is_read_again_at_each_attempt() {
    let (bed, old, new) = (
        Bed::start().await,
        Receiver::start().await,
        Receiver::start().await,
    );
    let made = bed.endpoint(&old.url(), json!({})).await;
    let path = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    old.next([Plan::status(500)]);
    bed.order("one").await;
    bed.until("failed").await;
    let changed = json!({ "url": new.url(), "headers": { "x-own": "new" } });
    assert_eq!(
        bed.admin().patch(&path, changed).await.unwrap().status(),
        200
    );
    let rotate = bed
        .admin()
        .post(
            &format!("{path}/rotate-secret"),
            json!({ "overlapSeconds": 0 }),
        )
        .await;
    let rotated = rotate.unwrap().json().unwrap();
    bed.advance(Duration::from_secs(10));
    let arrived = new.until(1).await.remove(0);
    assert_eq!((old.count(), arrived.header("x-own")), (1, "new"));
    assert_eq!(arrived.header("x-webhook-attempt"), "2");
    let signatures = arrived.header("webhook-signature");
    assert_eq!(
        signatures,
        crate::delivery::expected(&rotated["secret"], &arrived)
    );
    // A pause between two attempts holds the delivery, however long its turn has come.
    new.next([Plan::status(500)]);
    bed.until("delivered").await;
    bed.order("two").await;
    bed.until("failed").await;
    let pause = bed.admin().patch(&path, json!({ "isActive": false })).await;
    assert_eq!(pause.unwrap().status(), 200);
    bed.advance(Duration::from_hours(2));
    bed.order("three").await;
    while bed.deliveries().await.len() < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(new.count(), 2, "nothing is sent to a paused endpoint");
    let active = bed.admin().patch(&path, json!({ "isActive": true })).await;
    assert_eq!(active.unwrap().status(), 200);
    new.until(4).await;
}

#[tokio::test]
async fn replays_recoveries_and_the_schedule_do_not_send_twice() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    let made = bed.endpoint(&receiver.url(), json!({})).await;
    let endpoint = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    let began = linchpin::Timestamp::system_now().to_string();
    let abort = ("webhook-delivery", "abort-message".to_owned());
    receiver.next([Plan::Answer(400, vec![abort])]);
    bed.order("one").await;
    let dead = bed.until("dead").await;
    let replay = format!(
        "/webhooks/deliveries/{}/replay",
        dead["id"].as_str().unwrap()
    );
    let recover = format!("{endpoint}/recover");
    let since = json!({ "since": began });
    let (a, b, c, d) = (bed.admin(), bed.admin(), bed.admin(), bed.admin());
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
    bed.until("delivered").await;
    let attempts = bed
        .attempts(
            &format!("/webhooks/deliveries/{}", dead["id"].as_str().unwrap()),
            2,
        )
        .await;
    assert_eq!((attempts.len(), receiver.count()), (2, 2), "{statuses:?}");
    assert_eq!(bed.deliveries().await.len(), 1);
}
