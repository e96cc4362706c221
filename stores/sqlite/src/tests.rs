//! Compares the embedded store with the memory store, and tests its threads and queues.

use std::sync::Arc;

use super::*;
use linchpin_conformance::{THING, agrees_with_memory, items_agree_with_memory};
use linchpin_core::filter::{Filter, Source};
use linchpin_core::store::Order;
use linchpin_core::store::create_tables;

pub(super) fn open(folder: &tempfile::TempDir) -> SqliteStore {
    SqliteStore::open(SqliteOptions::new(folder.path().join("test.db")))
        .expect("a fresh file opens")
}

fn fresh() -> (Arc<dyn Store>, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = SqliteOptions::new(folder.path().join("test.db"));
    options.durability = Durability::Normal;
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).expect("a fresh file opens"));
    (store, folder)
}

#[test]
fn agrees_with_the_memory_store() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    agrees_with_memory(100, fresh);
    items_agree_with_memory(60, fresh);
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_on_disk_by_default() {
    for (durability, expected) in [(Durability::Full, 2), (Durability::Normal, 1)] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut options = SqliteOptions::new(folder.path().join("test.db"));
        options.durability = durability;
        let store = SqliteStore::open(options).expect("a fresh file opens");
        create_tables(&store, &[&THING]).await.expect("created");
        let connection = file::open(&folder.path().join("test.db"), durability).expect("opened");
        let synchronous: i64 = connection
            .query_row("PRAGMA synchronous", [], |r| r.get(0))
            .expect("a number");
        let mode: String = connection
            .query_row("PRAGMA journal_mode", [], |r| r.get(0))
            .expect("a mode");
        assert_eq!((synchronous, mode.as_str()), (expected, "wal"));
        store.close().await;
    }
}

pub(super) fn thing(id: &str, slug: &str) -> Vec<Value> {
    let mut values: Vec<Value> = THING
        .fields
        .iter()
        .map(|f| sample(f.kind, f.optional))
        .collect();
    values[0] = Value::Text(id.to_owned());
    values[1] = Value::Text(slug.to_owned());
    values
}

fn sample(kind: linchpin_core::entity::Kind, optional: bool) -> Value {
    use linchpin_core::entity::Kind;
    match kind {
        _ if optional => Value::Null,
        Kind::String => Value::Text("x".to_owned()),
        Kind::Boolean => Value::Bool(false),
        Kind::Integer => Value::Int(0),
        Kind::Number => Value::Float(0.0),
        Kind::Date => Value::Date(linchpin_core::Timestamp::from_millis(0)),
        Kind::Enum(desc) => Value::Text(desc.variants[0].to_owned()),
        Kind::StringArray => Value::Strings(Vec::new()),
        Kind::Json | Kind::Items(_) => Value::Json("[]".to_owned()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_write_does_not_affect_the_others_of_its_group() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    create_tables(&store, &[&THING]).await.expect("created");
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    // The writes are queued without waiting, so that the writer finds many at once. Every third one
    // repeats a slug.
    let replies = (0..60).map(|i| {
        let slug = if i % 3 == 2 {
            "s0".to_owned()
        } else {
            format!("s{i}")
        };
        store.run(&insert, thing(&format!("k{i:02}"), &slug), Rows::count())
    });
    let replies: Vec<_> = replies.collect();
    let mut refused = 0;
    for (i, reply) in replies.into_iter().enumerate() {
        match reply.await {
            Ok(_) => assert_ne!(i % 3, 2, "{i}"),
            Err(error) => {
                assert_eq!(
                    (i % 3, error.code()),
                    (2, linchpin_core::Code::Conflict),
                    "{error:?}"
                );
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 20);
    let all = store
        .prepare(
            &THING,
            Plan::Select {
                filter: Filter::TRUE,
                order: Vec::new(),
                after: None,
                limit: None,
            },
        )
        .expect("a plan");
    assert_eq!(
        store
            .run(&all, Vec::new(), Rows::count())
            .await
            .map(|r| r.count)
            .ok(),
        Some(40)
    );
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_refuses_writes_immediately() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = SqliteOptions::new(folder.path().join("test.db"));
    options.queue = 1;
    let store = SqliteStore::open(options).expect("a fresh file opens");
    create_tables(&store, &[&THING]).await.expect("created");
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    // Another process holds the lock, so the writer waits with its current group, and the queue
    // fills.
    let other = rusqlite::Connection::open(folder.path().join("test.db")).expect("the file");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let mut taken = Vec::new();
    let mut refused = 0;
    for i in 0..300 {
        match store.run(
            &insert,
            thing(&format!("k{i}"), &format!("s{i}")),
            Rows::count(),
        ) {
            Reply::Ready(Err(e))
                if e.code() == linchpin_core::Code::Unavailable
                    && e.retry_after_seconds() == Some(1) =>
            {
                refused += 1;
            }
            reply => taken.push(reply),
        }
    }
    assert!(refused >= 300 - 256 - 1, "{refused}");
    other.execute_batch("ROLLBACK").expect("the lock is free");
    for reply in taken {
        assert!(reply.await.is_ok());
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_reads_wait_in_a_bounded_queue() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = SqliteOptions::new(folder.path().join("test.db"));
    (options.scans, options.scan_queue) = (1, 2);
    let store = Arc::new(SqliteStore::open(options).expect("a fresh file opens"));
    create_tables(&*store, &[&THING]).await.expect("created");
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    store
        .run(&insert, thing("k", "s"), Rows::count())
        .await
        .expect("stored");
    // The title has no index.
    let scan = scan(&store);
    let by_key = store
        .prepare(
            &THING,
            Plan::Exists {
                filter: Filter::eq_arg(0, 0),
            },
        )
        .expect("a plan");
    let read = || {
        let (store, scan) = (Arc::clone(&store), Arc::clone(&scan));
        async move {
            store
                .run(&scan, vec![Value::Text("x".to_owned())], Rows::count())
                .await
                .map(|r| r.count)
        }
    };
    let slots = store.readers.pool.slots.occupy().await;
    let waiting: Vec<_> = (0..2).map(|_| tokio::spawn(read())).collect();
    while store.readers.pool.slots.queue_left() > 0 {
        tokio::task::yield_now().await;
    }
    let refused = read().await.expect_err("the queue is full");
    assert_eq!(
        (refused.code(), refused.retry_after_seconds()),
        (linchpin_core::Code::Unavailable, Some(1))
    );
    // Short reads do not wait for long ones.
    let Reply::Ready(found) = store.run(&by_key, vec![Value::Text("k".to_owned())], Rows::count())
    else {
        panic!("not inline")
    };
    assert_eq!(found.map(|r| r.count).ok(), Some(1));
    // A caller that stops waiting releases its entry in the queue.
    let mut waiting = waiting.into_iter();
    let (left, stays) = (
        waiting.next().expect("one"),
        waiting.next().expect("another"),
    );
    left.abort();
    assert!(left.await.is_err());
    assert_eq!(store.readers.pool.slots.queue_left(), 1);
    drop(slots);
    assert_eq!(stays.await.expect("not aborted").ok(), Some(0));
    assert_eq!(read().await.ok(), Some(0));
    store.close().await;
}

/// A read without an index. It makes no short attempt on the caller's thread, although the table is
/// small.
fn scan(store: &SqliteStore) -> Arc<Statement> {
    let scan = store
        .prepare(
            &THING,
            Plan::Exists {
                filter: Filter::eq_arg(2, 0),
            },
        )
        .expect("a plan");
    native(&scan).expect("of this store").short_reads.never();
    scan
}

/// A read that would take minutes: it counts to one billion.
fn endless() -> Arc<Statement> {
    let native = Native {
        sql: "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000) SELECT count(*) FROM n".into(),
        counting: None,
        read_back: None,
        existing_check: None,
        binds: Box::default(),
        runs: Runs::InPool,
        short_reads: linchpin_sql::short_reads::ShortReads::default(),
        columns: None,
        replaced: Box::default(),
        naming: Arc::default(),
    };
    let plan = Plan::Exists {
        filter: Filter::TRUE,
    };
    let native = Prepared::new(&Arc::default(), |_| Ok(native)).expect("rendered");
    Arc::new(Statement {
        entity: &THING,
        plan,
        native: Box::new(native),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_read_is_interrupted_when_its_caller_stops_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = SqliteOptions::new(folder.path().join("test.db"));
    options.scans = 1;
    let store = SqliteStore::open(options).expect("a fresh file opens");
    create_tables(&store, &[&THING]).await.expect("created");
    let endless = endless();
    for _ in 0..3 {
        let read = store.run(&endless, Vec::new(), Rows::count());
        assert!(
            tokio::time::timeout(Duration::from_millis(100), read)
                .await
                .is_err(),
            "it ended by itself"
        );
        // Its slot is free again. It is the only slot, so this read would be refused if the other
        // one were still running.
        let scan = scan(&store);
        let found = store
            .run(&scan, vec![Value::Text("x".to_owned())], Rows::count())
            .await;
        assert_eq!(found.map(|r| r.count).ok(), Some(0));
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_caller_cannot_take_all_slots_for_long_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = SqliteOptions::new(folder.path().join("test.db"));
    (options.scans, options.scan_queue) = (2, 8);
    let store = SqliteStore::open(options).expect("a fresh file opens");
    create_tables(&store, &[&THING]).await.expect("created");
    let endless = endless();
    let scan = scan(&store);
    let rows_of = |name: &str| {
        let mut rows = Rows::count();
        rows.caller = caller(name);
        rows
    };
    let read = |name| store.run(&scan, vec![Value::Text("x".to_owned())], rows_of(name));
    let mut greedy: Vec<_> = (0..3)
        .map(|_| store.run(&endless, Vec::new(), rows_of("greedy")))
        .collect();
    for read in &mut greedy {
        assert!(
            tokio::time::timeout(Duration::from_millis(50), read)
                .await
                .is_err(),
            "it ended by itself"
        );
    }
    // The caller has one slot and a queue of two: both are full, and the other slot is free.
    assert_eq!(
        read("greedy").await.map_err(|e| e.code()).map(|r| r.count),
        Err(linchpin_core::Code::Unavailable)
    );
    assert_eq!(read("modest").await.map(|r| r.count).ok(), Some(0));
    drop(greedy);
    assert_eq!(read("greedy").await.map(|r| r.count).ok(), Some(0));
    // Closing waits for the threads of the interrupted reads.
    store.close().await;
    while store.readers.pool.slots.callers() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_of_few_records_is_read_inline() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    create_tables(&store, &[&THING]).await.expect("created");
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    let scan = store
        .prepare(
            &THING,
            Plan::Exists {
                filter: Filter::eq_arg(2, 0),
            },
        )
        .expect("a plan");
    let read = || {
        store.run(
            &scan,
            vec![Value::Text("no such".to_owned())],
            Rows::count(),
        )
    };
    store
        .run(&insert, thing("k", "s"), Rows::count())
        .await
        .expect("inserted");
    for _ in 0..3 {
        assert!(matches!(read(), Reply::Ready(Ok(rows)) if rows.count == 0));
    }
    for chunk in 0..10 {
        let numbers = chunk * 500..(chunk + 1) * 500;
        let inserts: Vec<_> = numbers
            .map(|i| {
                store.run(
                    &insert,
                    thing(&format!("k{i}"), &format!("s{i}")),
                    Rows::count(),
                )
            })
            .collect();
        for inserted in inserts {
            inserted.await.expect("inserted");
        }
    }
    // The attempt was interrupted, but the read was answered. After the first interrupted attempt,
    // 16 reads make no attempt, and after the second one, 32 reads.
    let mut attempts = Vec::new();
    for n in 0..60 {
        let short_reads = &native(&scan).expect("of this store").short_reads;
        let before = short_reads.missed();
        let reply = read();
        assert!(matches!(reply, Reply::Later(_)), "{n}");
        assert_eq!(reply.await.expect("rows").count, 0);
        if short_reads.missed() > before {
            attempts.push(n);
        }
    }
    assert_eq!(attempts, [0, 17, 50]);
    // Attempts do not change the settings of the connection.
    let long = store
        .prepare(
            &THING,
            Plan::Select {
                filter: Filter::TRUE,
                order: Vec::new(),
                after: None,
                limit: None,
            },
        )
        .expect("a plan");
    native(&long).expect("of this store").short_reads.never();
    assert_eq!(
        store
            .run(&long, Vec::new(), Rows::count())
            .await
            .expect("rows")
            .count,
        5001
    );
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_pages_are_read_on_another_thread() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    create_tables(&store, &[&THING]).await.expect("created");
    let plan = Plan::Select {
        filter: Filter::TRUE,
        order: vec![Order {
            field: 0,
            desc: false,
        }],
        after: None,
        limit: Some(Source::Arg {
            index: 0,
            nullable: false,
        }),
    };
    let page = store.prepare(&THING, plan).expect("a plan");
    for (limit, inline) in [(1, true), (500, true), (501, false), (i64::MAX, false)] {
        let reply = store.run(&page, vec![Value::Int(limit)], Rows::count());
        assert_eq!(matches!(reply, Reply::Ready(_)), inline, "{limit}");
        reply.await.expect("a page");
    }
    assert!(
        store.run(&page, Vec::new(), Rows::count()).await.is_err(),
        "a limit is missing"
    );
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_store_refuses_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    linchpin_conformance::refuses_once_closed(&open(&folder)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_refuses_new_statements_and_finishes_accepted_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("test.db");
    let store = Arc::new(open(&folder));
    create_tables(&*store, &[&THING]).await.expect("created");
    let insert = store.prepare(&THING, Plan::Insert).expect("a plan");
    let by_key = store
        .prepare(
            &THING,
            Plan::Exists {
                filter: Filter::eq_arg(0, 0),
            },
        )
        .expect("a plan");
    let scan = scan(&store);
    let text = |t: &str| vec![Value::Text(t.to_owned())];
    // The write is accepted but not done yet when two callers close the store.
    let writes: Vec<_> = (0..600)
        .map(|i| {
            store.run(
                &insert,
                thing(&format!("k{i}"), &format!("s{i}")),
                Rows::count(),
            )
        })
        .collect();
    let closing = || {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.close().await })
    };
    let (one, two) = (closing(), closing());
    for write in writes {
        write.await.expect("an accepted write is done");
    }
    one.await.expect("closed");
    two.await.expect("closed");
    store.close().await;
    // All data is in the database file; the log is empty.
    let log = std::fs::metadata(folder.path().join("test.db-wal")).map_or(0, |m| m.len());
    assert_eq!(log, 0, "the log was not written back");
    for (statement, args) in [
        (&insert, thing("late", "late")),
        (&by_key, text("k1")),
        (&scan, text("x")),
    ] {
        let refused = store
            .run(statement, args, Rows::count())
            .await
            .expect_err("the store is closed");
        assert_eq!(refused.code(), linchpin_core::Code::Unavailable);
    }
    assert!(store.ready().await.is_err());
    let connection = rusqlite::Connection::open(&path).expect("the file");
    let count: i64 = connection
        .query_row("SELECT count(*) FROM conformance_things", [], |r| r.get(0))
        .expect("a number");
    assert_eq!(count, 600);
}

/// The id of a caller.
fn caller(name: &str) -> Option<std::num::NonZeroU64> {
    let number = name
        .bytes()
        .fold(7_u64, |all, byte| all * 31 + u64::from(byte));
    std::num::NonZeroU64::new(number | 1)
}
