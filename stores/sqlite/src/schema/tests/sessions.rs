//! Tests of sessions on files: transactions, errors, the lock of migrations, and copies.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use linchpin_core::schema::{
    Action, Bound, ColumnKind, Index, IndexState, Locking, RowCount, SchemaFault, SchemaSession,
    SchemaStore, Tables, TransactionMode,
};
use linchpin_core::{Timestamp, Value};
use rusqlite::Connection;

use super::{ddl, execute_on_file, file, thing};
use crate::schema::SqliteSchema;
use crate::schema::session::Session;

const INTEGER: &[ColumnKind] = &[ColumnKind::Integer];

fn session(folder: &tempfile::TempDir) -> Session {
    SqliteSchema::unshared(file(folder)).session()
}

/// A file with the table, in write-ahead mode, that no process uses.
fn make_closed_file(folder: &tempfile::TempDir) {
    execute_on_file(&file(folder), &["PRAGMA journal_mode = WAL".to_owned()]);
    execute_on_file(&file(folder), &ddl());
}

/// The names of the files in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names
        .map(|name| name.into_string().expect("UTF-8"))
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn reads_create_and_change_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut session = session(&folder);
    // A missing file is an empty database.
    session.begin(TransactionMode::Read).await.expect("begun");
    assert_eq!(session.tables().await.expect("tables"), [""; 0]);
    let found = session.compare(&[&thing()]).await.expect("compared");
    assert_eq!(found.len(), 1, "{found:#?}");
    session.rollback().await;
    let missing = session.locator().await.expect("a locator");
    assert_eq!(names(folder.path()), [""; 0]);

    make_closed_file(&folder);
    let before = std::fs::read(file(&folder)).expect("bytes");
    for writable in [true, false] {
        let mode = if writable { 0o700 } else { 0o500 };
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(mode)).expect("set");
        session.begin(TransactionMode::Read).await.expect("begun");
        assert_eq!(session.compare(&[&thing()]).await.expect("compared"), []);
        assert_eq!(
            session.count("conformance_things").await.expect("counted"),
            RowCount::Exact(0)
        );
        assert_eq!(names(folder.path()), ["test.db"]);
        session.rollback().await;
        assert_eq!(
            session.tables().await.expect("tables"),
            ["conformance_things"]
        );
        assert_eq!(names(folder.path()), ["test.db"]);
    }
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).expect("set");
    assert_eq!(std::fs::read(file(&folder)).expect("bytes"), before);
    let present = session.locator().await.expect("a locator");
    assert_eq!(present["path"], missing["path"]);
    assert_eq!(present["path"].len(), 64);
    assert!(present.contains_key("file") && !missing.contains_key("file"));
}

#[tokio::test]
async fn a_copy_of_a_file_is_another_database() {
    let folder = tempfile::tempdir().expect("a folder");
    make_closed_file(&folder);
    let mut one = session(&folder);
    let before = one.locator().await.expect("a locator");
    assert_eq!(one.locator().await.expect("a locator"), before);
    // A file that replaces another one has the same path, but is another database.
    let copy = folder.path().join("copy.db");
    std::fs::copy(file(&folder), &copy).expect("copied");
    let mut other = SqliteSchema::unshared(copy.clone()).session();
    assert_ne!(
        other.locator().await.expect("a locator")["path"],
        before["path"]
    );
    std::fs::rename(copy, file(&folder)).expect("replaced");
    let after = one.locator().await.expect("a locator");
    assert_eq!(after["path"], before["path"]);
    assert_ne!(after["file"], before["file"]);
}

#[tokio::test]
async fn a_read_sees_one_state_and_refuses_a_changed_file() {
    // With a write-ahead log, a transaction reads the state of its first statement.
    let folder = tempfile::tempdir().expect("a folder");
    make_closed_file(&folder);
    let writer = Connection::open(file(&folder)).expect("the file");
    let insert = "INSERT INTO conformance_things (id, status) VALUES (hex(randomblob(8)), 'draft')";
    writer.execute(insert, []).expect("inserted");
    let mut reader = session(&folder);
    let sql = "SELECT count(*) FROM conformance_things";
    reader.begin(TransactionMode::Read).await.expect("begun");
    writer.execute(insert, []).expect("inserted");
    let counted = reader.query(sql, &[], INTEGER).await.expect("counted");
    assert_eq!(counted, [[Value::Int(1)]]);
    reader.commit().await.expect("ended");
    let counted = reader.query(sql, &[], INTEGER).await.expect("counted");
    assert_eq!(counted, [[Value::Int(2)]]);
    drop(writer);
    // Without a log, no other process may write during the read.
    reader.begin(TransactionMode::Read).await.expect("begun");
    let writer = Connection::open(file(&folder)).expect("the file");
    writer.execute(insert, []).expect("inserted");
    let refused = reader.query(sql, &[], INTEGER).await.expect_err("refused");
    assert_eq!(refused.fault, SchemaFault::LockTimeout, "{refused}");
    reader.rollback().await;
    let counted = reader.query(sql, &[], INTEGER).await.expect("counted");
    assert_eq!(counted, [[Value::Int(3)]]);
}

#[tokio::test]
async fn values_of_all_kinds_are_bound_and_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut session = session(&folder);
    let bound: Vec<Bound> = vec![
        (Value::Text("it's".to_owned()), ColumnKind::String),
        (Value::Bool(true), ColumnKind::Boolean),
        (Value::Int(-1), ColumnKind::Integer),
        (Value::Float(0.5), ColumnKind::Number),
        (Value::Date(Timestamp::from_millis(7)), ColumnKind::Date),
        (
            Value::Strings(vec!["a\"".to_owned()]),
            ColumnKind::StringArray,
        ),
        (Value::Json("{\"a\":1}".to_owned()), ColumnKind::Json),
        (Value::Null, ColumnKind::Integer),
        (Value::Int(10), ColumnKind::Integer),
        (Value::Int(11), ColumnKind::Integer),
    ];
    let (values, kinds): (Vec<Value>, Vec<ColumnKind>) = bound.iter().cloned().unzip();
    // The statement uses the parameters in another order.
    let sql = "SELECT a, b, c, d, e, f, g, h, j, k FROM (SELECT $11 AS l, $10 AS k, $9 AS j, \
               $8 AS h, $7 AS g, $6 AS f, $5 AS e, $4 AS d, $3 AS c, $2 AS b, $1 AS a)";
    let rows = session.query(sql, &bound, &kinds).await.expect("read");
    assert_eq!(rows, [values]);
    let wrong = session.query("SELECT 'a'", &[], INTEGER).await;
    assert_eq!(wrong.expect_err("text").fault, SchemaFault::Other);
    // An unknown name in double quotes is an error.
    let unknown = session
        .query("SELECT \"unknown\"", &[], &[ColumnKind::String])
        .await;
    assert!(unknown.expect_err("unknown").message.contains("unknown"));
    let now = session.now().await.expect("the time").millis();
    assert!((Timestamp::system_now().millis() - now).abs() < 60_000);
}

#[tokio::test]
async fn errors_of_the_database_are_converted_to_schema_faults() {
    let folder = tempfile::tempdir().expect("a folder");
    make_closed_file(&folder);
    let insert = "INSERT INTO conformance_things (id, status) VALUES ('a', 'draft')";
    let mut one = session(&folder);
    one.set_lock_timeout(Duration::from_millis(30));
    // The lock of another session.
    let other = Connection::open(file(&folder)).expect("the file");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    let start = Instant::now();
    let error = one.begin(TransactionMode::Write).await.expect_err("locked");
    assert_eq!(error.fault, SchemaFault::LockTimeout, "{error}");
    assert!(start.elapsed() < Duration::from_secs(2));
    other.execute_batch("ROLLBACK").expect("ended");
    // A row that a constraint refuses. Its values are not in the message.
    one.begin(TransactionMode::Write).await.expect("begun");
    assert_eq!(one.execute(insert, &[]).await.expect("inserted"), 1);
    for sql in [
        insert,
        "INSERT INTO conformance_things (id, status) VALUES ('secret', 'secret')",
        "INSERT INTO conformance_things (id, status, meta) VALUES ('secret', 'draft', 'secret')",
    ] {
        let error = one.execute(sql, &[]).await.expect_err("refused");
        assert_eq!(error.fault, SchemaFault::Violation, "{error}");
        assert!(!error.message.contains("secret"), "{error}");
    }
    one.rollback().await;
    let error = one.commit().await.expect_err("nothing to commit");
    assert_eq!(error.fault, SchemaFault::Other, "{error}");
    // A full disk.
    one.begin(TransactionMode::Write).await.expect("begun");
    one.query("PRAGMA max_page_count = 8", &[], &[])
        .await
        .expect("set");
    let fill = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) \
                INSERT INTO conformance_things (id, status) SELECT i, 'draft' FROM n";
    let error = one.execute(fill, &[]).await.expect_err("full");
    assert_eq!(error.fault, SchemaFault::Full, "{error}");
    one.rollback().await;
    drop(other);
    let rows = one
        .query("SELECT count(*) FROM conformance_things", &[], INTEGER)
        .await;
    assert_eq!(rows.expect("counted"), [[Value::Int(0)]]);
    drop(one);
    // A write in a read transaction is refused.
    let mut one = session(&folder);
    one.begin(TransactionMode::Read).await.expect("begun");
    let error = one.execute(insert, &[]).await.expect_err("a read");
    assert_eq!(error.fault, SchemaFault::Forbidden, "{error}");
    drop(one);
    // No folder, a file that is not a database, and a damaged database.
    let mut none = SqliteSchema::unshared(folder.path().join("no/test.db")).session();
    for mode in [TransactionMode::Write] {
        let error = none.begin(mode).await.expect_err("no folder");
        assert_eq!(error.fault, SchemaFault::Unreachable, "{error}");
    }
    let mut bytes = std::fs::read(file(&folder)).expect("bytes");
    bytes[100..].fill(0x5a);
    std::fs::write(file(&folder), bytes).expect("written");
    let mut one = session(&folder);
    for mode in [TransactionMode::Read, TransactionMode::Write] {
        let error = one.begin(mode).await.expect_err("damaged");
        assert_eq!(error.fault, SchemaFault::Damaged, "{error}");
    }
    std::fs::write(
        file(&folder),
        "no database at all, but long enough".repeat(99),
    )
    .expect("text");
    let error = session(&folder).tables().await.expect_err("text");
    assert_eq!(error.fault, SchemaFault::Damaged, "{error}");
}

#[tokio::test]
async fn rows_are_counted_up_to_a_limit_then_estimated() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut session = session(&folder);
    execute_on_file(
        &file(&folder),
        &["CREATE TABLE \"a\"\"b\" (id INTEGER PRIMARY KEY, n)".to_owned()],
    );
    let fill = |n: u32| {
        format!(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {n}) \
             INSERT OR REPLACE INTO \"a\"\"b\" SELECT i, i FROM n"
        )
    };
    execute_on_file(&file(&folder), &[fill(100_000)]);
    assert_eq!(
        session.count("a\"b").await.expect("counted"),
        RowCount::Exact(100_000)
    );
    execute_on_file(&file(&folder), &[fill(100_001)]);
    assert_eq!(
        session.count("a\"b").await.expect("counted"),
        RowCount::Unknown
    );
    execute_on_file(
        &file(&folder),
        &[
            "CREATE INDEX n ON \"a\"\"b\" (n)",
            "ANALYZE",
            &fill(100_005),
        ]
        .map(str::to_owned),
    );
    assert_eq!(
        session.count("a\"b").await.expect("counted"),
        RowCount::Estimate(100_001)
    );
    session.count("missing").await.expect_err("no table");
    let index = |name: &str| Index {
        name: name.to_owned(),
        unique: false,
        keys: Vec::new(),
        only: Vec::new(),
    };
    let state = session.index_state(&index("n")).await.expect("a state");
    assert_eq!(state, IndexState::Valid);
    let state = session.index_state(&index("a\"b")).await.expect("a state");
    assert_eq!(state, IndexState::Absent);
}

#[tokio::test]
async fn work_continues_after_its_caller_stops_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    make_closed_file(&folder);
    let mut session = session(&folder);
    session.begin(TransactionMode::Write).await.expect("begun");
    let tables = Tables::new();
    let action = Action::CreateTable {
        table: linchpin_core::schema::Table {
            name: "late".to_owned(),
            ..thing()
        },
    };
    let mut work = session.perform(&action, &tables);
    // The call is polled once and then dropped.
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let _ = work.as_mut().poll(&mut cx);
    drop(work);
    session.commit().await.expect("committed");
    let tables = session.tables().await.expect("tables");
    assert_eq!(tables, ["conformance_things", "late"]);
}

#[tokio::test]
async fn only_one_process_has_the_lock_of_migrations() {
    let folder = tempfile::tempdir().expect("a folder");
    let one = SqliteSchema::unshared(file(&folder));
    let Locking::Taken(mut lock) = one.try_lock().await.expect("tried") else {
        panic!("the lock is free")
    };
    lock.check().await.expect("held");
    // Another name of the same file has the same lock.
    make_closed_file(&folder);
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(file(&folder), &link).expect("a link");
    for path in [file(&folder), link] {
        let other = SqliteSchema::shared(path);
        let Locking::Busy(holder) = other.try_lock().await.expect("tried") else {
            panic!("the lock is taken")
        };
        let process = format!(", process {}, since 2", std::process::id());
        assert!(holder.contains(&process), "{holder}");
    }
    // The `flock` command of the system finds the lock, too.
    let path = folder.path().join("test.db.migrate-lock");
    let flock = |path: &Path| {
        let mut command = std::process::Command::new("flock");
        command.arg("--nonblock").arg(path).arg("true");
        command.status().ok().map(|status| status.success())
    };
    assert_ne!(flock(&path), Some(true));
    drop(lock);
    assert_ne!(flock(&path), Some(false));
    let Locking::Taken(mut lock) = one.try_lock().await.expect("tried") else {
        panic!("the lock is free again")
    };
    std::fs::remove_file(&path).expect("removed");
    let error = lock
        .check()
        .await
        .expect_err("another process can lock the file");
    assert_eq!(error.fault, SchemaFault::LockLost, "{error}");
}

#[tokio::test]
async fn the_last_three_copies_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    make_closed_file(&folder);
    execute_on_file(
        &file(&folder),
        &["INSERT INTO conformance_things (id, status) VALUES ('a', 'draft')".to_owned()],
    );
    std::fs::write(folder.path().join("test.db.before-breakfast"), "other").expect("written");
    let mut session = session(&folder);
    let mut copies = Vec::new();
    for seq in [7, 8, 8, 10] {
        copies.extend(session.back_up(seq).await.expect("copied"));
        // The oldest copies are removed, and some systems store the time of a file with a low
        // resolution.
        std::thread::sleep(Duration::from_millis(20));
    }
    let expected = [
        "test.db.before-7",
        "test.db.before-8",
        "test.db.before-8-2",
        "test.db.before-10",
    ];
    assert_eq!(copies, expected);
    drop(session);
    let mut left = names(folder.path());
    left.retain(|name| name.contains(".before-"));
    let expected = [
        "test.db.before-10",
        "test.db.before-8",
        "test.db.before-8-2",
        "test.db.before-breakfast",
    ];
    assert_eq!(left, expected);
    let copy = folder.path().join("test.db.before-10");
    let mode = std::fs::metadata(&copy)
        .expect("metadata")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let copied = Connection::open(copy).expect("a database");
    let rows = copied.query_row("SELECT count(*) FROM conformance_things", [], |row| {
        row.get::<_, i64>(0)
    });
    assert_eq!(rows.expect("a count"), 1);
}

#[tokio::test]
async fn a_failed_copy_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    make_closed_file(&folder);
    let mut session = session(&folder);
    session.begin(TransactionMode::Write).await.expect("begun");
    session.back_up(1).await.expect_err("a transaction is open");
    session.rollback().await;
    drop(session);
    assert_eq!(names(folder.path()), ["test.db"]);
}
