//! Tests of the Postgres engine, with a server that the tests start (or `LINCHPIN_TEST_POSTGRES`).

use std::sync::Arc;

use linchpin::BoxFuture;
use linchpin_realtime::engine::conformance::{Harness, TestClock};
use linchpin_realtime::engine::{
    Clock, Engine, EngineError, History, PostgresEngine, PostgresEngineOptions, Stream,
};
use parking_lot::Mutex;

use super::server;

/// A schema on the server that the tests share, or on a separate server.
struct Postgres {
    url: String,
    separate: Option<Mutex<server::Server>>,
}

fn shared() -> Postgres {
    Postgres {
        url: server::fresh_url(),
        separate: None,
    }
}

fn separate() -> Postgres {
    let server = server::Server::start();
    Postgres {
        url: server::fresh_schema(&server.url()),
        separate: Some(Mutex::new(server)),
    }
}

impl Postgres {
    fn sql(&self, sql: String) -> BoxFuture<'_, ()> {
        Box::pin(async move { server::execute(&self.url, &sql).expect("executed") })
    }

    fn server(&self) -> &Mutex<server::Server> {
        self.separate.as_ref().expect("a separate server")
    }
}

impl Harness for Postgres {
    fn node(&self, clock: Clock) -> BoxFuture<'_, Arc<dyn Engine>> {
        Box::pin(async {
            let options = PostgresEngineOptions::new(&self.url);
            let engine = PostgresEngine::new(&options, clock).expect("options");
            engine.start().await.expect("started");
            Arc::new(engine) as Arc<dyn Engine>
        })
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        self.sql(
            "TRUNCATE linchpin_realtime_streams, linchpin_realtime_frames, linchpin_realtime_fences, \
             linchpin_realtime_presence, linchpin_realtime_messages RESTART IDENTITY"
                .to_owned(),
        )
    }

    fn lose_stream<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, ()> {
        self.sql(format!(
            "DELETE FROM linchpin_realtime_streams WHERE name = '{stream}'"
        ))
    }

    fn lose_frames<'a>(&'a self, stream: &'a str) -> BoxFuture<'a, ()> {
        self.sql(format!(
            "DELETE FROM linchpin_realtime_frames WHERE epoch = \
             (SELECT epoch FROM linchpin_realtime_streams WHERE name = '{stream}')"
        ))
    }

    fn rewind<'a>(&'a self, stream: &'a str, offset: u64) -> BoxFuture<'a, ()> {
        self.sql(format!(
            "DELETE FROM linchpin_realtime_frames WHERE position > {offset} AND epoch = \
             (SELECT epoch FROM linchpin_realtime_streams WHERE name = '{stream}'); \
             UPDATE linchpin_realtime_streams AS s SET position = {offset}, last = \
             (SELECT event FROM linchpin_realtime_frames AS f WHERE f.epoch = s.epoch AND f.position = {offset}) \
             WHERE name = '{stream}'"
        ))
    }

    fn cut(&self) -> BoxFuture<'_, ()> {
        // Cut only connections of this schema, because other tests run at the same time.
        self.sql(
            "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity AS a \
             WHERE a.query LIKE '%LISTEN \"linchpin_realtime_' || 'linchpin_realtime_streams'::regclass::oid || '\"%'"
                .to_owned(),
        )
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.server().lock().kill() })
    }

    fn start(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.server().lock().restart() })
    }
}

linchpin_realtime::engine_conformance!(@suite shared(), separate());

#[tokio::test]
async fn tables_of_another_version_are_refused_and_a_wrong_address_is_reported() {
    let url = server::fresh_url();
    let engine = || {
        let options = PostgresEngineOptions::new(&url);
        PostgresEngine::new(&options, TestClock::default().clock()).unwrap()
    };
    // Several nodes may start at the same time.
    let (one, other) = (engine(), engine());
    let (a, b) = tokio::join!(one.start(), other.start());
    a.unwrap();
    b.unwrap();
    server::execute(&url, "UPDATE linchpin_realtime_schema SET version = 99").unwrap();
    let refused = engine().start().await.unwrap_err();
    assert!(matches!(refused, EngineError::Failed(_)), "{refused:?}");
    assert!(refused.to_string().contains("version 99"), "{refused}");
    let nowhere = PostgresEngineOptions::new("postgres://test:secret@127.0.0.1:1/none");
    let engine = PostgresEngine::new(&nowhere, TestClock::default().clock()).unwrap();
    let down = engine.start().await.unwrap_err();
    assert!(down.is_unavailable(), "{down:?}");
    assert!(!format!("{nowhere:?}{engine:?}{down:?}").contains("secret"));
}

#[tokio::test]
async fn apps_in_two_schemas_receive_only_their_own_events() {
    let time = TestClock::default();
    let (here, there) = (shared(), shared());
    let (a, b) = (
        here.node(time.clock()).await,
        there.node(time.clock()).await,
    );
    let stream = Stream::new("tasks:1:live", History::default());
    let mut live = b.subscribe(&stream).await.unwrap();
    a.send(&stream, "from here".into()).await.unwrap();
    b.send(&stream, "from there".into()).await.unwrap();
    let heard = live.next().await.unwrap();
    assert_eq!(
        heard,
        linchpin_realtime::engine::Delivery::Message("from there".into())
    );
}

#[tokio::test]
async fn any_number_of_outdated_rows_is_removed() {
    let postgres = shared();
    let clock = TestClock::default();
    let options = PostgresEngineOptions::new(&postgres.url);
    let engine = PostgresEngine::new(&options, clock.clock()).unwrap();
    engine.start().await.unwrap();
    let stream = Stream::new("boards:1:live", History::default());
    let top = engine.top(&stream).await.unwrap();
    let fill = "INSERT INTO linchpin_realtime_frames (epoch, position, event, at, until, frame) \
         SELECT 'an older epoch..', n, n::text, 0, 0, '' FROM generate_series(1, 12000) AS n; \
         INSERT INTO linchpin_realtime_messages (at, body) \
         SELECT 0, '' FROM generate_series(1, 6000)";
    server::execute(&postgres.url, fill).unwrap();
    engine.remove_outdated().await.unwrap();
    let none_left = "DO $$ BEGIN \
         IF EXISTS (SELECT 1 FROM linchpin_realtime_frames) OR EXISTS (SELECT 1 FROM linchpin_realtime_messages) \
         THEN RAISE EXCEPTION 'rows are left'; END IF; END $$";
    server::execute(&postgres.url, none_left).unwrap();
    assert_eq!(engine.top(&stream).await.unwrap(), top);
    engine.close().await;
}

/// A backup reads the tables in one long transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_does_not_wait_for_a_reader() {
    let postgres = shared();
    let options = PostgresEngineOptions::new(&postgres.url);
    let engine = PostgresEngine::new(&options, TestClock::default().clock()).unwrap();
    engine.start().await.unwrap();
    let stream = Stream::new("boards:1:live", History::default());
    let before = engine.top(&stream).await.unwrap();
    // More streams than one statement renews.
    let fill = "INSERT INTO linchpin_realtime_streams (name, epoch, position, expires) \
         SELECT 'filled:' || n, 'sixteen letters.', 0, 9000000000000000 FROM generate_series(1, 12000) AS n";
    server::execute(&postgres.url, fill).unwrap();
    let url = postgres.url.clone();
    // The transaction takes longer than the engine's time limit for a statement. The end of the
    // test cancels it.
    let backup = "BEGIN; SELECT count(*) FROM linchpin_realtime_streams; SELECT pg_sleep(9)";
    std::thread::spawn(move || server::execute(&url, backup));
    let reads = "DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_stat_activity \
         WHERE query LIKE 'BEGIN; SELECT count(*)%' AND wait_event = 'PgSleep') \
         THEN RAISE EXCEPTION 'not yet'; END IF; END $$";
    while server::execute(&postgres.url, reads).is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    engine.renew().await.unwrap();
    assert_ne!(engine.top(&stream).await.unwrap().epoch, before.epoch);
    let renewed = "DO $$ BEGIN IF (SELECT count(*) FROM linchpin_realtime_streams) > 1 \
         THEN RAISE EXCEPTION 'streams are left'; END IF; END $$";
    server::execute(&postgres.url, renewed).unwrap();
    engine.close().await;
}
