//! Tests that kill the commands `rollback`, `adopt` and `record` at each of their fault points.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use linchpin_core::Value;
use linchpin_core::schema::{ColumnKind, Snapshot, Table};
use linchpin_migrate::cli::{online, parse};
use linchpin_migrate::{
    Declarations, Installed, MigrationState, Options, Phase, Rollback, adopt, record, rollback,
};
use serde_json::json;

use crate::support::{App, Db, index, snapshot};
use crate::{KILLED, first, ledger_lines, run, run_on, second};

/// The command of the process that is killed.
pub(crate) enum Command {
    Rollback,
    Adopt,
    Record,
}

impl Command {
    /// The command with this name. `None` for a scenario of `apply`.
    pub(crate) fn of(name: &str) -> Option<Self> {
        match name {
            "rollback" => Some(Self::Rollback),
            "adopt" => Some(Self::Adopt),
            "record" => Some(Self::Record),
            _ => None,
        }
    }

    /// Runs the command on the database of a URL, or in a folder.
    pub(crate) async fn run(self, url: &str) {
        let refusal = match self {
            Self::Rollback => {
                let db = Db::of(url);
                let options = Options {
                    approve: plan_rollback(&db).await.approval(db.store.dialect()),
                    backup: false,
                    ..Options::default()
                };
                let done = rollback(&*db.store, &options, &mut |_| ()).await;
                done.map(|done| println!("undone: {} {}", done.seq, done.name))
                    .err()
            }
            Self::Adopt => {
                let (db, app) = (Db::of(url), adopted());
                let line = ["migrate", "plan"].map(str::to_owned);
                let parsed = parse(&line).expect("a command");
                let plan = online(&parsed, &*db.store, app.chain_and_declared(), &mut |_| ()).await;
                let plan = plan.expect("a plan").result;
                let options = Options {
                    approve: plan["approvalDigest"].as_str().map(str::to_owned),
                    ..Options::default()
                };
                let done = adopt(&*db.store, app.chain_and_declared(), &options, &mut |_| ()).await;
                done.map(|_| ()).err()
            }
            Self::Record => {
                let second = second();
                let declared = Declarations::Saved(&second);
                let done = record(Path::new(url), "second", declared, false);
                done.map(|_| ()).err()
            }
        };
        if let Some(refusal) = refusal {
            panic!("{refusal} {:?}", refusal.facts);
        }
    }
}

async fn plan_rollback(db: &Db) -> Rollback {
    let mut session = db.session().await;
    let installed = Installed::load(&mut *session).await.expect("a ledger");
    let made = Rollback::make(&*db.store, &mut *session, &installed).await;
    made.unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// Runs a command and asserts that it is killed at a fault point.
fn run_and_kill(url: &str, command: &str, fault: &str) {
    let (status, text) = run_on(url, command, Some(fault));
    assert_eq!(status.signal(), Some(KILLED), "{fault}: {text}");
}

fn run_without_fault(url: &str, command: &str) {
    let (status, text) = run_on(url, command, None);
    assert!(status.success(), "{text}");
}

/// Prepares a database whose second migration waits for its contract phase.
async fn expanded(db: &Db) {
    db.apply(&App::new(&[first()]), Phase::Contract)
        .await
        .expect("installed");
    let rows: Vec<String> = (0..40)
        .map(|n| format!("('{n:03}', 'name {n}', NULL, 'active', {n}, 'x')"))
        .collect();
    let sql = format!(
        "INSERT INTO users (id, name, email, status, visits, gone) VALUES {}",
        rows.join(", ")
    );
    db.execute(&[&sql]).await;
    let app = App::new(&[first(), second()]);
    let done = db.apply(&app, Phase::Backfill).await;
    done.unwrap_or_else(|refusal| panic!("{refusal} {:?}", refusal.facts));
}

/// Tables, rows and ledger after a rollback.
async fn state_after_rollback(db: &Db) -> (Vec<String>, Vec<Vec<Value>>, Vec<String>) {
    let tables = first().tables();
    let all: Vec<&Table> = tables.values().collect();
    let found = db.session().await.compare(&all).await.expect("compared");
    // The field was optional for a time, so its index may still have another order of nulls.
    let found: Vec<_> = found.iter().filter(|d| !d.code.is_harmless()).collect();
    assert!(found.is_empty(), "{found:?}");
    let ledger = db.ledger().await.expect("a ledger");
    assert_eq!(ledger.migrations[&2].state, MigrationState::RolledBack);
    assert_eq!((ledger.seq, ledger.min_seq, ledger.max_seq), (1, 1, 1));
    let columns = vec![ColumnKind::String; 6];
    let sql = "SELECT id, name, email, status, CAST(visits AS TEXT), gone FROM users ORDER BY id";
    (
        db.tables().await,
        db.query(sql, &columns).await,
        ledger_lines(&ledger),
    )
}

pub(crate) async fn a_killed_rollback_is_continued(make: fn() -> Db) {
    let undisturbed = make();
    expanded(&undisturbed).await;
    run_without_fault(&undisturbed.url, "rollback");
    let expected = state_after_rollback(&undisturbed).await;

    let db = make();
    expanded(&db).await;
    let undos: Vec<String> = plan_rollback(&db)
        .await
        .undos
        .into_iter()
        .map(|undo| undo.step)
        .collect();
    assert!(
        undos.len() >= if db.is_sqlite() { 4 } else { 8 },
        "{undos:?}"
    );
    for point in ["begin:before-commit", "begin:after-commit"] {
        run_and_kill(&db.url, "rollback", &format!("rollback:{point}"));
    }
    for step in &undos {
        for point in [
            "before",
            "after-preconditions",
            "after-action",
            "after-verification",
            "before-commit",
            "after-done",
        ] {
            run_and_kill(&db.url, "rollback", &format!("{step}:undo:{point}"));
        }
    }
    run_and_kill(&db.url, "rollback", "rollback:end:before-commit");
    run_and_kill(&db.url, "rollback", "rollback:end:after-commit");
    assert_eq!(state_after_rollback(&db).await, expected);
    // A repeated command must not undo the first migration.
    let (status, text) = run(&db, "rollback", None);
    assert!(
        !status.success() && text.contains("the database was created with it"),
        "{text}"
    );
    assert_eq!(state_after_rollback(&db).await, expected);
}

fn adopted() -> App {
    App::new(&[snapshot(&[
        (
            "users",
            json!({
                "name": { "type": "string" },
                "status": { "type": "enum", "values": ["active", "left"] },
                "visits": { "type": "integer", "default": { "literal": 0 } },
            }),
            json!({ "indexes": [index("ix_users_name", &["name"])] }),
        ),
        (
            "notes",
            json!({ "stars": { "type": "integer", "default": { "literal": 3 } } }),
            json!({}),
        ),
    ])])
}

/// Creates tables as a release without migrations did: without defaults and names of checks.
async fn create_older_tables(db: &Db) {
    let (text, number, end) = if db.is_sqlite() {
        ("TEXT", "INTEGER", " STRICT")
    } else {
        ("TEXT COLLATE \"C\"", "BIGINT", "")
    };
    let users = format!(
        "CREATE TABLE users (id {text} NOT NULL PRIMARY KEY, name {text} NOT NULL, \
         status {text} NOT NULL CHECK (status IN ('active', 'left')), \
         visits {number} NOT NULL){end}"
    );
    let notes = format!(
        "CREATE TABLE notes (id {text} NOT NULL PRIMARY KEY, stars {number} NOT NULL){end}"
    );
    let index = "CREATE INDEX ix_users_name ON users (name)";
    db.execute(&[
        &users,
        &notes,
        index,
        "INSERT INTO users (id, name, status, visits) VALUES ('a', 'Ada', 'left', 7)",
        "INSERT INTO notes (id, stars) VALUES ('n', 5)",
    ])
    .await;
}

async fn state_after_adoption(db: &Db) -> (Vec<String>, Vec<Vec<Value>>, Vec<String>) {
    db.assert_at_head(&adopted()).await;
    let sql = "SELECT u.id, u.name, u.status, CAST(u.visits AS TEXT), CAST(n.stars AS TEXT) \
               FROM users u, notes n";
    (
        db.tables().await,
        db.query(sql, &vec![ColumnKind::String; 5]).await,
        ledger_lines(&db.ledger().await.expect("a ledger")),
    )
}

pub(crate) async fn a_killed_adoption_changes_nothing_or_all(make: fn() -> Db) {
    let undisturbed = make();
    create_older_tables(&undisturbed).await;
    run_without_fault(&undisturbed.url, "adopt");
    let expected = state_after_adoption(&undisturbed).await;

    let db = make();
    create_older_tables(&db).await;
    let plan = db.command(&adopted(), "migrate plan").await;
    let plan = plan.expect("a plan").result;
    let steps = plan["migrations"][0]["steps"].as_array().expect("steps");
    assert!(steps.len() >= 2, "{plan:#}");
    let mut faults: Vec<String> = steps
        .iter()
        .map(|step| format!("{}:after-action", step["id"].as_str().expect("an id")))
        .collect();
    if db.is_sqlite() {
        faults.extend(["adopt:before-backup", "adopt:after-backup"].map(str::to_owned));
    }
    faults.push("adopt:before-commit".to_owned());
    for fault in &faults {
        run_and_kill(&db.url, "adopt", fault);
        assert_eq!(db.tables().await, ["notes", "users"], "{fault}");
    }
    run_and_kill(&db.url, "adopt", "adopt:after-commit");
    assert_eq!(state_after_adoption(&db).await, expected);
    run_without_fault(&db.url, "adopt");
    assert_eq!(state_after_adoption(&db).await, expected);
}

/// The names and texts of the files of a folder.
fn texts(folder: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("a file").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        let text = std::fs::read_to_string(&path).expect("text");
        (name.into_owned(), text)
    };
    entries.map(file).collect()
}

/// A folder with the first migration.
fn recorded() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let first: Snapshot = first();
    let done = record(folder.path(), "first", Declarations::Saved(&first), false);
    done.unwrap_or_else(|refusal| panic!("{refusal}"));
    folder
}

pub(crate) fn a_killed_recording_is_repeated() {
    let path = |folder: &tempfile::TempDir| folder.path().display().to_string();
    let undisturbed = recorded();
    run_without_fault(&path(&undisturbed), "record");
    let expected = texts(undisturbed.path());
    assert_eq!(expected.len(), 3);

    let folder = recorded();
    let before = texts(folder.path());
    for fault in [
        "0002_second.json:file:before-rename",
        "0002_second.json:file:after-rename",
        "chain.json:file:before-rename",
    ] {
        run_and_kill(&path(&folder), "record", fault);
        let index = &texts(folder.path())["chain.json"];
        assert_eq!(index, &before["chain.json"], "{fault}");
    }
    run_and_kill(&path(&folder), "record", "chain.json:file:after-rename");
    assert_eq!(texts(folder.path()), expected);
    run_without_fault(&path(&folder), "record");
    assert_eq!(texts(folder.path()), expected);
}
