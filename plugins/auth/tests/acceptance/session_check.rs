//! The session check, and its failures, as the store sees them.

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
    what_is_known_is_not_asked_for,
    activity_is_written_once_a_minute,
    what_cannot_be_checked_is_refused
);

/// Writes down what is asked of sessions and their users. It takes its time over sessions, or
/// refuses to say.
#[derive(Default)]
struct Seen {
    log: Mutex<Vec<String>>,
    down: AtomicBool,
}

impl Seen {
    fn taken(&self) -> Vec<String> {
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

impl Watch for Arc<Seen> {
    fn run<'a>(
        &'a self,
        store: &'a dyn linchpin::store::Store,
        to: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Answer<'a> {
        let entity = to.entity.name;
        let what = match &to.plan {
            // A job that looks what is due: no request does.
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
        if self.down.load(Ordering::SeqCst) {
            return Answer::Ready(Err(Error::unavailable("told to")));
        }
        Answer::Later(Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(30)).await;
            store.run(to, args, rows).await
        }))
    }
}

async fn watched(store: &Store, cache_seconds: u64) -> (Server, Arc<Seen>) {
    let seen = Arc::<Seen>::default();
    let around = Around::new(store.opened(), Arc::clone(&seen));
    (
        store
            .on(around, |auth| {
                auth.configure(|config| config.auth.session.cache_seconds = cache_seconds)
            })
            .await,
        seen,
    )
}

const GUARDED: &str = "/__test/protected/user";
const OPEN: &str = "/__test/actor";

async fn many(app: &Server, who: &SignedIn, n: usize) {
    for reply in futures_util::future::join_all((0..n).map(|_| app.get(&who.token, GUARDED))).await
    {
        assert_eq!(reply.status, 200, "{reply:?}");
    }
}

async fn what_is_known_is_not_asked_for(store: Store) {
    const ONCE: [&str; 2] = ["Session select", "User select"];
    let (app, seen) = watched(&store, 5).await;
    let ada = app.register("ada@x.test").await;
    app.raw("GET", GUARDED, &[], "")
        .await
        .refused(401, "unauthorized");
    // Within a minute of the last activity, so that nothing is written.
    for _ in 0..2 {
        seen.taken();
        // Twenty who ask at once are one who asks.
        many(&app, &ada, 20).await;
        assert_eq!(seen.taken(), ONCE);
        app.advance(4).await;
        many(&app, &ada, 20).await;
        assert_eq!(seen.taken(), [""; 0], "it is known");
        app.advance(1).await;
    }
    // A change of the account is seen at once, however fresh what is known of it is.
    many(&app, &ada, 1).await;
    app.change(&ada.id, json!({ "roles": ["admin"] })).await;
    seen.taken();
    assert_eq!(
        app.get(&ada.token, "/__test/protected/admin").await.status,
        200
    );
    assert_eq!(seen.taken(), ONCE);
    app.stop().await;

    let (app, seen) = watched(&store, 0).await;
    let bob = app.register("bob@x.test").await;
    for _ in 0..3 {
        seen.taken();
        many(&app, &bob, 1).await;
        assert_eq!(seen.taken(), ONCE);
    }
}

async fn activity_is_written_once_a_minute(store: Store) {
    for (cache_seconds, email) in [(5, "ada@x.test"), (0, "bob@x.test")] {
        let (app, seen) = watched(&store, cache_seconds).await;
        let who = app.register(email).await;
        let written = async |times: usize| {
            for _ in 0..3000 {
                if seen.count("Session write") >= times {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            // One too many would come about now.
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(seen.count("Session write"), times);
        };
        let begun = app.now_seconds();
        seen.taken();
        let ten = async || {
            for _ in 0..10 {
                many(&app, &who, 1).await;
                app.advance(5).await;
            }
        };
        ten().await;
        app.advance(9).await;
        many(&app, &who, 1).await;
        written(0).await;
        app.advance(1).await;
        ten().await;
        app.advance(9).await;
        many(&app, &who, 1).await;
        written(1).await;
        app.advance(2).await;
        ten().await;
        written(2).await;
        let shown =
            app.get(&who.token, "/auth/sessions").await.json()["sessions"][0]["lastActiveAt"]
                .clone();
        let at = linchpin::Timestamp::parse(shown.as_str().unwrap()).unwrap();
        assert_eq!(at.millis().div_euclid(1000), begun + 121);
        app.stop().await;
    }
}

/// A request with a token is neither accepted unchecked nor treated as anonymous.
async fn what_cannot_be_checked_is_refused(store: Store) {
    let (app, seen) = watched(&store, 5).await;
    let ada = app.register("ada@x.test").await;
    let routes = [
        (GUARDED, 401),
        (OPEN, 200),
        ("/notes/x", 401),
        ("/auth/me", 401),
    ];
    for warm in [false, true] {
        seen.down.store(false, Ordering::SeqCst);
        if warm {
            many(&app, &ada, 1).await;
            app.advance(5).await;
        }
        seen.down.store(true, Ordering::SeqCst);
        for (path, without) in routes {
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
                without,
                "{path}"
            );
            // What is no token of ours needs no store.
            assert_eq!(
                app.get(&format!("{}x", ada.token), path).await.status,
                without,
                "{path}"
            );
        }
    }
    seen.down.store(false, Ordering::SeqCst);
    assert_eq!(app.get(&ada.token, OPEN).await.json()["id"], json!(ada.id));
}
