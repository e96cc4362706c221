//! The embedded store against the model, and what only it can get wrong.

use std::sync::Arc;

use super::*;
use crate::filter::{Filter, Source};
use crate::store::conformance::{THING, agrees_with_memory};
use crate::store::{After, Order};

fn open(folder: &tempfile::TempDir) -> SqliteStore {
    SqliteStore::open(SqliteOptions::new(folder.path().join("test.db"))).expect("a fresh file opens")
}

#[test]
fn agrees_with_the_memory_store() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let _entered = runtime.enter();
    agrees_with_memory(100, || {
        let folder = tempfile::tempdir().expect("a folder");
        let mut options = SqliteOptions::new(folder.path().join("test.db"));
        options.durability = Durability::Normal;
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).expect("a fresh file opens"));
        (store, folder)
    });
}

/// The access path SQLite chooses for a plan.
fn explain(folder: &tempfile::TempDir, plan: &Plan) -> String {
    let native = render::render(&THING, plan).expect("a plan");
    let connection = rusqlite::Connection::open(folder.path().join("test.db")).expect("the file");
    reader::prepare(&connection).expect("functions");
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", native.sql)).expect("a statement");
    let count = statement.parameter_count();
    let rows = statement.query_map(rusqlite::params_from_iter((0..count).map(|_| 1)), |row| row.get::<_, String>(3)).expect("rows");
    rows.map(|r| r.expect("text")).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_by_key_and_pages_use_an_index() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    store.install(&[&THING]).await.expect("installed");
    let arg = |index| Source::Arg { index, nullable: false };
    let by_key = Plan::Select { filter: Filter::eq_arg(0, 0), order: Vec::new(), after: None, limit: None };
    let by_slug = Plan::Select { filter: Filter::eq_arg(1, 0), order: Vec::new(), after: None, limit: None };
    let order = vec![Order { field: 0, desc: true }];
    let after = Some(After { keys: vec![Some(0)] });
    let page = Plan::Select { filter: Filter::TRUE, order, after, limit: Some(arg(1)) };
    for plan in [by_key, by_slug, page] {
        let path = explain(&folder, &plan);
        assert!(path.contains("SEARCH") && !path.contains("TEMP B-TREE") && !path.contains("SCAN"), "{plan:?}\n{path}");
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declared_schema_installs_twice_and_a_changed_one_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    store.install(&[&THING]).await.expect("created");
    store.install(&[&THING]).await.expect("found as declared");
    let table = quote_table();
    let sql = format!("ALTER TABLE {table} ADD COLUMN \"extra\" TEXT");
    sqlx::query(sqlx::AssertSqlSafe(sql)).execute(store.pool()).await.expect("altered");
    let error = store.install(&[&THING]).await.expect_err("a column more").to_string();
    assert!(error.contains("column not declared: \"extra\" TEXT"), "{error}");
    store.close().await;
}

fn quote_table() -> String {
    render::quote(THING.storage_name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_store_refuses_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    store.install(&[&THING]).await.expect("installed");
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    store.close().await;
    let refused = store.run(&insert, vec![Value::Null; THING.fields.len()], Rows::count()).await;
    assert_eq!(refused.err().map(|e| e.code().status()), Some(503));
    assert!(store.ready().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn durable_by_default() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("test.db");
    for (durability, expected) in [(Durability::Full, 2), (Durability::Normal, 1)] {
        let connection = writer::connect(&path, durability).expect("opened");
        let synchronous: i64 = connection.query_row("PRAGMA synchronous", [], |r| r.get(0)).expect("a number");
        let mode: String = connection.query_row("PRAGMA journal_mode", [], |r| r.get(0)).expect("a mode");
        assert_eq!((synchronous, mode.as_str()), (expected, "wal"));
    }
}

fn thing(id: &str, slug: &str) -> Vec<Value> {
    let mut values: Vec<Value> = THING.fields.iter().map(|f| sample(f.kind, f.optional)).collect();
    values[0] = Value::Text(id.to_owned());
    values[1] = Value::Text(slug.to_owned());
    values
}

fn sample(kind: crate::entity::Kind, optional: bool) -> Value {
    use crate::entity::Kind;
    match kind {
        _ if optional => Value::Null,
        Kind::String => Value::Text("x".to_owned()),
        Kind::Boolean => Value::Bool(false),
        Kind::Integer => Value::Int(0),
        Kind::Number => Value::Float(0.0),
        Kind::Date => Value::Date(crate::Timestamp::from_millis(0)),
        Kind::Enum(desc) => Value::Text(desc.variants[0].to_owned()),
        Kind::StringArray => Value::Strings(Vec::new()),
        Kind::Json | Kind::Items(_) => Value::Json("[]".to_owned()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_write_leaves_the_others_of_its_group() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    store.install(&[&THING]).await.expect("installed");
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    // Queued without waiting, so that the writer finds many at once: every third one repeats a slug.
    let replies = (0..60).map(|i| {
        let slug = if i % 3 == 2 { "s0".to_owned() } else { format!("s{i}") };
        store.run(&insert, thing(&format!("k{i:02}"), &slug), Rows::count())
    });
    let replies: Vec<_> = replies.collect();
    let mut refused = 0;
    for (i, reply) in replies.into_iter().enumerate() {
        match reply.await {
            Ok(_) => assert_ne!(i % 3, 2, "{i}"),
            Err(error) => {
                assert_eq!((i % 3, error.code()), (2, crate::Code::Conflict), "{error:?}");
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 20);
    let all = store.prepare(&THING, Plan::Select { filter: Filter::TRUE, order: Vec::new(), after: None, limit: None }).expect("a plan");
    assert_eq!(store.run(&all, Vec::new(), Rows::count()).await.map(|r| r.count).ok(), Some(40));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_refuses_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = SqliteOptions::new(folder.path().join("test.db"));
    options.queue = 1;
    let store = SqliteStore::open(options).expect("a fresh file opens");
    store.install(&[&THING]).await.expect("installed");
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    // Another process holds the lock, so the writer waits and the queue fills.
    let other = rusqlite::Connection::open(folder.path().join("test.db")).expect("the file");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let replies: Vec<_> = (0..10).map(|i| store.run(&insert, thing(&format!("k{i}"), &format!("s{i}")), Rows::count())).collect();
    let refused = replies.iter().filter(|r| matches!(r, Reply::Ready(Err(e)) if e.code() == crate::Code::Unavailable)).count();
    assert!(refused >= 7, "{refused} of 10 were refused");
    other.execute_batch("ROLLBACK").expect("the lock is free");
    let mut kept = 0;
    for reply in replies {
        kept += usize::from(reply.await.is_ok());
    }
    assert_eq!(kept + refused, 10);
    store.close().await;
}
