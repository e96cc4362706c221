//! Runs that are killed at every place, while the versions that may serve continue to write.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// The tasks that are written continuously while a run is killed.
const IN_FLIGHT: [&str; 2] = ["one", "spaces"];

/// The places of every step. The step does not run again after the last one.
const PLACES: [&str; 6] = [
    "before-running",
    "after-running",
    "after-preconditions",
    "after-action",
    "after-verification",
    "after-done",
];
/// The additional places of a step that changes rows.
const BATCHES: [&str; 2] = ["batch:1:before-commit", "batch:1:after-commit"];

/// Migrates a new database through a rename and a replaced column. Afterwards, its ledger equals
/// that of another database with undisturbed runs.
pub fn all(mut make: impl FnMut() -> String) {
    let mut walk = Walk::begin(&make());
    let first = snapshot(1);
    walk.database.fill(&first, &WITHOUT);
    let kept = walk.database.rows(&first, &WITHOUT);
    for number in [2, LIST] {
        walk.step_killed(number);
        assert_eq!(
            walk.database.rows(&first, &WITHOUT),
            kept,
            "version {number}"
        );
    }
    walk.version.done("plan --check");
    walk.server.expect("a server").stop();
    assert_eq!(walk.database.ledger(), undisturbed(&make()));
}

/// The ledger after undisturbed runs.
fn undisturbed(url: &str) -> Vec<String> {
    Version::new(1, url).done("apply");
    let database = Database::new(url);
    database.fill(&snapshot(1), &WITHOUT[1..]);
    for number in [2, LIST] {
        let version = Version::new(number, url);
        version.done(&format!("apply{}", version.approval()));
    }
    database.ledger()
}

/// Ends a loop, also after a panic.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes tasks continuously while some work runs. Afterwards, each acknowledged write must be
/// there; every other write must be refused with `schema_pending`. Returns the number of writes.
fn beside(board: &Board, tasks: &mut Tasks, ids: [&String; 2], work: impl FnOnce()) -> usize {
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
            let _end = End(&ended);
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
    let of = |step: &Json| {
        let id = step["id"].as_str().expect("an id").to_owned();
        let has_rows = phase == "backfill";
        let batches = BATCHES.into_iter().filter(move |_| has_rows);
        let (before, after) = PLACES.split_at(3);
        let places = before.iter().copied().chain(batches).chain(after.to_vec());
        places.map(move |place| format!("{id}:{place}"))
    };
    steps.flat_map(of).collect()
}

impl Walk {
    /// The next version takes over, with runs that are killed.
    fn step_killed(&mut self, number: usize) {
        let next = Version::new(number, &self.url);
        let (plan, digest) = (next.done("plan"), next.approval());
        let (mut kills, mut writes) = (0, 0);
        let ids = IN_FLIGHT.map(|name| self.ids[name].clone());
        let ids = ids.each_ref();
        for phase in ["expand", "backfill"] {
            let words = match phase {
                "expand" => "apply --phase expand".to_owned(),
                _ => format!("apply --phase backfill{digest}"),
            };
            for fault in faults(&plan, phase) {
                let kill = || next.killed(&words, &fault);
                writes += beside(&self.board, &mut self.tasks, ids, kill);
                kills += 1;
                self.write(None, kills);
            }
            next.done(&words);
        }

        let (mut server, mut board) = self.together(&next);
        if number == LIST {
            // It ends without removing its lease, and starts again beside the former version. The
            // lease delays the contract of a later version only.
            drop(server);
            self.write(None, kills + 1);
            server = next.serve();
            board = self.board.at(number, &server);
        }
        self.write(Some(&board), kills + 2);

        self.server.take().expect("a server").stop();
        let words = format!("apply{digest}");
        for fault in faults(&plan, "contract") {
            let kill = || next.killed(&words, &fault);
            writes += beside(&board, &mut self.tasks, ids, kill);
            kills += 1;
            board.rename(
                &mut self.tasks,
                &self.ids["renamed"],
                &format!("Call {kills}"),
            );
            board.shows(&self.tasks);
        }
        next.done(&words);
        board.create(&mut self.tasks, &format!("Only {number}"));
        board.shows(&self.tasks);
        next.done("verify");
        assert!(
            kills > 0 && writes > kills,
            "{writes} writes, {kills} kills"
        );
        (self.server, self.board, self.version) = (Some(server), board, next);
    }

    /// Each version that serves changes a task, and shows what all have written.
    fn write(&mut self, next: Option<&Board>, count: usize) {
        let id = &self.ids["renamed"];
        for board in [Some(&self.board), next].into_iter().flatten() {
            board.rename(&mut self.tasks, id, &format!("Call {count}"));
            board.retag(&mut self.tasks, id, &format!("room {count}"));
        }
        for board in [Some(&self.board), next].into_iter().flatten() {
            board.shows(&self.tasks);
        }
    }
}
