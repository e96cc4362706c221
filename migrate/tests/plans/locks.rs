//! Tests of locks on Postgres. A run takes only brief locks, and delays other sessions only briefly
//! while it waits for a lock.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linchpin_migrate::{Applied, Exit, Options, Refusal, StepState};
use serde_json::json;
use tokio_postgres::{Client, NoTls};

use crate::history::REVIEWED;
use crate::support::{Database, Link, chain_with, entity_with, index, options};

/// The lock timeout of a statement. It also limits the time that other sessions wait because of the
/// lock request.
const LOCK_TIMEOUT: Duration = Duration::from_millis(15);

/// A table before and after nearly every kind of change.
pub(crate) fn changes(table: &str) -> [Link; 2] {
    let ix = |field: &str| index("ix", table, field);
    let before = entity_with(
        table,
        json!({
            "name": { "type": "string" },
            "email": { "type": "string", "optional": true },
            "status": { "type": "enum", "values": ["active", "left"] },
            "visits": { "type": "integer" },
            "gone": { "type": "string", "optional": true },
        }),
        json!({ "indexes": [ix("email"), ix("gone"), ix("name")] }),
    );
    let after = entity_with(
        table,
        json!({
            "title": { "type": "string", "optional": true, "formerNames": ["name"] },
            "email": { "type": "string", "default": { "literal": "none" } },
            "status": { "type": "enum", "values": ["active", "blocked"] },
            "visits": { "type": "string" },
            "level": { "type": "enum", "values": ["high", "low"], "optional": true },
            "token": { "type": "string", "default": { "kind": "uuid" } },
        }),
        json!({
            "indexes": [ix("email"), ix("level"), ix("title")],
            "uniques": [index("ux", table, "token")],
        }),
    );
    [
        Link::plain(before),
        Link::converted(after, (table, "visits"), &REVIEWED),
    ]
}

/// Applies the first of two migrations to a database and inserts some rows.
pub(crate) async fn install_and_fill(table: &str) -> Database {
    let database = Database::postgres().with(&[&REVIEWED]);
    let [first, _] = changes(table);
    database.apply_all(&chain_with(&[first])).await;
    let sql = format!(
        "INSERT INTO {table} (id, name, email, status, visits) SELECT n::text, 'name ' || n, \
         CASE WHEN n % 2 = 0 THEN 'e' || n END, 'active', n FROM generate_series(1, 50) AS n"
    );
    database.execute(&sql).await;
    database
}

/// A line of a session in the log of the server.
struct Logged {
    process: String,
    text: String,
}

/// All log lines of those sessions that name a table at least once.
fn logged(table: &str) -> Vec<Logged> {
    let log = crate::server::log();
    let line = |line: &str| {
        let (before, text) = line.split_once("] ")?;
        let (_, process) = before.rsplit_once('[')?;
        Some(Logged {
            process: process.to_owned(),
            text: text.to_owned(),
        })
    };
    let all: Vec<Logged> = log.lines().filter_map(line).collect();
    let named = format!("\"{table}\"");
    let processes: Vec<String> = all
        .iter()
        .filter(|line| line.text.contains(&named))
        .map(|line| line.process.clone())
        .collect();
    all.into_iter()
        .filter(|line| processes.contains(&line.process))
        .collect()
}

/// Returns two kinds of statements: those that name a table after an `ALTER TABLE` of the same
/// transaction took its strongest lock, and those that make the server scan or rewrite the table. A
/// `VALIDATE CONSTRAINT` may scan the table, because its lock is weaker.
fn reads_under_lock(lines: &[Logged], table: &str) -> Vec<String> {
    let (mut found, mut statement) = (Vec::new(), String::new());
    let (mut open, mut locked) = (false, None);
    let altered = format!("ALTER TABLE \"{table}\"");
    let named = format!("\"{table}\"");
    let mut process = "";
    for line in lines {
        if std::mem::replace(&mut process, &line.process) != line.process {
            locked = None;
        }
        let text = line.text.trim_start();
        if let Some(read) = text.strip_prefix("DEBUG:  ") {
            let reads = ["verifying table", "rewriting table"];
            let reads = reads.iter().any(|what| read.starts_with(what)) && read.contains(&named);
            if reads && !statement.contains("VALIDATE CONSTRAINT") {
                found.push(format!("{statement}: {read}"));
            }
            continue;
        }
        let Some((kind, sql)) = text.strip_prefix("LOG:  ").and_then(|l| l.split_once(": ")) else {
            continue;
        };
        if kind != "statement" && !kind.starts_with("execute") {
            continue;
        }
        sql.clone_into(&mut statement);
        if sql.starts_with("BEGIN") || sql.contains("COMMIT") || sql.starts_with("ROLLBACK") {
            (open, locked) = (sql.starts_with("BEGIN"), None);
        } else if sql.starts_with(&altered) && !sql.contains("VALIDATE CONSTRAINT") {
            locked = Some(sql.to_owned()).filter(|_| open);
        } else if let Some(lock) = &locked
            && sql.contains(&named)
        {
            found.push(format!("{sql} after {lock}"));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn no_statement_reads_a_table_under_an_exclusive_lock() {
    let database = install_and_fill("logged").await;
    let name = database
        .texts("SELECT current_database()::text")
        .await
        .remove(0);
    for setting in ["log_statement = 'all'", "log_min_messages = 'debug1'"] {
        database
            .execute(&format!("ALTER DATABASE {name} SET {setting}"))
            .await;
    }
    let two = chain_with(&changes("logged"));
    let plan = database.plan(&two).await.expect("a plan");
    let steps = &plan.migrations[0].steps;
    let at = |kind: &str, object: &str| {
        let found = steps
            .iter()
            .position(|step| step.kind == kind && step.object.as_deref() == Some(object));
        found.unwrap_or_else(|| panic!("{kind} {object}"))
    };
    let [add, validate, set, drop] = [
        at("addCheck", "ck_logged_email__not_null"),
        at("validateCheck", "ck_logged_email__not_null"),
        at("setNotNull", "email"),
        at("dropCheck", "ck_logged_email__not_null"),
    ];
    assert_eq!([validate, set, drop], [add + 1, add + 2, add + 3]);
    database.apply_all(&two).await;

    let mut lines = logged("logged");
    lines.sort_by(|a, b| a.process.cmp(&b.process));
    assert_eq!(reads_under_lock(&lines, "logged"), [""; 0]);
    let all: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    let with = |part: &str| all.iter().filter(|line| line.contains(part)).count();
    // The log shows whether the server used the checks as proof instead of a scan of the table.
    for column in ["email", "token", "visits__next"] {
        let proof = format!("existing constraints on column \"logged.{column}\" are sufficient");
        assert_eq!(with(&proof), 1, "{column}");
    }
    assert!(with("verifying table \"logged\"") >= 4);
    for word in ["CREATE INDEX", "CREATE UNIQUE INDEX", "DROP INDEX"] {
        let plain = all.iter().filter(|line| line.contains(word));
        let plain = plain.filter(|line| !line.contains("CONCURRENTLY") && line.contains("LOG:"));
        assert_eq!(plain.collect::<Vec<_>>(), [&""; 0], "{word}");
        assert!(with(&format!("{word} CONCURRENTLY")) > 0, "{word}");
    }
}

/// Opens another session on the database.
pub(crate) async fn new_session(database: &Database) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.url, NoTls)
        .await
        .expect("open");
    tokio::spawn(connection);
    client
}

/// Runs a future to its end. Advances the paused clock while the engine pauses between two attempts
/// or between two checks of an index build. Calls `paused` repeatedly during such a pause.
async fn without_pauses<T>(
    watcher: &Client,
    run: impl Future<Output = T>,
    mut paused: impl AsyncFnMut(),
) -> T {
    let pausing_runs = "SELECT count(*) FROM pg_stat_activity, pg_sleep(0.002) WHERE datname = current_database() \
                 AND application_name LIKE 'linchpin process %' \
                 AND (state = 'idle' AND query = 'SELECT runner FROM linchpin_schema' \
                 OR wait_event_type = 'Lock' AND query LIKE '%INDEX CONCURRENTLY%')";
    let mut run = pin!(run);
    loop {
        let look = async {
            let row = watcher.query_one(pausing_runs, &[]).await.expect("a row");
            if row.get::<_, i64>(0) == 0 {
                // The time that the query took.
                return tokio::time::advance(Duration::from_millis(2)).await;
            }
            paused().await;
            // Less than any time limit of the engine, because a moment without work may look like a
            // pause.
            tokio::time::advance(Duration::from_secs(4)).await;
        };
        tokio::select! {
            done = &mut run => return done,
            () = look => {}
        }
    }
}

/// Reads the table repeatedly in a thread, until the returned flag is set. The thread returns the
/// longest duration of a read.
fn spawn_reader(database: &Database) -> (Arc<AtomicBool>, std::thread::JoinHandle<Duration>) {
    let (url, end) = (database.url.clone(), Arc::new(AtomicBool::new(false)));
    let ended = Arc::clone(&end);
    let read = async move {
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("open");
        tokio::spawn(connection);
        let mut longest = Duration::ZERO;
        while !ended.load(Ordering::Relaxed) {
            let begun = Instant::now();
            client
                .query("SELECT count(*) FROM users", &[])
                .await
                .expect("read");
            longest = longest.max(begun.elapsed());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        longest
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    (end, std::thread::spawn(move || runtime.block_on(read)))
}

/// The tables, constraints and indexes, as texts.
async fn catalogue(database: &Database) -> Vec<String> {
    let sql = "SELECT attrelid::regclass || '.' || attname || ' ' || atttypid || attnotnull \
               FROM pg_attribute WHERE attrelid = 'users'::regclass AND attnum > 0 \
               UNION ALL SELECT conname || pg_get_constraintdef(oid) FROM pg_constraint \
               WHERE conrelid = 'users'::regclass \
               UNION ALL SELECT pg_get_indexdef(indexrelid) || indisvalid FROM pg_index \
               WHERE indrelid = 'users'::regclass \
               UNION ALL SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef \
               WHERE adrelid = 'users'::regclass ORDER BY 1";
    database.texts(sql).await
}

/// For each kind of step, another session first keeps a lock, and the step fails. Then the session
/// releases the lock, and the step succeeds.
#[tokio::test(start_paused = true)]
async fn a_step_that_times_out_on_a_lock_changes_nothing() {
    // While a blocking task runs, the paused clock does not advance by itself, even if a connection
    // waits for the server.
    let (running, ended) = std::sync::mpsc::channel::<()>();
    let clock = tokio::task::spawn_blocking(move || ended.recv());
    let database = install_and_fill("users").await;
    let two = chain_with(&changes("users"));
    let plan = database.plan(&two).await.expect("a plan");
    let one = Options {
        approve: plan.approval(database.store.dialect()),
        lock_timeout: LOCK_TIMEOUT,
        index_wait: Duration::from_millis(100),
        max_steps: 1,
        ..options()
    };
    let (holder, watcher) = (new_session(&database).await, new_session(&database).await);
    let (end, reader) = spawn_reader(&database);
    let lock = "BEGIN; LOCK TABLE users IN EXCLUSIVE MODE";
    let mut kinds = Vec::new();
    for step in &plan.migrations[0].steps {
        // The rename of an index needs no lock of the table.
        if kinds.contains(&step.kind) || step.kind == "renameIndex" {
            let run = database.run(&two, &one);
            without_pauses(&watcher, run, async || ())
                .await
                .expect("a step");
            continue;
        }
        kinds.push(step.kind);
        let before = catalogue(&database).await;
        holder.batch_execute(lock).await.expect("locked");
        let run = database.run(&two, &one);
        let done: Result<Applied, Refusal> = without_pauses(&watcher, run, async || ()).await;
        let refusal = done.expect_err(step.kind);
        assert_eq!(
            (refusal.code, refusal.exit),
            ("lock_timeout", Exit::Busy),
            "{}: {}",
            step.kind,
            refusal.text()
        );
        assert_eq!(catalogue(&database).await, before, "{}", step.kind);
        let state = database.ledger().await.steps[&step.id].state;
        assert_eq!(state, StepState::Failed, "{}", step.kind);

        // For some kinds the lock is released after the first attempt, for the others before it.
        let waits = ["addColumn", "createIndex", "fill"].contains(&step.kind);
        if !waits {
            holder.batch_execute("COMMIT").await.expect("released");
        }
        let mut pauses = 0;
        let run = database.run(&two, &one);
        let done = without_pauses(&watcher, run, async || {
            pauses += 1;
            if waits && pauses == 2 {
                holder.batch_execute("COMMIT").await.expect("released");
            }
        });
        let done = done.await;
        let done = done.unwrap_or_else(|refusal| panic!("{}: {}", step.kind, refusal.text()));
        assert_eq!(done.steps, std::slice::from_ref(&step.id));
        assert!(!waits || pauses >= 2, "{}", step.kind);
    }
    assert!(kinds.len() >= 14, "{kinds:?}");
    end.store(true, Ordering::Relaxed);
    let longest = reader.join().expect("no panic");
    assert!(
        longest < LOCK_TIMEOUT + Duration::from_secs(1),
        "{longest:?}"
    );
    database.assert_at_head(&two).await;
    drop(running);
    clock.await.expect("no panic").expect_err("no message");
}
