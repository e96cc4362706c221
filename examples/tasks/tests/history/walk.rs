//! A database goes through all versions, with two versions serving where the plan allows it.

pub mod killed;

use std::collections::BTreeMap;

use example_support::client::Client;
use example_support::session::Server;
use linchpin::schema::Snapshot;
use serde_json::{Value as Json, json};

use crate::board::{Board, Tasks};
use crate::rows::Database;
use crate::version::{PRESENT, Version, migration, recorded};

/// The tables without a row of the test: that of the tasks, which the app writes, and that of the
/// uses of keys, from which each start removes those of unknown keys.
const WITHOUT: [&str; 2] = ["board_tasks", "auth_data_key_uses"];

/// The version with more states.
const WIDER: usize = 6;

/// The version in which a text becomes a list.
const LIST: usize = 3;

/// A database that a version serves.
struct Walk {
    url: String,
    database: Database,
    tasks: Tasks,
    /// The ids of tasks by a short name.
    ids: BTreeMap<&'static str, String>,
    version: Version,
    server: Option<Server>,
    board: Board,
}

/// Takes a new database through all versions.
pub fn all(url: &str) {
    let mut walk = Walk::begin(url);
    let first = snapshot(1);
    walk.database.fill(&first, &WITHOUT);
    let kept = walk.database.rows(&first, &WITHOUT);
    for number in 2..=PRESENT {
        walk.step(number);
        assert_eq!(
            walk.database.rows(&first, &WITHOUT),
            kept,
            "version {number}"
        );
    }
    // The database is as the example of today declares it, and has nothing left to do.
    walk.version.done("plan --check");
    walk.server.expect("a server").stop();
}

/// The program of today cannot compute a field that it does not have any more. It says so before it
/// changes anything; the program of that version takes the database there.
pub fn with_gaps(url: &str) {
    let mut walk = Walk::begin(url);
    let id = walk.ids["two"].clone();
    walk.board.rename(&mut walk.tasks, &id, "Buy more bread");
    let done = walk
        .board
        .patch(&walk.ids["cancelled"], json!({ "state": "done" }));
    assert_eq!(done.status, 200, "{done:?}");
    walk.server.expect("a server").stop();
    let (computing, present) = (Version::new(10, url), Version::new(PRESENT, url));
    let before = walk.version.done("status");
    let words = format!("apply{}", present.approval());
    let refused = present.refused(&words, 3, "transform_missing");
    let text = refused["error"].to_string();
    assert!(
        text.contains("title_key") && text.contains("0010."),
        "{text}"
    );
    assert_eq!(walk.version.done("status"), before);
    for version in [computing, present] {
        version.done(&format!("apply{}", version.approval()));
        version.done("verify");
        let server = version.serve();
        walk.board.at(version.number, &server).shows(&walk.tasks);
        server.stop();
    }
}

/// From every version before the field was computed anew, the program of today is refused; the step
/// is named.
pub fn gaps_of_each(make: impl Fn(usize) -> String) {
    for number in 1..PRESENT {
        let url = make(number);
        let version = Version::new(number, &url);
        version.done("apply");
        let present = Version::new(PRESENT, &url);
        let words = format!("apply{}", present.approval());
        if number + 1 == PRESENT {
            present.done(&words);
            present.done("verify");
            continue;
        }
        let before = version.done("status");
        let refused = present.refused(&words, 3, "transform_missing");
        let text = refused["error"].to_string();
        assert!(
            text.contains("title_key") && text.contains("0010."),
            "version {number}: {text}"
        );
        assert_eq!(version.done("status"), before, "version {number}");
    }
}

fn snapshot(number: usize) -> Snapshot {
    let recorded = migration(&recorded(), number);
    serde_json::from_value(recorded["snapshot"].clone()).expect("a snapshot")
}

impl Walk {
    /// The first version, with 55 tasks.
    fn begin(url: &str) -> Self {
        let version = Version::new(1, url);
        version.done("apply");
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

    /// The next version takes over.
    fn step(&mut self, number: usize) {
        let next = Version::new(number, &self.url);
        let plan = next.done("plan");
        let migration = &plan["migrations"][0];
        let overlap = migration["overlap"] == true;
        assert_eq!(overlap, number != 9, "{migration:#}");
        let steps = migration["steps"].as_array().expect("a list");
        let has = |phase: &str| steps.iter().any(|step| step["phase"] == phase);
        let (fills, contracts) = (has("backfill"), has("contract"));
        let digest = next.approval();

        self.clean(&next, number);
        if number == WIDER {
            // The new states may be stored after the former version, which cannot read them.
            next.refused("apply --phase expand", 7, "instances_alive");
        } else {
            next.done("apply --phase expand");
        }
        self.board
            .create(&mut self.tasks, &format!("Expanded for {number}"));
        if number == LIST {
            // Not every record has the new value yet.
            next.is_refused();
        }
        if fills {
            next.done(&format!("apply --phase backfill{digest}"));
            self.board
                .create(&mut self.tasks, &format!("Filled for {number}"));
        }
        let served = if overlap {
            Some(self.together(&next))
        } else {
            next.is_refused();
            None
        };
        if contracts {
            next.refused(&format!("apply{digest}"), 7, "instances_alive");
            self.board.shows(&self.tasks);
        }
        self.change_over(next, served, contracts, &digest);
    }

    /// Corrects the records that the next version does not accept.
    fn clean(&mut self, next: &Version, number: usize) {
        match number {
            5 => {
                let refused = next.refused("apply --phase expand", 5, "duplicates_found");
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

    /// Both versions serve: each sees what the other writes.
    fn together(&mut self, next: &Version) -> (Server, Board) {
        let number = next.number;
        let server = next.serve();
        let board = self.board.at(number, &server);
        let renamed = self.ids["renamed"].clone();
        let id = board.create(&mut self.tasks, &format!("By {number}"));
        self.board
            .rename(&mut self.tasks, &renamed, &format!("Call {number}"));
        board.shows(&self.tasks);
        self.board
            .create(&mut self.tasks, &format!("Before {number}"));
        board.rename(&mut self.tasks, &renamed, &format!("Call {number} again"));
        self.board.shows(&self.tasks);
        board.shows(&self.tasks);
        if number == LIST {
            // Each reads the tag that the other gives last, in a list or not.
            board.retag(&mut self.tasks, &renamed, "garden");
            self.board.shows(&self.tasks);
            self.board.retag(&mut self.tasks, &renamed, "cellar");
            board.shows(&self.tasks);
            self.board.retag(&mut self.tasks, &id, "attic");
            board.rename(&mut self.tasks, &id, "By both");
            self.board.shows(&self.tasks);
            board.shows(&self.tasks);
            // The former version has one tag for each task.
            let two = json!({ "tags": ["garden", "cellar"] });
            let refused = board.patch(&id, two);
            assert_eq!(refused.status, 503, "{refused:?}");
            assert_eq!(refused.body["code"], "schema_pending");
            self.board.shows(&self.tasks);
        }
        if number == WIDER {
            // The former version could not read the new state.
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
        next.done(&format!("apply{digest}"));
        let (server, board) = served.unwrap_or_else(|| {
            let server = next.serve();
            let board = self.board.at(number, &server);
            (server, board)
        });
        board.shows(&self.tasks);
        board.create(&mut self.tasks, &format!("Only {number}"));
        board.shows(&self.tasks);
        next.done("verify");
        // A wider enum has no contract, but closes the window as well.
        if contracts || number == WIDER {
            self.version.is_refused();
        }
        (self.server, self.board, self.version) = (Some(server), board, next);
        self.look(number);
    }

    /// What is special about a version.
    fn look(&self, number: usize) {
        let of = |name: &str| self.board.get(&self.ids[name]);
        match number {
            LIST => {
                // The earlier column is gone.
                let two = json!({ "tags": ["home", "kitchen"] });
                let changed = self.board.patch(&self.ids["one"], two);
                assert_eq!(changed.status, 200, "{changed:?}");
            }
            4 => {
                assert_eq!(of("one")["priority"], 3);
                assert_eq!(of("one")["doneAt"], Json::Null);
            }
            5 => {
                let title = json!({ "title": "Buy bread" });
                assert_eq!(self.board.patch(&self.ids["two"], title).status, 409);
            }
            WIDER => {
                // A server hears of the end of a migration a moment after it; until then it asks
                // for another try.
                let doing = json!({ "state": "doing" });
                let patch = || self.board.patch(&self.ids["one"], doing.clone()).status;
                let mut status = patch();
                // A server looks every 10 seconds.
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
                assert_eq!(of("one")["state"], "doing");
            }
            8 => assert_eq!(of("one").get("notes"), None),
            9 => assert_eq!(of("spaces")["titleKey"], "  paint the fence "),
            10 => assert_eq!(of("spaces")["titleKey"], "paint the fence"),
            PRESENT => {
                assert_eq!(of("spaces").get("titleKey"), None);
                assert_eq!(of("one")["deletedAt"], Json::Null);
            }
            _ => {}
        }
    }
}
