//! The store accesses of the session check, and failures of the store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linchpin::store::{Plan, Reply as Answer, Rows, Statement};
use linchpin::{Error, Value};
use serde_json::json;

use crate::around::{Around, Watch};
use crate::cases;
use crate::server::{Server, SignedIn, Store};

cases!(
    checked_sessions_are_cached,
    activity_is_written_once_a_minute,
    a_session_that_cannot_be_checked_is_refused
);

/// Records the statements on sessions and users. Reads of sessions take 30 ms, or fail while
/// `fails` is set.
#[derive(Default)]
struct StatementLog {
    log: Mutex<Vec<String>>,
    fails: AtomicBool,
}

impl StatementLog {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    fn count(&self, what: &str) -> usize {
        self.log
            .lock()
            .unwrap()
            .iter()
            .filter(|line| *line == what)
            .count()
    }
}

impl Watch for Arc<StatementLog> {
    fn run<'a>(
        &'a self,
        store: &'a dyn linchpin::store::Store,
        to: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Answer<'a> {
        let entity = to.entity.name;
        let what = match &to.plan {
            // Only background jobs read records in sorted order, to find the due ones. Requests
            // never do.
            Plan::Select { order, .. } if !order.is_empty() => return store.run(to, args, rows),
            Plan::Select { .. } => "select",
            Plan::Delete { .. } => return store.run(to, args, rows),
            _ => "write",
        };
        if !["Session", "User"].contains(&entity) {
            return store.run(to, args, rows);
        }
        self.log.lock().unwrap().push(format!("{entity} {what}"));
        if (entity, what) != ("Session", "select") {
            return store.run(to, args, rows);
        }
        if self.fails.load(Ordering::SeqCst) {
            return Answer::Ready(Err(Error::unavailable("the test makes this read fail")));
        }
        Answer::Later(Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(30)).await;
            store.run(to, args, rows).await
        }))
    }
}

async fn watched(store: &Store, cache_seconds: u64) -> (Server, Arc<StatementLog>) {
    let log = Arc::<StatementLog>::default();
    let around = Around::new(store.opened(), Arc::clone(&log));
    (
        store
            .on(around, |auth| {
                auth.configure(|config| config.auth.session.cache_seconds = cache_seconds)
            })
            .await,
        log,
    )
}

const GUARDED: &str = "/__test/protected/user";
const OPEN: &str = "/__test/actor";

async fn send_many(app: &Server, who: &SignedIn, n: usize) {
    for reply in futures_util::future::join_all((0..n).map(|_| app.get(&who.token, GUARDED))).await
    {
        assert_eq!(reply.status, 200, "{reply:?}");
    }
}

async fn checked_sessions_are_cached(store: Store) {
    const ONCE: [&str; 2] = ["Session select", "User select"];
    let (app, log) = watched(&store, 5).await;
    let ada = app.register("ada@x.test").await;
    app.raw("GET", GUARDED, &[], "")
        .await
        .refused(401, "unauthorized");
    // These requests are within a minute of the last activity, so nothing is written.
    for _ in 0..2 {
        log.take();
        // Twenty concurrent requests cause one read.
        send_many(&app, &ada, 20).await;
        assert_eq!(log.take(), ONCE);
        app.advance(4).await;
        send_many(&app, &ada, 20).await;
        assert_eq!(log.take(), [""; 0], "the result is cached");
        app.advance(1).await;
    }
    // A change of the account takes effect at once, in spite of the cached result.
    send_many(&app, &ada, 1).await;
    app.change(&ada.id, json!({ "roles": ["admin"] })).await;
    log.take();
    assert_eq!(
        app.get(&ada.token, "/__test/protected/admin").await.status,
        200
    );
    assert_eq!(log.take(), ONCE);
    app.stop().await;

    let (app, log) = watched(&store, 0).await;
    let bob = app.register("bob@x.test").await;
    for _ in 0..3 {
        log.take();
        send_many(&app, &bob, 1).await;
        assert_eq!(log.take(), ONCE);
    }
}

async fn activity_is_written_once_a_minute(store: Store) {
    for (cache_seconds, email) in [(5, "ada@x.test"), (0, "bob@x.test")] {
        let (app, log) = watched(&store, cache_seconds).await;
        let who = app.register(email).await;
        let assert_writes = async |times: usize| {
            for _ in 0..3000 {
                if log.count("Session write") >= times {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            // Waits for a further write, which would be one too many.
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(log.count("Session write"), times);
        };
        let started_at = app.now_seconds();
        log.take();
        let ten_requests = async || {
            for _ in 0..10 {
                send_many(&app, &who, 1).await;
                app.advance(5).await;
            }
        };
        ten_requests().await;
        app.advance(9).await;
        send_many(&app, &who, 1).await;
        assert_writes(0).await;
        app.advance(1).await;
        ten_requests().await;
        app.advance(9).await;
        send_many(&app, &who, 1).await;
        assert_writes(1).await;
        app.advance(2).await;
        ten_requests().await;
        assert_writes(2).await;
        let last_active =
            app.get(&who.token, "/auth/sessions").await.json()["sessions"][0]["lastActiveAt"]
                .clone();
        let at = linchpin::Timestamp::parse(last_active.as_str().unwrap()).unwrap();
        assert_eq!(at.millis().div_euclid(1000), started_at + 121);
        app.stop().await;
    }
}

/// If the store fails, a request with a valid token is neither accepted unchecked nor treated as
/// anonymous.
async fn a_session_that_cannot_be_checked_is_refused(store: Store) {
    let (app, log) = watched(&store, 5).await;
    let ada = app.register("ada@x.test").await;
    let routes = [
        (GUARDED, 401),
        (OPEN, 200),
        ("/notes/x", 401),
        ("/auth/me", 401),
    ];
    for cached in [false, true] {
        log.fails.store(false, Ordering::SeqCst);
        if cached {
            send_many(&app, &ada, 1).await;
            app.advance(5).await;
        }
        log.fails.store(true, Ordering::SeqCst);
        for (path, expected) in routes {
            let cookie = format!("__Host-token={}", ada.token);
            let by_cookie = app.any("GET", path, &[("cookie", &cookie)], "").await;
            for reply in [app.get_any(&ada.token, path).await, by_cookie] {
                assert_eq!(
                    (reply.status, reply.text("code").as_str()),
                    (503, "unavailable"),
                    "{path}: {reply:?}"
                );
            }
            assert_eq!(
                app.raw("GET", path, &[], "").await.status,
                expected,
                "{path}"
            );
            // A token with an invalid signature counts as no token. This needs no store access.
            assert_eq!(
                app.get(&format!("{}x", ada.token), path).await.status,
                expected,
                "{path}"
            );
        }
    }
    log.fails.store(false, Ordering::SeqCst);
    assert_eq!(app.get(&ada.token, OPEN).await.json()["id"], json!(ada.id));
}
