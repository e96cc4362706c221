//! Tests that concern only `PostgreSQL`: crashes under load, encryption, texts that a server could
//! misinterpret, errors at start-up, the number of connections, and plans of statements.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, missing_docs)] // in a test, a panic reports the failure

#[path = "acceptance/fixture.rs"]
mod fixture;
#[path = "acceptance/server.rs"]
#[allow(dead_code)] // the acceptance cases use the rest of it
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linchpin::event::Batch;
use linchpin::prelude::*;
use linchpin::store::Store;
use linchpin::store::create_tables;
use linchpin::store::postgres::{PostgresOptions, PostgresStore};
use linchpin::{BoxFuture, EventSink, Postgres};
use serde_json::json;

use server::Server;
use server::postgres_server as database;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_write_is_lost_when_the_server_crashes_under_load() {
    write_during_crashes(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_is_lost_or_changed_when_the_server_crashes_under_load() {
    let delivered: DeliveredSlugs = Arc::default();
    let stored = write_during_crashes(Some(Arc::clone(&delivered))).await;
    let delivered = delivered.lock().unwrap();
    let mut by_slug: BTreeMap<&str, &str> = BTreeMap::new();
    for (id, contents) in delivered.iter() {
        assert_eq!(
            contents.len(),
            1,
            "the event {id} was delivered with different contents: {contents:?}"
        );
        let slug = contents.first().unwrap();
        assert_eq!(
            by_slug.insert(slug, id),
            None,
            "{slug} was delivered twice under different ids"
        );
    }
    let delivered: BTreeSet<&str> = by_slug.keys().copied().collect();
    let stored: BTreeSet<&str> = stored.iter().map(String::as_str).collect();
    assert_eq!(
        delivered, stored,
        "the delivered slugs equal the stored ones"
    );
}

/// The slugs of delivered events, by the id of the event.
type DeliveredSlugs = Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>;

struct Log(DeliveredSlugs);

impl EventSink for Log {
    fn publish<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, linchpin::Result<()>> {
        let mut delivered = self.0.lock().unwrap();
        for event in batch {
            let slug = event.payload["slug"].as_str().unwrap().to_owned();
            delivered
                .entry(event.id.to_string())
                .or_default()
                .insert(slug);
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Writes while the server crashes and restarts twice; returns the stored slugs. With a log, every
/// write emits an event.
async fn write_during_crashes(log: Option<DeliveredSlugs>) -> BTreeSet<String> {
    let mut engine = tokio::task::spawn_blocking(database::Server::start)
        .await
        .unwrap();
    let url = database::fresh_schema(&engine.url());
    let app = match &log {
        Some(delivered) => {
            Server::at_with(&fixture::BLOG, url, |app| {
                app.event_sink("log", Log(Arc::clone(delivered)))
            })
            .await
        }
        None => Server::at(&fixture::BLOG, url).await,
    };
    let app = Arc::new(app);
    let (stop, refused) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let done: Arc<[AtomicUsize; 8]> = Arc::default();
    let writers: Vec<_> = (0..done.len())
        .map(|writer| {
            let (app, stop, refused, done) = (
                Arc::clone(&app),
                Arc::clone(&stop),
                Arc::clone(&refused),
                Arc::clone(&done),
            );
            tokio::spawn(async move {
                let mut acknowledged = BTreeSet::new();
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let slug = format!("w{writer}-{n}");
                    let reply = app
                        .post("/posts", json!({"slug": slug, "title": "t"}))
                        .await;
                    match reply.status {
                        201 => {
                            acknowledged.insert(slug);
                            done[writer].fetch_add(1, Ordering::Relaxed);
                        }
                        503 => {
                            assert_eq!(
                                (reply.header("retry-after").as_str(), reply.code().1),
                                ("1", "unavailable"),
                                "{reply:?}"
                            );
                            refused.fetch_add(1, Ordering::Relaxed);
                            tokio::time::sleep(Duration::from_millis(20)).await;
                        }
                        _ => panic!("{reply:?}"),
                    }
                }
                acknowledged
            })
        })
        .collect();
    // Waits until each writer has written this number of further records.
    let written = async |more: usize| {
        let before: Vec<usize> = done.iter().map(|n| n.load(Ordering::Relaxed)).collect();
        let end = std::time::Instant::now() + Duration::from_mins(1);
        while done
            .iter()
            .zip(&before)
            .any(|(n, before)| n.load(Ordering::Relaxed) < before + more)
        {
            assert!(
                std::time::Instant::now() < end,
                "a writer makes no progress: {done:?}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    for _ in 0..2 {
        written(10).await;
        engine.kill();
        let before = refused.load(Ordering::Relaxed);
        let end = std::time::Instant::now() + Duration::from_mins(1);
        while refused.load(Ordering::Relaxed) < before + 8 {
            assert!(
                std::time::Instant::now() < end,
                "writes are not refused while the server is down"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(app.get("/posts").await.code(), (503, "unavailable"));
        engine = tokio::task::spawn_blocking(move || {
            engine.restart();
            engine
        })
        .await
        .unwrap();
        // The app recovers by itself.
        let end = std::time::Instant::now() + Duration::from_mins(1);
        while app.get("/posts").await.status != 200 {
            assert!(std::time::Instant::now() < end, "the app does not recover");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    written(10).await;
    stop.store(true, Ordering::Relaxed);
    let mut acknowledged = BTreeSet::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    let stored: BTreeSet<String> = app
        .walk("/posts")
        .await
        .iter()
        .map(|p| p["slug"].as_str().unwrap().to_owned())
        .collect();
    let lost: Vec<_> = acknowledged.difference(&stored).collect();
    assert!(
        lost.is_empty(),
        "{} of {} lost: {lost:?}",
        lost.len(),
        acknowledged.len()
    );
    // Each writer wrote before, between and after the crashes.
    assert!(acknowledged.len() >= 8 * 3 * 10, "{}", acknowledged.len());
    // The result of a write during a crash is unknown: at most one write per writer and crash.
    assert!(
        stored.len() - acknowledged.len() <= 16,
        "{} unknown",
        stored.len() - acknowledged.len()
    );
    if let Some(delivered) = log {
        // The relay waits longer after each failure.
        let end = std::time::Instant::now() + Duration::from_mins(1);
        while delivered.lock().unwrap().len() < stored.len() {
            assert!(
                std::time::Instant::now() < end,
                "{} of {} events were delivered",
                delivered.lock().unwrap().len(),
                stored.len()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    stored
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_and_bounds_are_stored_unchanged() {
    let app = Server::postgres(&fixture::BLOG).await;
    let texts = [
        "'; DROP TABLE posts; --",
        "\\",
        "\\\\x00",
        "$1",
        "$$",
        "{\"a\"}",
        "{a,b}",
        "NULL",
        "😀\u{10ffff}",
        "\u{1}\u{7f}",
        "\"",
        "a\u{301}",
        "\u{feff}",
    ];
    for (i, text) in texts.iter().enumerate() {
        let meta = json!({"k": text, text.to_string(): [text, 9_007_199_254_740_993_u64, 1e300, 5e-324, null]});
        let body = json!({"slug": format!("s{i}"), "title": text, "category": text, "tags": [text, "", text], "meta": meta});
        let made = app.post("/posts", body).await;
        assert_eq!(made.status, 201, "{text:?} {made:?}");
        let read = app.get(&app.path(&made.json())).await.json();
        assert_eq!(
            (&read["title"], &read["tags"], &read["meta"]),
            (&json!(text), &json!([text, "", text]), &meta),
            "{text:?}"
        );
    }
    for (score, due) in [
        (9_007_199_254_740_991_i64, "9999-12-31T23:59:59.999Z"),
        (-9_007_199_254_740_991, "0001-01-01T00:00:00.000Z"),
    ] {
        let made = app
            .post(
                "/posts",
                json!({"slug": due, "title": "t", "score": score, "dueAt": due}),
            )
            .await;
        assert_eq!(made.status, 201, "{made:?}");
        let read = app.get(&app.path(&made.json())).await.json();
        assert_eq!(
            (&read["score"], &read["dueAt"]),
            (&json!(score), &json!(due))
        );
    }
    for (field, value) in [
        ("title", json!("a\0b")),
        ("tags", json!(["\0"])),
        ("meta", json!({"a": "\0"})),
        ("meta", json!({"\0": 1})),
    ] {
        let mut body = json!({"slug": "nul", "title": "t"});
        body[field] = value;
        assert_eq!(app.post("/posts", body).await.status, 400, "{field}");
    }
    let many: Vec<String> = (0..5000).map(|i| format!("tag \"{i}\"")).collect();
    let made = app
        .post(
            "/posts",
            json!({"slug": "many", "title": "t", "tags": many}),
        )
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(
        app.get(&app.path(&made.json())).await.json()["tags"],
        json!(many)
    );
}

/// A certificate for the loopback address, its key, and the certificate of the test authority that
/// signed it.
fn certificate() -> (String, String, String) {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let (authority_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let signed = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let own = CertificateParams::new(vec!["127.0.0.1".to_owned()])
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
    (own.pem(), key.serialize_pem(), signed.pem())
}

/// Opens connections for reads and writes. Returns their number, and the number of encrypted ones.
async fn connections(url: String) -> Result<(i64, i64), linchpin::Error> {
    let mut options = PostgresOptions::new(url);
    options.connect_timeout = Duration::from_secs(2);
    let store = PostgresStore::open(options)?;
    let outcome = async {
        store.ready().await?;
        create_tables(&store, &[]).await?;
        let sql = "SELECT count(*), count(*) FILTER (WHERE s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.application_name = 'linchpin'";
        sqlx::query_as(sql).fetch_one(store.pool()).await.map_err(linchpin::Error::internal)
    }
    .await;
    store.close().await;
    outcome
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_encrypted_according_to_the_url() {
    let (certificate, key, authority) = certificate();
    let mut engine = tokio::task::spawn_blocking(database::Server::start)
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("ca.pem");
    std::fs::write(&roots, authority).unwrap();
    // The server does not support encryption yet: `prefer` connects without it, `require` fails.
    let url = |mode: &str| database::fresh_schema(&engine.url()) + "&sslmode=" + mode;
    let (all, encrypted) = connections(url("prefer")).await.unwrap();
    assert!(all > 1 && encrypted == 0, "{all} {encrypted}");
    assert!(connections(url("require")).await.is_err());

    engine.encrypt(&certificate, &key);
    let engine = tokio::task::spawn_blocking(move || {
        engine.kill();
        engine.restart();
        engine
    })
    .await
    .unwrap();
    let url = |mode: &str| database::fresh_schema(&engine.url()) + "&sslmode=" + mode;
    let rooted = format!("verify-full&sslrootcert={}", roots.display());
    for (mode, expected) in [
        ("disable", false),
        ("prefer", true),
        ("require", true),
        (rooted.as_str(), true),
    ] {
        let (all, encrypted) = connections(url(mode))
            .await
            .unwrap_or_else(|e| panic!("{mode}: {e:?}"));
        assert!(
            all > 1 && encrypted == if expected { all } else { 0 },
            "{mode}: {encrypted} of {all}"
        );
    }
    // The authority is unknown.
    assert!(connections(url("verify-full")).await.is_err());
    // The certificate has another name.
    assert!(
        connections(url(&rooted).replace("127.0.0.1", "localhost"))
            .await
            .is_err()
    );
    assert!(PostgresStore::open(PostgresOptions::new(url("maybe"))).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_server_is_a_start_up_error_without_the_password() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut options = PostgresOptions::new(format!("postgres://u:hush@127.0.0.1:{port}/db"));
    options.connect_timeout = Duration::from_secs(1);
    let store = PostgresStore::open(options).unwrap();
    let error = create_tables(&store, &[]).await.unwrap_err();
    assert_eq!(error.code(), linchpin::Code::Unavailable);
    assert!(!format!("{error:?}").contains("hush"), "{error:?}");
    store.close().await;
}

/// The error of a start with this URL.
async fn refusal(url: &str) -> String {
    let config = Config::new()
        .signing_secret(server::SECRET)
        .port(0)
        .database(url);
    let error = App::new(config)
        .plugin(JwtAuth::new())
        .package(&fixture::BLOG)
        .start()
        .await
        .unwrap_err();
    let text = format!(
        "{error}: {}",
        std::error::Error::source(&error)
            .map(ToString::to_string)
            .unwrap_or_default()
    );
    assert!(
        !format!("{text} {error:?}").contains("hush"),
        "{text} {error:?}"
    );
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_problems_are_reported_at_start_up() {
    let engine = tokio::task::spawn_blocking(database::Server::start)
        .await
        .unwrap();
    for sql in [
        "CREATE ROLE locked LOGIN SUPERUSER PASSWORD 'right'",
        "CREATE ROLE reader LOGIN",
        "ALTER ROLE reader SET default_transaction_read_only = on",
    ] {
        database::execute(&engine.url(), sql).unwrap();
    }
    engine.ask_for_password("locked");
    let url = engine.url();
    let server = url
        .rsplit('@')
        .next()
        .unwrap()
        .split('/')
        .next()
        .unwrap()
        .to_owned();
    let cases = [
        (
            url.replace("//test@", "//locked:hush@"),
            "it refuses the user `locked`: the password is wrong".to_owned(),
        ),
        (
            url.replace("//test@", "//nobody:hush@"),
            "it refuses the user `nobody`: ".to_owned(),
        ),
        (
            url.replace("/postgres", "/nowhere"),
            "there is no database `nowhere`".to_owned(),
        ),
        (
            url.replace("//test@", "//reader:hush@"),
            "the server accepts no writes; is it a standby?".to_owned(),
        ),
    ];
    for (url, what) in cases {
        let text = refusal(&url).await;
        assert!(
            text.contains(&format!("the database server {server}: {what}")),
            "{text}"
        );
    }
    // With the right password, the app starts.
    let config = Config::new()
        .signing_secret(server::SECRET)
        .port(0)
        .database(url.replace("//test@", "//locked:right@"));
    App::new(config)
        .plugin(JwtAuth::new())
        .package(&SILENT)
        .start()
        .await
        .unwrap()
        .stop()
        .await
        .unwrap();
}

/// A table under an earlier name is reported: an empty new table would look like lost records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_under_a_former_name_is_reported_at_start_up() {
    let engine = tokio::task::spawn_blocking(database::Server::start)
        .await
        .unwrap();
    let url = database::fresh_schema(&engine.url());
    database::execute(&url, "CREATE TABLE ancient (id text PRIMARY KEY)").unwrap();
    let start = || async {
        let config = Config::new()
            .signing_secret(server::SECRET)
            .port(0)
            .database(&url);
        App::new(config)
            .plugin(JwtAuth::new())
            .package(&RENAMED)
            .start()
            .await
    };
    let error = start().await.err().unwrap();
    let text = format!(
        "{error}: {}",
        std::error::Error::source(&error)
            .map(ToString::to_string)
            .unwrap_or_default()
    );
    assert!(
        text.contains("tables of this app but no ledger of migrations: `ancient`"),
        "{text}"
    );
    database::execute(&url, "DROP TABLE ancient").unwrap();
    start().await.unwrap().stop().await.unwrap();
}

#[entity(rename_from = "ancient")]
#[derive(Clone, Debug)]
pub struct Renamed {
    #[field(primary)]
    pub id: String,
}

static RENAMED: Package = package!(name = "renamed", entities = [entity(Renamed, [])]);

/// A package without entities.
static SILENT: Package = package!(name = "silent", entities = []);

#[entity]
#[derive(Clone, Debug)]
pub struct Tick {
    #[field(primary, default = uuid)]
    pub id: String,
    pub slug: String,
}

static TICKS: Package = package!(name = "ticks", entities = [entity(Tick, [])]);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_stays_within_its_connection_limits() {
    let engine = tokio::task::spawn_blocking(database::Server::start)
        .await
        .unwrap();
    let delivered: DeliveredSlugs = Arc::default();
    let postgres = || Postgres {
        readers: Some(1),
        scans: Some(1),
        writers: Some(2),
        pool: Some(1),
        transactions: Some(1),
        ..Postgres::default()
    };
    let url = database::fresh_schema(&engine.url());
    let config = Config::new()
        .signing_secret(server::SECRET)
        .port(0)
        .database(&url)
        .postgres(postgres());
    let app = App::new(config)
        .plugin(JwtAuth::new())
        .package(&TICKS)
        .event_sink("log", Log(Arc::clone(&delivered)));
    let running = app.start().await.unwrap();
    let ticks = running.adapter::<Tick>().unwrap();
    let cx = linchpin::Cx::system("a test");
    let made = futures_util::future::join_all((0..100).map(|n| {
        let (ticks, cx) = (&ticks, &cx);
        async move {
            let tick = ticks
                .create(
                    cx,
                    TickCreate {
                        slug: n.to_string(),
                    },
                )
                .await?;
            cx.transaction(async |cx| ticks.get(cx, tick.id.as_str()).await)
                .await
        }
    }))
    .await;
    let failed: Vec<_> = made.iter().filter_map(|m| m.as_ref().err()).collect();
    assert!(
        failed.is_empty(),
        "{} failed: {:?}",
        failed.len(),
        failed[0]
    );
    let count =
        "SELECT count(*)::text, '' FROM pg_stat_activity WHERE application_name = 'linchpin'";
    let open: usize = database::rows(&url, count, |n, _| n.parse().unwrap())[0];
    // The terms, in order: connections for reads; for long reads and their first attempts (1 + 1);
    // for writes; for writes with events; for transactions; for the pool; for the delivery of
    // events.
    assert!(
        (4..=1 + 2 + 2 + 2 + 1 + 1 + 1).contains(&open),
        "{open} connections"
    );
    running.stop().await.unwrap();
    // The server process of a closed connection ends asynchronously, so the last ones may still be
    // listed for a moment.
    for left in (0..100).rev() {
        let open: usize = database::rows(&url, count, |n, _| n.parse().unwrap())[0];
        assert!(open == 0 || left > 0, "{open} connections are still open");
        if open == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The server logs the plan of each statement that the routes run; none of them scans a table that
/// has an index.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_and_lookups_over_indexed_filters_scan_no_table() {
    let engine = tokio::task::spawn_blocking(database::Server::start)
        .await
        .unwrap();
    let url = database::fresh_schema(&engine.url());
    let explain_options =
        "%20-c%20session_preload_libraries%3Dauto_explain%20-c%20auto_explain.log_min_duration%3D0";
    let app = Server::at(&fixture::BLOG, format!("{url}{explain_options}")).await;
    let seed_sql = "INSERT INTO blog_posts (id, slug, title, category, status, score, views, live, created_at, updated_at) \
        SELECT gen_random_uuid(), 's' || n, 't' || n % 50, 'c' || n % 50, 'draft', n, 0, false, now() - n * interval '1 s', now() \
        FROM generate_series(1, 20000) n; ANALYZE blog_posts";
    database::execute(&url, seed_sql).unwrap();
    let first = app.get("/posts").await.json();
    let key = first["items"][0]["id"].as_str().unwrap().to_owned();
    let titled = app.get("/posts?title=t1&sort=title").await.json();
    let cursor = |page: &serde_json::Value| page["nextCursor"].as_str().unwrap().to_owned();
    for path in [
        "/posts".to_owned(),
        format!("/posts?cursor={}", cursor(&first)),
        format!("/posts/{key}"),
        "/posts?title=t1".to_owned(),
        "/posts?title=t1&sort=title".to_owned(),
        format!("/posts?title=t1&sort=title&cursor={}", cursor(&titled)),
        "/posts?category=c7".to_owned(),
        "/posts?slug=s99".to_owned(),
        "/posts/by-slug?slug=s99".to_owned(),
        "/posts/by-category?category=c7".to_owned(),
        "/posts/newest?category=c7".to_owned(),
        "/posts/slug-taken?slug=s99".to_owned(),
    ] {
        // After several executions of a prepared statement, the server may choose another plan.
        for _ in 0..7 {
            let before = engine.log().len();
            let reply = app.get(&path).await;
            assert_eq!(reply.status, 200, "{path} {reply:?}");
            let log = engine.log().split_off(before);
            assert!(
                log.contains("blog_posts") && log.contains("plan:"),
                "{path} left no plan: {log}"
            );
            assert!(
                log.contains("Index") && !log.contains("Seq Scan"),
                "{path}: {log}"
            );
        }
    }
    // A statement without an index is detected; otherwise this test could not fail.
    let before = engine.log().len();
    database::execute(
        &format!("{url}{explain_options}"),
        "SELECT 1 FROM blog_posts WHERE email = 'nobody'",
    )
    .unwrap();
    assert!(
        engine
            .log()
            .split_off(before)
            .contains("Seq Scan on blog_posts")
    );
}
