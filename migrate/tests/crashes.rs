//! Tests that kill a run at each point of each kind of step, and then continue it. Tables, rows and
//! ledger must then equal those of an undisturbed run.
//!
//! A test starts this program again as the process to kill: see [`child`].
#![allow(clippy::expect_used)] // in a test, a panic reports the failure

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use linchpin_core::Value;
use linchpin_core::schema::ColumnKind;
use linchpin_migrate::{Installed, Ledger, Options, Pace, Phase, Plan, Step, apply};

use crate::apps::{app, first, second};
use crate::support::{App, Db};

#[path = "crashes/apps.rs"]
mod apps;

#[path = "crashes/backfill.rs"]
mod backfill;

#[path = "crashes/commands.rs"]
mod commands;

#[path = "crashes/lost.rs"]
mod lost;

#[path = "crashes/stopped.rs"]
mod stopped;

#[path = "engine/support.rs"]
#[allow(dead_code)] // each program uses its part of it
mod support;

#[path = "../../runtime/tests/support/postgres.rs"]
mod server;

/// The environment variables of the process that is killed.
const URL: &str = "LINCHPIN_TEST_CRASH_URL";
const SCENARIO: &str = "LINCHPIN_TEST_CRASH_SCENARIO";
/// The number of the signal SIGKILL.
const KILLED: i32 = 9;
/// The number of rows in the table. A backfill needs several batches for them.
const ROWS: usize = 2_500;
/// The number of rows in the first batch of a run. Each further batch is twice as large.
const BATCH: u64 = 1_000;

/// The process that is killed: it applies a scenario to a database. It is not a test itself.
#[tokio::test]
#[ignore = "the other tests start it"]
async fn child() {
    let Ok(url) = std::env::var(URL) else { return };
    let scenario = std::env::var(SCENARIO).expect("a scenario");
    if let Some(command) = commands::Command::of(&scenario) {
        return command.run(&url).await;
    }
    let db = Db::of(&url);
    let app = app(&scenario);
    let options = Options {
        approve: db.digest(&app).await,
        backup: false,
        pace: Pace {
            batch: BATCH,
            duty: 1.0,
            target: Some(Duration::from_secs(1_000)),
            ..Pace::default()
        },
        ..Options::default()
    };
    apply(&*db.store, app.chain_and_declared(), &options, &mut |_| ())
        .await
        .unwrap_or_else(|refusal| panic!("{refusal} {:?}", refusal.facts));
}

/// Runs the process, with a fault or without one. Returns its exit status and its output.
fn run(db: &Db, scenario: &str, fault: Option<&str>) -> (ExitStatus, String) {
    run_on(&db.url, scenario, fault)
}

/// Like [`run`], for the URL of a database or for a folder.
fn run_on(url: &str, scenario: &str, fault: Option<&str>) -> (ExitStatus, String) {
    run_to_end(&mut process(url, scenario, fault))
}

/// Returns the process, not started.
fn process(url: &str, scenario: &str, fault: Option<&str>) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(URL, url)
        .env(SCENARIO, scenario)
        .stdin(Stdio::null());
    match fault {
        Some(fault) => command.env("LINCHPIN_FAULT", fault),
        None => command.env_remove("LINCHPIN_FAULT"),
    };
    command
}

/// Runs a process. Returns its exit status and its output.
fn run_to_end(process: &mut Command) -> (ExitStatus, String) {
    let output = process.output();
    let output = output.unwrap_or_else(|error| panic!("{process:?}: {error}"));
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output.status, text)
}

fn run_without_fault(db: &Db, scenario: &str) {
    let (status, text) = run(db, scenario, None);
    assert!(status.success(), "{text}");
}

/// Installs an app that has only the first migration, and inserts rows.
async fn seeded(db: &Db) {
    db.apply(&App::new(&[first()]), Phase::Contract)
        .await
        .expect("installed");
    let numbers: Vec<usize> = (0..ROWS).collect();
    for chunk in numbers.chunks(500) {
        let row = |n: &usize| format!("('{n:06}', 'name {n}', 'e{n}', 'active', {n}, 'x')");
        let rows: Vec<String> = chunk.iter().map(row).collect();
        let columns = "id, name, email, status, visits, gone";
        let sql = format!("INSERT INTO users ({columns}) VALUES {}", rows.join(", "));
        db.execute(&[&sql]).await;
    }
    db.execute(&["UPDATE users SET email = NULL WHERE id < '000700'"])
        .await;
}

/// The state that must be equal after a disturbed and an undisturbed run.
async fn outcome(db: &Db, app: &App) -> (Vec<String>, Vec<Vec<Value>>, Vec<String>) {
    db.assert_at_head(app).await;
    let columns = vec![ColumnKind::String; 6];
    let tokens = "SELECT count(DISTINCT token) FROM people";
    assert_eq!(db.number(tokens).await, ROWS as i64);
    let sql = "SELECT id, title, email, status, visits, rank FROM people ORDER BY id";
    let rows = db.query(sql, &columns).await;
    (
        db.tables().await,
        rows,
        ledger_lines(&db.ledger().await.expect("a ledger")),
    )
}

/// The outcome of an undisturbed run.
async fn undisturbed(make: fn() -> Db, app: &App) -> (Vec<String>, Vec<Vec<Value>>, Vec<String>) {
    let db = make();
    seeded(&db).await;
    run_without_fault(&db, "all");
    outcome(&db, app).await
}

/// Asserts that the outcome equals that of an undisturbed run.
async fn assert_outcome(
    db: &Db,
    app: &App,
    expected: &(Vec<String>, Vec<Vec<Value>>, Vec<String>),
) {
    let found = outcome(db, app).await;
    assert_eq!(found.0, expected.0);
    assert!(found.1 == expected.1, "the rows differ");
    assert_eq!(found.2, expected.2);
}

/// The ledger as lines of text, without times and numbers of attempts.
fn ledger_lines(ledger: &Ledger) -> Vec<String> {
    let mut all = vec![format!(
        "{} {} {} {} {:?}",
        ledger.seq, ledger.min_seq, ledger.max_seq, ledger.digest, ledger.names
    )];
    for (seq, migration) in &ledger.migrations {
        let (digest, state) = (&migration.digest, migration.state.name());
        all.push(format!("{seq} {} {digest} {state}", migration.name));
    }
    for (id, step) in &ledger.steps {
        all.push(format!(
            "{id} {} {} {} {} {:?} {:?}",
            step.digest,
            step.state.name(),
            step.rows_done,
            step.rows_failed,
            step.error,
            step.result
        ));
    }
    all
}

/// The first step of each kind in the whole chain.
async fn steps(db: &Db, app: &App) -> Vec<Step> {
    let mut session = db.session().await;
    let installed = Installed::load(&mut *session).await.expect("a ledger");
    let plan = Plan::make(
        &*db.store,
        &mut *session,
        &installed,
        app.chain_and_declared(),
    )
    .await;
    let plan = plan.expect("a plan");
    let mut kinds = BTreeSet::new();
    plan.migrations
        .into_iter()
        .flat_map(|migration| migration.steps)
        .filter(|step| kinds.insert((step.kind, step.is_transactional(db.store.dialect()))))
        .collect()
}

/// Kills a run at each point of each kind of step. Each run continues where the previous one was
/// killed.
async fn a_run_killed_at_each_point_is_continued(make: fn() -> Db) {
    let app = app("all");
    let expected = undisturbed(make, &app).await;

    let db = make();
    seeded(&db).await;
    let mut killed = 0;
    for (at, step) in steps(&db, &app).await.iter().enumerate() {
        let mut points = vec!["before-running", "after-running", "after-preconditions"];
        if step.kind == "fill" || step.kind == "transform" {
            points.extend(["batch:1:before-commit", "batch:1:after-commit"]);
        }
        // Two runs in a row are killed at the same point.
        points.extend(["after-action", "after-action", "after-verification"]);
        // After these points the step is done, so it can be killed at only one of them.
        points.push(["after-done", "window:before", "window:after"][at % 3]);
        for point in points {
            let fault = format!("{}:{point}", step.id);
            let (status, text) = run(&db, "all", Some(&fault));
            assert_eq!(
                status.signal(),
                Some(KILLED),
                "{fault} {}: {text}",
                step.kind
            );
            killed += 1;
        }
    }
    assert!(killed > 50, "{killed}");
    run_without_fault(&db, "all");
    assert_outcome(&db, &app, &expected).await;
}

/// After a crash, an installation is complete, or the database is still empty.
async fn a_killed_installation_leaves_nothing_or_all(db: Db) {
    let app = app("empty");
    let (status, text) = run(&db, "empty", Some("install:before-commit"));
    assert_eq!(status.signal(), Some(KILLED), "{text}");
    assert_eq!(db.tables().await, [] as [&str; 0]);
    let (status, text) = run(&db, "empty", Some("install:after-commit"));
    assert_eq!(status.signal(), Some(KILLED), "{text}");
    db.assert_at_head(&app).await;
    run_without_fault(&db, "empty");
    assert_eq!(db.ledger().await.expect("a ledger").seq, 1);
}

#[test]
fn a_killed_recording_is_repeated() {
    commands::a_killed_recording_is_repeated();
}

mod sqlite {
    use super::Db;

    #[tokio::test]
    async fn a_run_killed_at_each_point_is_continued() {
        super::a_run_killed_at_each_point_is_continued(Db::sqlite).await;
    }

    #[tokio::test]
    async fn a_killed_backfill_continues_at_its_cursor() {
        super::backfill::a_killed_backfill_continues_at_its_cursor(Db::sqlite()).await;
    }

    #[tokio::test]
    async fn a_killed_installation_leaves_nothing_or_all() {
        super::a_killed_installation_leaves_nothing_or_all(Db::sqlite()).await;
    }

    #[tokio::test]
    async fn a_killed_rollback_is_continued() {
        super::commands::a_killed_rollback_is_continued(Db::sqlite).await;
    }

    #[tokio::test]
    async fn a_suspended_run_keeps_others_out() {
        super::stopped::a_suspended_run_keeps_others_out(Db::sqlite).await;
    }

    #[tokio::test]
    async fn a_suspended_run_that_lost_its_lock_writes_nothing_more() {
        super::stopped::a_suspended_run_that_lost_its_lock_writes_nothing_more(Db::sqlite).await;
    }

    #[tokio::test]
    async fn a_killed_adoption_changes_nothing_or_all() {
        super::commands::a_killed_adoption_changes_nothing_or_all(Db::sqlite).await;
    }
}

mod postgres {
    use super::Db;

    #[tokio::test]
    async fn a_run_killed_at_each_point_is_continued() {
        super::a_run_killed_at_each_point_is_continued(Db::postgres).await;
    }

    #[tokio::test]
    async fn a_killed_backfill_continues_at_its_cursor() {
        super::backfill::a_killed_backfill_continues_at_its_cursor(Db::postgres()).await;
    }

    #[tokio::test]
    async fn a_killed_installation_leaves_nothing_or_all() {
        super::a_killed_installation_leaves_nothing_or_all(Db::postgres()).await;
    }

    #[tokio::test]
    async fn a_killed_rollback_is_continued() {
        super::commands::a_killed_rollback_is_continued(Db::postgres).await;
    }

    #[tokio::test]
    async fn a_suspended_run_keeps_others_out() {
        super::stopped::a_suspended_run_keeps_others_out(Db::postgres).await;
    }

    #[tokio::test]
    async fn a_suspended_run_that_lost_its_lock_writes_nothing_more() {
        super::stopped::a_suspended_run_that_lost_its_lock_writes_nothing_more(Db::postgres).await;
    }

    #[tokio::test]
    async fn a_connection_lost_in_each_step_is_repaired_by_the_next_run() {
        super::lost::a_fault_in_each_step_is_repaired_by_the_next_run("lost", "target_unreachable")
            .await;
    }

    #[tokio::test]
    async fn a_full_disk_in_each_step_is_repaired_by_the_next_run() {
        super::lost::a_fault_in_each_step_is_repaired_by_the_next_run("full", "disk_full").await;
    }

    #[tokio::test]
    #[ignore = "mounts a file system, as root"]
    async fn a_run_on_a_full_disk_continues_after_space_is_freed() {
        super::lost::a_run_on_a_full_disk_continues_after_space_is_freed().await;
    }

    #[tokio::test]
    async fn a_run_whose_lock_is_lost_ends() {
        super::lost::a_run_whose_lock_is_lost_ends().await;
    }

    #[tokio::test]
    async fn a_killed_adoption_changes_nothing_or_all() {
        super::commands::a_killed_adoption_changes_nothing_or_all(Db::postgres).await;
    }
}
