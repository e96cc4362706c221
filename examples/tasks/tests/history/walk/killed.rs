//! Runs that are killed at every place, while the versions that may serve go on to write.

use super::*;

/// The places of every step. The step does not run again after the last one.
const PLACES: [&str; 6] = [
    "before-running",
    "after-running",
    "after-preconditions",
    "after-action",
    "after-verification",
    "after-done",
];
/// The places of a step that changes rows, besides.
const BATCHES: [&str; 2] = ["batch:1:before-commit", "batch:1:after-commit"];

/// Takes a new database over a rename and over a replaced column.
pub fn all(url: &str) {
    let mut walk = Walk::begin(url);
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
        let mut kills = 0;
        for phase in ["expand", "backfill"] {
            let words = match phase {
                "expand" => "apply --phase expand".to_owned(),
                _ => format!("apply --phase backfill{digest}"),
            };
            for fault in faults(&plan, phase) {
                next.killed(&words, &fault);
                kills += 1;
                self.write(None, kills);
            }
            next.done(&words);
        }

        let (mut server, mut board) = self.together(&next);
        if number == LIST {
            // It ends without a word to the database, and starts again beside the former version.
            // Its lease delays the contract of a later version only.
            drop(server);
            self.write(None, kills + 1);
            server = next.serve();
            board = self.board.at(number, &server);
        }
        self.write(Some(&board), kills + 2);

        self.server.take().expect("a server").stop();
        let words = format!("apply{digest}");
        for fault in faults(&plan, "contract") {
            next.killed(&words, &fault);
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
        assert!(kills > 0, "{plan:#}");
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
