//! Tests of faults of the file: it disappears, its disk is full, other processes lock it or write
//! invalid data into it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rusqlite::Connection;

use super::tests::{open, thing};
use super::*;
use linchpin_conformance::THING;
use linchpin_core::filter::Filter;
use linchpin_core::store::create_tables;
use linchpin_core::store::{Assign, AssignValue, Order, Projection};
use linchpin_core::{Code, Value};

fn path(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("test.db")
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

/// The code and the cause of a refusal.
fn refusal(outcome: Result<Rows>) -> (Code, String) {
    let error = outcome.expect_err("a refusal");
    (
        error.code(),
        std::error::Error::source(&error)
            .map(ToString::to_string)
            .unwrap_or_default(),
    )
}

/// Inserts a record.
async fn insert(store: &SqliteStore, id: &str) -> Result<Rows> {
    let insert = store.prepare(&THING, Plan::Insert)?;
    store.run(&insert, thing(id, id), Rows::count()).await
}

async fn is_there(store: &SqliteStore, id: &str) -> Result<bool> {
    let exists = store.prepare(
        &THING,
        Plan::Exists {
            filter: Filter::eq_arg(0, 0),
        },
    )?;
    Ok(store
        .run(&exists, vec![text(id)], Rows::count())
        .await?
        .count
        == 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_file_was_deleted_writes_are_refused_and_reads_are_answered() {
    for replaced in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Arc::new(open(&folder));
        create_tables(&*store, &[&THING]).await.expect("created");
        insert(&store, "before").await.expect("stored");
        assert!(is_there(&store, "before").await.expect("an answer"));
        // The file disappears under load. Each writer stops at its first refused write.
        let writers: Vec<_> = (0..4)
            .map(|w| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    for i in 0..10_000 {
                        if let Err(error) = insert(&store, &format!("{w}-{i}")).await {
                            return Some(error.code());
                        }
                    }
                    None
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(30)).await;
        std::fs::rename(path(&folder), folder.path().join("moved.db")).expect("moved");
        if replaced {
            std::fs::write(path(&folder), b"something else").expect("written");
        }
        for writer in writers {
            assert_eq!(writer.await.expect("no panic"), Some(Code::Unavailable));
        }
        let (code, cause) = refusal(insert(&store, "after").await);
        assert!(
            code == Code::Unavailable && cause.contains("test.db was deleted or replaced"),
            "{cause}"
        );
        assert!(store.ready().await.is_err());
        assert!(is_there(&store, "before").await.expect("reads go on"));
        store.close().await;
        if replaced {
            assert_eq!(
                std::fs::read(path(&folder)).expect("bytes"),
                b"something else"
            );
        }
    }
}

/// A store whose file is limited to this number of pages.
async fn open_limited(folder: &tempfile::TempDir, pages: u32) -> SqliteStore {
    let options = SqliteOptions::new(path(folder));
    let connection = file::open(&options.path, options.durability).expect("a fresh file opens");
    let store = open(folder);
    create_tables(&store, &[&THING]).await.expect("created");
    store.close().await;
    connection
        .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
        .expect("limited");
    SqliteStore::start(connection, options).expect("started")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_and_nothing_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open_limited(&folder, 60).await;
    let insert_statement = store.prepare(&THING, Plan::Insert).expect("a plan");
    let large = |id: &str| {
        let mut values = thing(id, id);
        values[2] = Value::Text("x".repeat(2000));
        values
    };
    // Groups of writes, until the file is full.
    let mut stored = Vec::new();
    let mut refused = 0;
    for round in 0..20 {
        let replies: Vec<_> = (0..10)
            .map(|i| {
                let id = format!("{round}-{i}");
                (store.run(&insert_statement, large(&id), Rows::count()), id)
            })
            .collect();
        for (reply, id) in replies {
            match reply.await {
                Ok(_) => stored.push(id),
                Err(error) => {
                    assert_eq!(error.code(), Code::Unavailable, "{error:?}");
                    refused += 1;
                }
            }
        }
    }
    assert!(
        refused > 100 && !stored.is_empty(),
        "{refused} refused, {} stored",
        stored.len()
    );
    // A group needs more room than a single write, which may still fit.
    let mut single = 0;
    let (code, cause) = loop {
        let id = format!("single-{single}");
        match store
            .run(&insert_statement, large(&id), Rows::count())
            .await
        {
            Ok(_) => stored.push(id),
            refused => break refusal(refused),
        }
        single += 1;
    };
    assert!(
        code == Code::Unavailable && cause.contains("full"),
        "{cause}"
    );
    // Reads still work, and refused writes are not stored.
    for id in &stored {
        assert!(is_there(&store, id).await.expect("reads go on"), "{id}");
    }
    assert!(
        !is_there(&store, &format!("single-{single}"))
            .await
            .expect("reads go on")
    );
    // After deletes there is room again, and writes work.
    let delete = store
        .prepare(
            &THING,
            Plan::Delete {
                filter: Filter::eq_arg(0, 0),
                pick: None,
            },
        )
        .expect("a plan");
    for id in stored.drain(..3) {
        assert_eq!(
            store
                .run(&delete, vec![text(&id)], Rows::count())
                .await
                .map(|r| r.count)
                .ok(),
            Some(1)
        );
    }
    store
        .run(&insert_statement, large("later"), Rows::count())
        .await
        .expect("there is room");
    store.close().await;
    let connection = Connection::open(path(&folder)).expect("the file");
    let integrity: String = connection
        .query_row("PRAGMA integrity_check", [], |r| r.get(0))
        .expect("an answer");
    let count: i64 = connection
        .query_row("SELECT count(*) FROM conformance_things", [], |r| r.get(0))
        .expect("a number");
    assert_eq!(
        (integrity.as_str(), count),
        ("ok", i64::try_from(stored.len()).expect("few") + 1)
    );
}

/// Whether the busy handler ends the wait of the writer for the lock. The test sets this after all
/// writes of a round are in the queue.
static ENQUEUED: AtomicBool = AtomicBool::new(false);
/// The number of times that the writer stopped waiting.
static LOCK_TIMEOUTS: AtomicUsize = AtomicUsize::new(0);

/// The busy handler: SQLite calls it while another connection holds the lock. It returns whether to
/// wait longer.
fn busy_handler(_: i32) -> bool {
    std::thread::sleep(Duration::from_millis(1));
    if ENQUEUED.load(Ordering::SeqCst) {
        LOCK_TIMEOUTS.fetch_add(1, Ordering::SeqCst);
        return false;
    }
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn all_waiting_writes_share_one_wait_for_the_lock_of_another_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = SqliteOptions::new(path(&folder));
    let connection = file::open(&options.path, options.durability).expect("a fresh file opens");
    connection.busy_handler(Some(busy_handler)).expect("set");
    let store = SqliteStore::start(connection, options).expect("started");
    create_tables(&store, &[&THING]).await.expect("created");
    let insert_statement = store.prepare(&THING, Plan::Insert).expect("a plan");
    let other = Connection::open(path(&folder)).expect("the file");
    for (round, count) in [1, 2, 1000].into_iter().enumerate() {
        other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
        let before = LOCK_TIMEOUTS.load(Ordering::SeqCst);
        let replies: Vec<_> = (0..count)
            .map(|i| {
                let id = format!("{round}-{i}");
                store.run(&insert_statement, thing(&id, &id), Rows::count())
            })
            .collect();
        ENQUEUED.store(true, Ordering::SeqCst);
        for reply in replies {
            let (code, cause) = refusal(reply.await);
            assert!(
                code == Code::Unavailable && cause.contains("locked"),
                "{cause}"
            );
        }
        // A thousand writes are at least four groups. All of them share one wait for the lock.
        assert_eq!(
            LOCK_TIMEOUTS.load(Ordering::SeqCst) - before,
            1,
            "waits for {count} writes"
        );
        ENQUEUED.store(false, Ordering::SeqCst);
        // Readers do not wait for writers.
        assert!(!is_there(&store, "x").await.expect("an answer"));
        other.execute_batch("ROLLBACK").expect("free");
        insert(&store, &format!("after-{round}"))
            .await
            .expect("the lock is free");
    }
    // A lock that is released in time causes no error.
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let reply = store.run(
        &insert_statement,
        thing("patient", "patient"),
        Rows::count(),
    );
    tokio::time::sleep(Duration::from_millis(50)).await;
    other.execute_batch("COMMIT").expect("free");
    reply.await.expect("stored");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_values_of_another_program_are_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    create_tables(&store, &[&THING]).await.expect("created");
    let other = Connection::open(path(&folder)).expect("the file");
    other
        .execute_batch("PRAGMA ignore_check_constraints = 1")
        .expect("set");
    let get = Plan::Select {
        filter: Filter::eq_arg(0, 0),
        order: Vec::new(),
        after: None,
        limit: None,
    };
    let get = store.prepare(&THING, get).expect("a plan");
    let order = vec![Order {
        field: 0,
        desc: false,
    }];
    let all = store
        .prepare(
            &THING,
            Plan::Select {
                filter: Filter::TRUE,
                order,
                after: None,
                limit: None,
            },
        )
        .expect("a plan");
    let set = vec![Assign {
        field: 1,
        value: AssignValue::Set(linchpin_core::filter::Source::Value(Value::Null)),
    }];
    let update = store
        .prepare(
            &THING,
            Plan::Update {
                filter: Filter::eq_arg(0, 0),
                set,
                pick: None,
            },
        )
        .expect("a plan");
    let json = Arc::new(Projection::readable(&THING));

    let cases = [
        ("rank", "9007199254740992", "is beyond 2^53 - 1"),
        ("rank", "-9223372036854775808", "is beyond 2^53 - 1"),
        ("ratio", "9e999", "is infinite"),
        ("live", "2", "is neither 0 nor 1"),
        (
            "due_at",
            "253402300800000",
            "is not within the years 1 to 9999",
        ),
        (
            "due_at",
            "-9223372036854775808",
            "is not within the years 1 to 9999",
        ),
        ("slug", "'a' || char(0) || 'b'", "contains a NUL character"),
        ("slug", "CAST(x'ff41' AS TEXT)", "is not UTF-8"),
        ("status", "'lost'", "is not a variant of its enum"),
        ("status", "''", "is not a variant of its enum"),
        ("tags", "'{}'", "is not a JSON array"),
        ("tags", "'[\"a\"'", "is not JSON"),
        ("meta", "''", "is not JSON"),
        ("meta", "'{\"a\":1}}'", "is not JSON"),
        ("meta", "'NaN'", "is not JSON"),
        ("meta", "CAST(x'22ff22' AS TEXT)", "is not UTF-8"),
    ];
    for (column, value, problem) in cases {
        insert(&store, "good").await.expect("stored");
        insert(&store, "odd").await.expect("stored");
        let changed = other.execute(
            &format!("UPDATE conformance_things SET {column} = {value} WHERE id = 'odd'"),
            [],
        );
        assert_eq!(changed, Ok(1), "{column} {value}");
        let expected = format!("conformance_things.{column} of the record \"odd\" {problem}");
        for rows in [Rows::json(&json), Rows::records(&THING)] {
            let (code, cause) = refusal(store.run(&get, vec![text("odd")], rows).await);
            assert!(
                code == Code::Internal && cause.starts_with(&expected),
                "{column} {value}: {cause}"
            );
        }
        for rows in [Rows::json(&json), Rows::records(&THING)] {
            assert_eq!(
                refusal(store.run(&all, Vec::new(), rows).await).0,
                Code::Internal,
                "{column} {value}"
            );
        }
        if column != "slug" {
            let (code, cause) = refusal(
                store
                    .run(&update, vec![text("odd")], Rows::json(&json))
                    .await,
            );
            assert!(
                code == Code::Internal && cause.starts_with(&expected),
                "{column} {value}: {cause}"
            );
        }
        // The other records are unchanged.
        let good = store
            .run(&get, vec![text("good")], Rows::json(&json))
            .await
            .expect("a record");
        assert!(serde_json::from_slice::<serde_json::Value>(&good.json).is_ok());
        other
            .execute("DELETE FROM conformance_things", [])
            .expect("emptied");
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    create_tables(&store, &[&THING]).await.expect("created");
    for i in 0..300 {
        insert(&store, &format!("k{i}")).await.expect("stored");
    }
    store.close().await;
    let mut bytes = std::fs::read(path(&folder)).expect("bytes");
    // Everything except the first page, which contains the schema.
    bytes[4096..].fill(0xa5);
    std::fs::write(path(&folder), &bytes).expect("written");
    let store = open(&folder);
    for id in ["k1", "new"] {
        let (code, cause) = refusal(insert(&store, id).await);
        assert!(
            code == Code::Internal && cause.contains("malformed"),
            "{cause}"
        );
        let error = is_there(&store, id).await.expect_err("a refusal");
        assert_eq!(error.code(), Code::Internal, "{error:?}");
    }
    store.close().await;
}
