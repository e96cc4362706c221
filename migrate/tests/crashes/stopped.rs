//! Tests of runs that SIGSTOP suspends during a step and that continue later. This simulates a
//! suspended machine.

use std::process::{Child, ExitStatus, Stdio};

use linchpin_migrate::{Exit, Options, Step, apply};

use crate::support::{App, Db};
use crate::{app, assert_outcome, process, run_without_fault, seeded, server, steps, undisturbed};

/// A run that is suspended at a fault point.
struct Stopped(Child);

impl Stopped {
    fn at(db: &Db, fault: &str) -> Self {
        let mut process = process(&db.url, "all", Some(fault));
        process.env("LINCHPIN_FAULT_SIGNAL", "stop");
        process.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = process.spawn().expect("a process");
        let state = format!("/proc/{}/stat", child.id());
        loop {
            // The state follows the name of the program, which is in parentheses.
            let text = std::fs::read_to_string(&state).expect("a process");
            if text
                .rsplit(") ")
                .next()
                .is_some_and(|rest| rest.starts_with('T'))
            {
                return Self(child);
            }
            if let Some(status) = child.try_wait().expect("its state") {
                panic!("{fault}: it ended with {status}");
            }
            std::thread::yield_now();
        }
    }

    /// Continues the run and waits for its end.
    fn resume(self) -> (ExitStatus, String) {
        let pid = rustix_pid(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("continued");
        let output = self.0.wait_with_output().expect("its output");
        let text = [output.stdout, output.stderr].concat();
        (output.status, String::from_utf8_lossy(&text).into_owned())
    }
}

fn rustix_pid(child: &Child) -> rustix::process::Pid {
    let pid = i32::try_from(child.id()).ok();
    pid.and_then(rustix::process::Pid::from_raw)
        .expect("a process")
}

/// The fault points at which runs are suspended. At the first point, the transaction of the step is
/// open; at the second, no transaction is open.
async fn fault_points(db: &Db, app: &App) -> [String; 2] {
    let steps = steps(db, app).await;
    let id = |kind: &str, transactional: bool| {
        let dialect = db.store.dialect();
        let is =
            |step: &&Step| step.kind == kind && step.is_transactional(dialect) == transactional;
        let step = steps.iter().find(is);
        step.unwrap_or_else(|| panic!("{kind}")).id.clone()
    };
    [
        format!("{}:after-action", id("addColumn", true)),
        format!("{}:after-running", id("fill", false)),
    ]
}

/// A suspended process keeps its lock until it ends.
pub(crate) async fn a_suspended_run_keeps_others_out(make: fn() -> Db) {
    let app = app("all");
    let expected = undisturbed(make, &app).await;
    let db = make();
    seeded(&db).await;
    let [in_transaction, _] = fault_points(&db, &app).await;
    let stopped = Stopped::at(&db, &in_transaction);
    let options = Options {
        lock_wait: std::time::Duration::ZERO,
        ..Options::default()
    };
    let refusal = apply(&*db.store, app.chain_and_declared(), &options, &mut |_| ())
        .await
        .expect_err("the lock is taken");
    assert_eq!((refusal.code, refusal.exit), ("locked", Exit::Busy));
    let holder = format!("process {}", stopped.0.id());
    assert!(refusal.text().contains(&holder), "{}", refusal.text());
    let (status, text) = stopped.resume();
    assert!(status.success(), "{text}");
    assert_outcome(&db, &app, &expected).await;
}

/// The run loses its lock while it is suspended: the server ends its connection, or the lock file
/// is deleted. Another run completes all steps.
pub(crate) async fn a_suspended_run_that_lost_its_lock_writes_nothing_more(make: fn() -> Db) {
    let app = app("all");
    let expected = undisturbed(make, &app).await;
    let db = make();
    seeded(&db).await;
    let [_, between] = fault_points(&db, &app).await;
    let stopped = Stopped::at(&db, &between);
    if db.is_sqlite() {
        let lock = format!("{}.migrate-lock", db.file().display());
        std::fs::remove_file(lock).expect("removed");
    } else {
        let lock = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' \
                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        server::execute(&db.url, lock).expect("ended");
    }
    run_without_fault(&db, "all");
    assert_outcome(&db, &app, &expected).await;
    let (status, text) = stopped.resume();
    assert!(!status.success(), "{text}");
    assert!(text.contains("another runner has taken over"), "{text}");
    assert_outcome(&db, &app, &expected).await;
}
