//! Tests of Postgres sessions that fail during a step: the connection is lost, or the disk is full.
//! Another run must then have the same outcome as an undisturbed run.

use std::process::Command;

use linchpin_core::schema::Dialect;
use linchpin_migrate::{Applied, Exit, Options, Pace, Refusal, Step, Work, apply};

use crate::support::{App, Db};
use crate::{
    BATCH, app, assert_outcome, outcome, run_without_fault, seeded, server, steps, undisturbed,
};

/// A trigger on the ledger that ends the session, or reports a full disk, when a step gets a
/// certain state. A row of `faults.due` has the id of the step, the state and the fault. The state
/// `progress` stands for the write of a batch.
const TRIGGERS: [&str; 4] = [
    "CREATE SCHEMA faults",
    "CREATE TABLE faults.due (step TEXT, state TEXT, fault TEXT)",
    "CREATE FUNCTION faults.happen() RETURNS trigger LANGUAGE plpgsql AS $$
     DECLARE
       changed TEXT := NEW.state;
       what TEXT;
     BEGIN
       IF TG_OP = 'UPDATE' AND NEW.rows_done > OLD.rows_done THEN
         changed := 'progress';
       END IF;
       SELECT fault INTO what FROM faults.due WHERE step = NEW.id AND state = changed;
       IF what = 'lost' THEN
         PERFORM pg_terminate_backend(pg_backend_pid()), pg_sleep(10);
       ELSIF what = 'full' THEN
         RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
       END IF;
       RETURN NEW;
     END $$",
    "CREATE TRIGGER happen BEFORE INSERT OR UPDATE ON linchpin_migration_steps
     FOR EACH ROW EXECUTE FUNCTION faults.happen()",
];

/// Applies all migrations, in this process. `report` is called before each step.
async fn run(
    db: &Db,
    app: &App,
    report: &mut (dyn FnMut(&str) + Send),
) -> Result<Applied, Refusal> {
    let options = Options {
        approve: db.digest(app).await,
        pace: Pace {
            batch: BATCH,
            duty: 1.0,
            ..Pace::default()
        },
        ..Options::default()
    };
    apply(&*db.store, app.chain_and_declared(), &options, report).await
}

/// The states of a step at which the test causes a fault.
fn states(step: &Step, dialect: &dyn Dialect) -> Vec<&'static str> {
    match &step.work {
        Work::Data(_) => vec!["running", "progress", "done"],
        // With a fault at `done`, the work is committed but the ledger does not record it.
        Work::Schema(action) if !dialect.is_transactional(action) => vec!["done"],
        _ => vec!["running", "done"],
    }
}

/// Causes a fault in each kind of step. Each run continues where the previous one ended.
pub(crate) async fn a_fault_in_each_step_is_repaired_by_the_next_run(
    fault: &str,
    code: &'static str,
) {
    let app = app("all");
    let expected = undisturbed(Db::postgres, &app).await;

    let db = Db::postgres();
    seeded(&db).await;
    db.execute(&TRIGGERS).await;
    let mut faults = 0;
    for step in steps(&db, &app).await {
        for state in states(&step, db.store.dialect()) {
            let due = format!(
                "INSERT INTO faults.due VALUES ('{}', '{state}', '{fault}')",
                step.id
            );
            db.execute(&[&due]).await;
            let refusal = run(&db, &app, &mut |_| ()).await.expect_err(&due);
            assert_eq!(
                (refusal.code, refusal.exit),
                (code, Exit::Target),
                "{due}: {}",
                refusal.text()
            );
            db.execute(&["DELETE FROM faults.due"]).await;
            faults += 1;
        }
    }
    assert!(faults > 25, "{faults}");
    let done = run(&db, &app, &mut |_| ()).await;
    done.unwrap_or_else(|refusal| panic!("{}", refusal.text()));
    assert_outcome(&db, &app, &expected).await;
}

/// The session that holds the lock of the run ends between two steps. The run begins no further
/// step.
pub(crate) async fn a_run_whose_lock_is_lost_ends() {
    let db = Db::postgres();
    seeded(&db).await;
    let app = app("all");
    let mut begun = Vec::new();
    let url = db.url.clone();
    let mut report = |line: &str| {
        begun.push(line.to_owned());
        if begun.len() == 2 {
            let lock = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' \
                        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
            server::execute(&url, lock).expect("ended");
        }
    };
    let refusal = run(&db, &app, &mut report)
        .await
        .expect_err("the lock is lost");
    assert_eq!(
        (refusal.code, refusal.exit),
        ("lock_lost", Exit::Busy),
        "{}",
        refusal.text()
    );
    assert_eq!(begun.len(), 2, "{begun:?}");
    let ledger = db.ledger().await.expect("a ledger");
    let second = begun[1].split(' ').next().expect("an id");
    assert!(!ledger.steps.contains_key(second), "{second}");
    run_without_fault(&db, "all");
    outcome(&db, &app).await;
}

/// A small file system in memory. Dropping it unmounts it.
struct Disk(tempfile::TempDir);

impl Disk {
    fn new() -> Self {
        let disk = Self(tempfile::tempdir().expect("a folder"));
        let at = disk.0.path().as_os_str();
        let options = ["-t", "tmpfs", "-o", "size=24m", "linchpin-test"];
        run_command(Command::new("mount").args(options).arg(at));
        run_command(Command::new("chown").arg(server::programs::NOBODY).arg(at));
        disk
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The server may still have open files on it, so the unmount is lazy.
        drop(Command::new("umount").arg("-l").arg(self.0.path()).status());
    }
}

fn run_command(command: &mut Command) {
    let status = command.status().expect("a program");
    assert!(status.success(), "{command:?}: {status}");
}

/// The tables are on a full disk. After each fault, the test frees some space, so that the next run
/// completes more steps.
pub(crate) async fn a_run_on_a_full_disk_continues_after_space_is_freed() {
    let app = app("all");
    let expected = undisturbed(Db::postgres, &app).await;
    let disk = Disk::new();
    let db = Db::postgres();
    let (base, settings) = db.url.split_once('?').expect("settings");
    let (base, name) = base.rsplit_once('/').expect("a database");
    let base = format!("{base}/postgres?{settings}");
    for sql in [
        format!(
            "CREATE TABLESPACE small LOCATION '{}'",
            disk.0.path().display()
        ),
        format!("ALTER DATABASE {name} SET TABLESPACE small"),
    ] {
        server::execute(&base, &sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    seeded(&db).await;
    db.execute(&["CREATE SCHEMA faults"]).await;
    let mut fillers = Vec::new();
    loop {
        let name = format!("faults.filler_{}", fillers.len());
        let sql = format!(
            "CREATE TABLE {name} AS SELECT repeat('x', 1000) AS x FROM generate_series(1, 100)"
        );
        if server::execute(&db.url, &sql).is_err() {
            break;
        }
        fillers.push(name);
    }
    let mut faults = 0;
    while let Err(refusal) = run(&db, &app, &mut |_| ()).await {
        assert_eq!(
            (refusal.code, refusal.exit),
            ("disk_full", Exit::Target),
            "{}",
            refusal.text()
        );
        assert!(!fillers.is_empty(), "the disk has been freed");
        // Rows of a rolled-back batch still need space, so the test frees more space each time.
        for filler in fillers.drain(fillers.len().saturating_sub(1 << faults)..) {
            db.execute(&[&format!("DROP TABLE {filler}")]).await;
        }
        db.execute(&["CHECKPOINT"]).await;
        faults += 1;
    }
    assert!(faults > 3, "{faults}");
    assert_outcome(&db, &app, &expected).await;
}
