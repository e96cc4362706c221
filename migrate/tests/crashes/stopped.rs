//! Runs that are stopped in the middle of a step, as on a suspended machine, and continue later.

use std::process::{Child, ExitStatus, Stdio};

use linchpin_migrate::{Exit, Options, Step, apply};

use crate::support::{App, Db};
use crate::{app, continued, is_as, process, seeded, server, steps, undisturbed};

/// A run that has stopped at a place.
struct Stopped(Child);

impl Stopped {
    fn at(db: &Db, fault: &str) -> Self {
        let mut process = process(&db.url, "all", Some(fault));
        process.env("LINCHPIN_FAULT_SIGNAL", "stop");
        process.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = process.spawn().expect("a process");
        let state = format!("/proc/{}/stat", child.id());
        loop {
            // The state follows the name of the program, which stands in parentheses.
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
    fn go_on(self) -> (ExitStatus, String) {
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

/// The places where runs stop: the id of a step, and the place. At the first place, the transaction
/// of the step is open; at the second, no transaction is open.
async fn places(db: &Db, app: &App) -> [String; 2] {
    let steps = steps(db, app).await;
    let id = |kind: &str, within: bool| {
        let dialect = db.store.dialect();
        let is = |step: &&Step| step.kind == kind && step.is_transactional(dialect) == within;
        let step = steps.iter().find(is);
        step.unwrap_or_else(|| panic!("{kind}")).id.clone()
    };
    [
        format!("{}:after-action", id("addColumn", true)),
        format!("{}:after-running", id("fill", false)),
    ]
}

/// The lock lasts until the process ends, for any length of a stop.
pub(crate) async fn a_stopped_run_keeps_others_out(make: fn() -> Db) {
    let app = app("all");
    let expected = undisturbed(make, &app).await;
    let db = make();
    seeded(&db).await;
    let [within, _] = places(&db, &app).await;
    let stopped = Stopped::at(&db, &within);
    let options = Options {
        lock_wait: std::time::Duration::ZERO,
        ..Options::default()
    };
    let refusal = apply(&*db.store, app.of(), &options, &mut |_| ())
        .await
        .expect_err("the lock is taken");
    assert_eq!((refusal.code, refusal.exit), ("locked", Exit::Busy));
    let holder = format!("process {}", stopped.0.id());
    assert!(refusal.text().contains(&holder), "{}", refusal.text());
    let (status, text) = stopped.go_on();
    assert!(status.success(), "{text}");
    is_as(&db, &app, &expected).await;
}

/// The run loses its lock while it is stopped: the server has ended its connection, or the lock
/// file was deleted. Another run has done all steps.
pub(crate) async fn a_stopped_run_that_was_overtaken_writes_nothing_more(make: fn() -> Db) {
    let app = app("all");
    let expected = undisturbed(make, &app).await;
    let db = make();
    seeded(&db).await;
    let [_, between] = places(&db, &app).await;
    let stopped = Stopped::at(&db, &between);
    if db.is_sqlite() {
        let lock = format!("{}.migrate-lock", db.file().display());
        std::fs::remove_file(lock).expect("removed");
    } else {
        let lock = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' \
                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        server::execute(&db.url, lock).expect("ended");
    }
    continued(&db, "all");
    is_as(&db, &app, &expected).await;
    let (status, text) = stopped.go_on();
    assert!(!status.success(), "{text}");
    assert!(text.contains("another runner has taken over"), "{text}");
    is_as(&db, &app, &expected).await;
}
