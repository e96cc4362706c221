//! Migrates a database through all versions. Two versions serve together if the plan allows it.

pub mod killed;

use std::collections::BTreeMap;

use example_support::client::Client;
use example_support::session::Server;
use linchpin::schema::Snapshot;
use serde_json::{Value as Json, json};

use crate::board::{Board, Tasks};
use crate::rows::Database;
use crate::version::{PRESENT, Version, migration, recorded};

/// The tables in which the test writes no row. The app writes the tasks, and each start removes
/// uses of unknown keys.
const TABLES_WITHOUT_ROWS: [&str; 2] = ["board_tasks", "auth_data_key_uses"];

/// The version that adds states.
const MORE_STATES: usize = 6;

/// The version in which a text becomes a list.
const TAG_LIST: usize = 3;

/// A database that a version serves.
struct Upgrade {
    url: String,
    database: Database,
    tasks: Tasks,
    /// The ids of tasks by a short name.
    ids: BTreeMap<&'static str, String>,
    version: Version,
    server: Option<Server>,
    board: Board,
}

/// Migrates a new database through all versions.
pub fn through_all_versions(url: &str) {
    let mut upgrade = Upgrade::begin(url);
    let first = snapshot(1);
    upgrade.database.fill(&first, &TABLES_WITHOUT_ROWS);
    let kept = upgrade.database.rows(&first, &TABLES_WITHOUT_ROWS);
    for number in 2..=PRESENT {
        upgrade.migrate_to(number);
        assert_eq!(
            upgrade.database.rows(&first, &TABLES_WITHOUT_ROWS),
            kept,
            "version {number}"
        );
    }
    // The database has the present schema, and no migration is pending.
    upgrade.version.run_to_end("plan --check");
    upgrade.server.expect("a server").stop();
}

/// The present program cannot compute a field that it no longer has. It is refused before it
/// changes the database. The program of the version with the field can migrate the database to that
/// version.
pub fn over_a_removed_field(url: &str) {
    let mut upgrade = Upgrade::begin(url);
    let id = upgrade.ids["two"].clone();
    upgrade
        .board
        .rename(&mut upgrade.tasks, &id, "Buy more bread");
    let done = upgrade
        .board
        .patch(&upgrade.ids["cancelled"], json!({ "state": "done" }));
    assert_eq!(done.status, 200, "{done:?}");
    upgrade.server.expect("a server").stop();
    let (computing, present) = (Version::new(10, url), Version::new(PRESENT, url));
    let before = upgrade.version.run_to_end("status");
    let words = format!("apply{}", present.approval());
    let refused = present.assert_error(&words, 3, "transform_missing");
    let text = refused["error"].to_string();
    assert!(
        text.contains("title_key") && text.contains("0010."),
        "{text}"
    );
    assert_eq!(upgrade.version.run_to_end("status"), before);
    for version in [computing, present] {
        version.run_to_end(&format!("apply{}", version.approval()));
        version.run_to_end("verify");
        let server = version.serve();
        upgrade
            .board
            .at(version.number, &server)
            .assert_tasks(&upgrade.tasks);
        server.stop();
    }
}

/// The present program refuses a database of every version before the one in which the field was
/// recomputed. The error names the step.
pub fn over_a_removed_field_from_each_version(make: impl Fn(usize) -> String) {
    for number in 1..PRESENT {
        let url = make(number);
        let version = Version::new(number, &url);
        version.run_to_end("apply");
        let present = Version::new(PRESENT, &url);
        let words = format!("apply{}", present.approval());
        if number + 1 == PRESENT {
            present.run_to_end(&words);
            present.run_to_end("verify");
            continue;
        }
        let before = version.run_to_end("status");
        let refused = present.assert_error(&words, 3, "transform_missing");
        let text = refused["error"].to_string();
        assert!(
            text.contains("title_key") && text.contains("0010."),
            "version {number}: {text}"
        );
        assert_eq!(version.run_to_end("status"), before, "version {number}");
    }
}

fn snapshot(number: usize) -> Snapshot {
    let recorded = migration(&recorded(), number);
    serde_json::from_value(recorded["snapshot"].clone()).expect("a snapshot")
}

impl Upgrade {
    /// Starts the first version and creates 55 tasks.
    fn begin(url: &str) -> Self {
        let version = Version::new(1, url);
        version.run_to_end("apply");
        let server = version.serve();
        let board = Board::new(1, Client::user(&server, "alice", &[]));
        let mut tasks = Tasks::new();
        let mut ids = BTreeMap::new();
        for n in 0..50 {
            board.create(&mut tasks, &format!("Task {n}"));
        }
        for (name, title) in [
            ("one", "Buy bread"),
            ("two", "Buy bread"),
            ("cancelled", "Learn the tuba"),
            ("spaces", "  Paint The Fence "),
            ("renamed", "Call somebody"),
        ] {
            ids.insert(name, board.create(&mut tasks, title));
        }
        let cancelled = board.patch(&ids["cancelled"], json!({ "state": "cancelled" }));
        assert_eq!(cancelled.status, 200, "{cancelled:?}");
        Self {
            url: url.to_owned(),
            database: Database::new(url),
            tasks,
            ids,
            version,
            server: Some(server),
            board,
        }
    }

    /// Migrates the database to the next version, which then serves.
    fn migrate_to(&mut self, number: usize) {
        let next = Version::new(number, &self.url);
        let plan = next.run_to_end("plan");
        let migration = &plan["migrations"][0];
        let overlap = migration["overlap"] == true;
        assert_eq!(overlap, number != 9, "{migration:#}");
        let steps = migration["steps"].as_array().expect("a list");
        let has = |phase: &str| steps.iter().any(|step| step["phase"] == phase);
        let (fills, contracts) = (has("backfill"), has("contract"));
        let digest = next.approval();

        self.correct_records(&next, number);
        if number == MORE_STATES {
            // The former version cannot read the new states, so the step waits until it stops.
            next.assert_error("apply --phase expand", 7, "instances_alive");
        } else {
            next.run_to_end("apply --phase expand");
        }
        self.board
            .create(&mut self.tasks, &format!("Expanded for {number}"));
        if number == TAG_LIST {
            // Before the backfill, not every record has the new value.
            next.assert_not_serving();
        }
        if fills {
            next.run_to_end(&format!("apply --phase backfill{digest}"));
            self.board
                .create(&mut self.tasks, &format!("Filled for {number}"));
        }
        let served = if overlap {
            Some(self.serve_both(&next))
        } else {
            next.assert_not_serving();
            None
        };
        if contracts {
            next.assert_error(&format!("apply{digest}"), 7, "instances_alive");
            self.board.assert_tasks(&self.tasks);
        }
        self.change_over(next, served, contracts, &digest);
    }

    /// Corrects the records that the next version does not accept.
    fn correct_records(&mut self, next: &Version, number: usize) {
        match number {
            5 => {
                let refused = next.assert_error("apply --phase expand", 5, "duplicates_found");
                let text = refused["error"].to_string();
                for name in ["one", "two"] {
                    assert!(text.contains(&self.ids[name]), "{text}");
                }
                let id = &self.ids["two"];
                self.board.rename(&mut self.tasks, id, "Buy more bread");
            }
            7 => {
                assert_eq!(next.migrate("plan --check").exit, 5);
                let id = &self.ids["cancelled"];
                let done = self.board.patch(id, json!({ "state": "done" }));
                assert_eq!(done.status, 200, "{done:?}");
                assert_eq!(next.migrate("plan --check").exit, 10);
            }
            _ => {}
        }
    }

    /// Both versions serve, and each reads the writes of the other one.
    fn serve_both(&mut self, next: &Version) -> (Server, Board) {
        let number = next.number;
        let server = next.serve();
        let board = self.board.at(number, &server);
        let renamed = self.ids["renamed"].clone();
        let id = board.create(&mut self.tasks, &format!("By {number}"));
        self.board
            .rename(&mut self.tasks, &renamed, &format!("Call {number}"));
        board.assert_tasks(&self.tasks);
        self.board
            .create(&mut self.tasks, &format!("Before {number}"));
        board.rename(&mut self.tasks, &renamed, &format!("Call {number} again"));
        self.board.assert_tasks(&self.tasks);
        board.assert_tasks(&self.tasks);
        if number == TAG_LIST {
            // Each version reads the last tag of the other one, as a text or as a list.
            board.retag(&mut self.tasks, &renamed, "garden");
            self.board.assert_tasks(&self.tasks);
            self.board.retag(&mut self.tasks, &renamed, "cellar");
            board.assert_tasks(&self.tasks);
            self.board.retag(&mut self.tasks, &id, "attic");
            board.rename(&mut self.tasks, &id, "By both");
            self.board.assert_tasks(&self.tasks);
            board.assert_tasks(&self.tasks);
            // The former version can store only one tag of a task.
            let two = json!({ "tags": ["garden", "cellar"] });
            let refused = board.patch(&id, two);
            assert_eq!(refused.status, 503, "{refused:?}");
            assert_eq!(refused.body["code"], "schema_pending");
            self.board.assert_tasks(&self.tasks);
        }
        if number == MORE_STATES {
            // The former version cannot read the new state.
            let refused = board.patch(&id, json!({ "state": "doing" }));
            assert_eq!(refused.status, 503, "{refused:?}");
            assert_eq!(refused.body["code"], "schema_pending");
        }
        (server, board)
    }

    /// The former version stops, the migration is finished, and the next version serves.
    fn change_over(
        &mut self,
        next: Version,
        served: Option<(Server, Board)>,
        contracts: bool,
        digest: &str,
    ) {
        let number = next.number;
        let former = self.server.take().expect("a server");
        former.stop();
        next.run_to_end(&format!("apply{digest}"));
        let (server, board) = served.unwrap_or_else(|| {
            let server = next.serve();
            let board = self.board.at(number, &server);
            (server, board)
        });
        board.assert_tasks(&self.tasks);
        board.create(&mut self.tasks, &format!("Only {number}"));
        board.assert_tasks(&self.tasks);
        next.run_to_end("verify");
        // A widened enum has no contract step, but it also excludes older versions.
        if contracts || number == MORE_STATES {
            self.version.assert_not_serving();
        }
        (self.server, self.board, self.version) = (Some(server), board, next);
        self.check_special_changes(number);
    }

    /// Checks the special changes of a version.
    fn check_special_changes(&self, number: usize) {
        let task = |name: &str| self.board.get(&self.ids[name]);
        match number {
            TAG_LIST => {
                // The earlier column is gone.
                let two = json!({ "tags": ["home", "kitchen"] });
                let changed = self.board.patch(&self.ids["one"], two);
                assert_eq!(changed.status, 200, "{changed:?}");
            }
            4 => {
                assert_eq!(task("one")["priority"], 3);
                assert_eq!(task("one")["doneAt"], Json::Null);
            }
            5 => {
                let title = json!({ "title": "Buy bread" });
                assert_eq!(self.board.patch(&self.ids["two"], title).status, 409);
            }
            MORE_STATES => {
                // A server reads the end of a migration with a delay. Until then it returns 503.
                let doing = json!({ "state": "doing" });
                let patch = || self.board.patch(&self.ids["one"], doing.clone()).status;
                let mut status = patch();
                // A server reads the ledger every 10 seconds.
                for _ in 0..300 {
                    if status != 503 {
                        break;
                    }
                    std::thread::sleep(std::time::Duration::from_millis(100));
                    status = patch();
                }
                assert_eq!(status, 200);
            }
            7 => {
                let back = json!({ "state": "cancelled" });
                assert_eq!(self.board.patch(&self.ids["one"], back).status, 400);
                assert_eq!(task("one")["state"], "doing");
            }
            8 => assert_eq!(task("one").get("notes"), None),
            9 => assert_eq!(task("spaces")["titleKey"], "  paint the fence "),
            10 => assert_eq!(task("spaces")["titleKey"], "paint the fence"),
            PRESENT => {
                assert_eq!(task("spaces").get("titleKey"), None);
                assert_eq!(task("one")["deletedAt"], Json::Null);
            }
            _ => {}
        }
    }
}
