//! Tests of runs that are killed at every fault point, while the serving versions continue to
//! write.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// The tasks that are written continuously while a run is killed.
const IN_FLIGHT: [&str; 2] = ["one", "spaces"];

/// The fault points of every step. A step whose run was killed at the last one does not run again.
const FAULT_POINTS: [&str; 6] = [
    "before-running",
    "after-running",
    "after-preconditions",
    "after-action",
    "after-verification",
    "after-done",
];
/// The additional fault points of a step that changes rows.
const BATCH_FAULT_POINTS: [&str; 2] = ["batch:1:before-commit", "batch:1:after-commit"];

/// Migrates a new database through a rename and a replaced column. Its ledger must then equal that
/// of another database with undisturbed runs.
pub fn with_killed_runs(mut make: impl FnMut() -> String) {
    let mut upgrade = Upgrade::begin(&make());
    let first = snapshot(1);
    upgrade.database.fill(&first, &TABLES_WITHOUT_ROWS);
    let kept = upgrade.database.rows(&first, &TABLES_WITHOUT_ROWS);
    for number in [2, TAG_LIST] {
        upgrade.migrate_with_killed_runs(number);
        assert_eq!(
            upgrade.database.rows(&first, &TABLES_WITHOUT_ROWS),
            kept,
            "version {number}"
        );
    }
    upgrade.version.run_to_end("plan --check");
    upgrade.server.expect("a server").stop();
    assert_eq!(
        upgrade.database.ledger(),
        ledger_of_undisturbed_runs(&make())
    );
}

/// The ledger after undisturbed runs.
fn ledger_of_undisturbed_runs(url: &str) -> Vec<String> {
    Version::new(1, url).run_to_end("apply");
    let database = Database::new(url);
    database.fill(&snapshot(1), &TABLES_WITHOUT_ROWS[1..]);
    for number in [2, TAG_LIST] {
        let version = Version::new(number, url);
        version.run_to_end(&format!("apply{}", version.approval()));
    }
    database.ledger()
}

/// Sets a flag when it is dropped, also after a panic. The flag ends the loops of writers.
struct EndLoops<'a>(&'a AtomicBool);

impl Drop for EndLoops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes tasks continuously while `work` runs. Each acknowledged write must then be stored, and
/// every other write must be refused with `schema_pending`. Returns the number of acknowledged
/// writes.
fn write_during(board: &Board, tasks: &mut Tasks, ids: [&String; 2], work: impl FnOnce()) -> usize {
    let ended = AtomicBool::new(false);
    let write = |id: &str| {
        let (mut last, mut count) = (None, 0);
        while !ended.load(Ordering::Relaxed) {
            let title = format!("{id} {count}");
            let reply = board.retitle(id, &title);
            if reply.status == 200 {
                (last, count) = (Some(title), count + 1);
            } else {
                assert_eq!(reply.status, 503, "{reply:?}");
                assert_eq!(reply.body["code"], "schema_pending", "{reply:?}");
            }
        }
        (last, count)
    };
    let write = &write;
    std::thread::scope(|scope| {
        let writers = ids.map(|id| (id, scope.spawn(move || write(id))));
        {
            let _end = EndLoops(&ended);
            work();
        }
        let mut all = 0;
        for (id, writer) in writers {
            let (last, count) = writer.join().expect("no panic");
            let task = tasks.get_mut(id).expect("a task");
            task.0 = last.unwrap_or_else(|| task.0.clone());
            all += count;
        }
        all
    })
}

/// The faults of the steps of a phase.
fn faults(plan: &Json, phase: &str) -> Vec<String> {
    let steps = plan["migrations"][0]["steps"].as_array().expect("a list");
    let steps = steps.iter().filter(|step| step["phase"] == phase);
    let faults_of_step = |step: &Json| {
        let id = step["id"].as_str().expect("an id").to_owned();
        let has_rows = phase == "backfill";
        let batches = BATCH_FAULT_POINTS.into_iter().filter(move |_| has_rows);
        let (before, after) = FAULT_POINTS.split_at(3);
        let places = before.iter().copied().chain(batches).chain(after.to_vec());
        places.map(move |place| format!("{id}:{place}"))
    };
    steps.flat_map(faults_of_step).collect()
}

impl Upgrade {
    /// Migrates the database to the next version, with runs that are killed.
    fn migrate_with_killed_runs(&mut self, number: usize) {
        let next = Version::new(number, &self.url);
        let (plan, digest) = (next.run_to_end("plan"), next.approval());
        let (mut kills, mut writes) = (0, 0);
        let ids = IN_FLIGHT.map(|name| self.ids[name].clone());
        let ids = ids.each_ref();
        for phase in ["expand", "backfill"] {
            let words = match phase {
                "expand" => "apply --phase expand".to_owned(),
                _ => format!("apply --phase backfill{digest}"),
            };
            for fault in faults(&plan, phase) {
                let kill = || next.run_killed(&words, &fault);
                writes += write_during(&self.board, &mut self.tasks, ids, kill);
                kills += 1;
                self.write_on_all(None, kills);
            }
            next.run_to_end(&words);
        }

        let (mut server, mut board) = self.serve_both(&next);
        if number == TAG_LIST {
            // The server of the next version is killed, so its lease stays. Then it starts again
            // while the former version serves. The lease delays only the contract phase of a later
            // version.
            drop(server);
            self.write_on_all(None, kills + 1);
            server = next.serve();
            board = self.board.at(number, &server);
        }
        self.write_on_all(Some(&board), kills + 2);

        self.server.take().expect("a server").stop();
        let words = format!("apply{digest}");
        for fault in faults(&plan, "contract") {
            let kill = || next.run_killed(&words, &fault);
            writes += write_during(&board, &mut self.tasks, ids, kill);
            kills += 1;
            board.rename(
                &mut self.tasks,
                &self.ids["renamed"],
                &format!("Call {kills}"),
            );
            board.assert_tasks(&self.tasks);
        }
        next.run_to_end(&words);
        board.create(&mut self.tasks, &format!("Only {number}"));
        board.assert_tasks(&self.tasks);
        next.run_to_end("verify");
        assert!(
            kills > 0 && writes > kills,
            "{writes} writes, {kills} kills"
        );
        (self.server, self.board, self.version) = (Some(server), board, next);
    }

    /// Changes a task on each serving version. Then each of them must list the writes of all.
    fn write_on_all(&mut self, next: Option<&Board>, count: usize) {
        let id = &self.ids["renamed"];
        for board in [Some(&self.board), next].into_iter().flatten() {
            board.rename(&mut self.tasks, id, &format!("Call {count}"));
            board.retag(&mut self.tasks, id, &format!("room {count}"));
        }
        for board in [Some(&self.board), next].into_iter().flatten() {
            board.assert_tasks(&self.tasks);
        }
    }
}
