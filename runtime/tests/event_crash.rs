//! Kills a program between commits and deliveries, repeatedly. Every committed change must be
//! delivered under one id, and no rolled-back change may be delivered.
//!
//! The test runs itself as the program that is killed.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, missing_docs)] // in a test, a panic reports the failure

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use linchpin::event::Batch;
use linchpin::prelude::*;
use linchpin::{BoxFuture, Cx, EventSink};

#[cfg(feature = "postgres")]
#[path = "support/postgres.rs"]
mod postgres_server;

#[entity]
#[derive(Clone, Debug)]
pub struct Note {
    #[field(primary, default = uuid)]
    pub id: String,
    #[field(default = 0)]
    pub changes: i64,
}

#[operation(kind = "increment", field = changes)]
pub const CHANGE: Operation<Note>;

pub static NOTES: Package = package!(name = "notes", entities = [entity(Note, [CHANGE])]);

const FOLDER: &str = "LINCHPIN_TEST_CRASH_FOLDER";
const LIFE: &str = "LINCHPIN_TEST_CRASH_LIFE";
const DATABASE: &str = "LINCHPIN_TEST_CRASH_DATABASE";
const ROUNDS: u64 = 8;

/// A sink that appends events to a file, which survives a kill.
struct Log(Mutex<std::fs::File>);

impl EventSink for Log {
    fn publish<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, linchpin::Result<()>> {
        Box::pin(async move {
            for event in batch {
                // One write per line, so that a kill can cut only the last line.
                let line = format!(
                    "{} {} {} {}\n",
                    event.id,
                    event.name,
                    event.record_id.as_deref().unwrap_or_default(),
                    event.payload["changes"]
                );
                self.0.lock().unwrap().write_all(line.as_bytes()).unwrap();
                // A pause, so that a kill can happen between two events.
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
            Ok(())
        })
    }
}

async fn app(folder: &Path) -> linchpin::Running {
    let log = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(folder.join("told"))
        .unwrap();
    let database = std::env::var(DATABASE).unwrap();
    let config = Config::new()
        .signing_secret("a-secret-of-the-crash-test-32-bytes")
        .port(0)
        .database(database);
    let app = App::new(config)
        .plugin(JwtAuth::new())
        .package(&NOTES)
        .event_sink("log", Log(Mutex::new(log)));
    app.start().await.unwrap()
}

/// The program: writes until it is killed, or only delivers the remaining events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the program that the other test runs and kills"]
async fn program() {
    let Ok(folder) = std::env::var(FOLDER).map(PathBuf::from) else {
        return;
    };
    let running = app(&folder).await;
    if std::env::var(LIFE).as_deref() == Ok("deliver") {
        // A stop delivers waiting events first.
        running.stop().await.unwrap();
        return;
    }
    let notes = running.adapter::<Note>().unwrap();
    let cx = Cx::system("a crash test");
    let writers = (0..8).map(|_| async {
        loop {
            let note = notes
                .create(&cx, NoteCreate { changes: None })
                .await
                .unwrap();
            notes.change(&cx, note.id.as_str()).await.unwrap();
            let changed: linchpin::Result<()> = cx
                .transaction(async |cx| {
                    notes.change(cx, note.id.as_str()).await?;
                    notes
                        .create(
                            cx,
                            NoteCreate {
                                changes: Some(1000),
                            },
                        )
                        .await?;
                    // Always rolled back, so it must never be delivered.
                    Err(linchpin::Error::not_found())
                })
                .await;
            assert!(changed.is_err());
        }
    });
    futures_util::future::join_all(writers).await;
}

fn run(folder: &Path, database: &str, mode: &str) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "program", "--ignored", "--test-threads", "1"])
        .env(FOLDER, folder)
        .env(LIFE, mode)
        .env(DATABASE, database)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Delivered events with their ids, in the order of the first delivery.
type Order = Vec<(String, String)>;

/// The ids of the events by content, and their order.
fn delivered(folder: &Path) -> (BTreeMap<String, BTreeSet<String>>, Order) {
    let text = std::fs::read_to_string(folder.join("told")).unwrap_or_default();
    let mut by_fact: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut order = Vec::new();
    for line in text.lines() {
        let (id, fact) = line.split_once(' ').unwrap();
        if by_fact
            .entry(fact.to_owned())
            .or_default()
            .insert(id.to_owned())
        {
            order.push((fact.to_owned(), id.to_owned()));
        }
    }
    (by_fact, order)
}

/// Starts and kills the writing program repeatedly, and delivers the remaining events at the end.
/// `stored` reads the keys and the numbers of changes.
fn write_and_kill(database: &str, folder: &Path, stored: impl Fn() -> Vec<(String, i64)>) -> Order {
    let lines = || {
        std::fs::read_to_string(folder.join("told"))
            .unwrap_or_default()
            .lines()
            .count()
    };
    for round in 0..ROUNDS {
        let before = lines();
        let mut child = run(folder, database, "write");
        // The program must have started, even on a busy machine.
        let end = std::time::Instant::now() + Duration::from_mins(1);
        while lines() < before + 20 {
            assert!(
                std::time::Instant::now() < end,
                "the program delivers no event"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(23 * round));
        // SIGKILL: no handler runs, nothing is flushed.
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // Kills one more program while it delivers the remaining events.
    let mut child = run(folder, database, "deliver");
    std::thread::sleep(Duration::from_millis(40));
    child.kill().unwrap();
    child.wait().unwrap();
    let mut committed = BTreeSet::new();
    for _ in 0..20 {
        assert!(run(folder, database, "deliver").wait().unwrap().success());
        committed.clear();
        for (id, changes) in stored() {
            assert!(changes < 2, "a rolled-back record is stored");
            committed.insert(format!("notes.created {id} 0"));
            if changes == 1 {
                committed.insert(format!("notes.change {id} 1"));
            }
        }
        if delivered(folder).0.len() >= committed.len() {
            break;
        }
    }
    let (by_fact, order) = delivered(folder);
    let facts: BTreeSet<String> = by_fact.keys().cloned().collect();
    assert!(
        committed.len() > 200,
        "only {} mutations: too few for this test",
        committed.len()
    );
    let missing: Vec<_> = committed.difference(&facts).collect();
    assert!(
        missing.is_empty(),
        "{} of {} were not delivered: {missing:?}",
        missing.len(),
        committed.len()
    );
    let invented: Vec<_> = facts.difference(&committed).collect();
    assert!(
        invented.is_empty(),
        "delivered but not stored: {invented:?}"
    );
    for (fact, ids) in &by_fact {
        assert_eq!(
            ids.len(),
            1,
            "{fact} was delivered under several ids: {ids:?}"
        );
    }
    let text = std::fs::read_to_string(folder.join("told")).unwrap();
    println!(
        "{} mutations, {} delivered more than once",
        committed.len(),
        text.lines().count() - order.len()
    );
    order
}

#[test]
fn every_committed_mutation_is_delivered_after_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("crash.db");
    let stored = || {
        let file = rusqlite::Connection::open(&file).unwrap();
        let mut rows = file.prepare("SELECT id, changes FROM notes").unwrap();
        rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .map(Result::unwrap)
            .collect()
    };
    let order = write_and_kill(&format!("sqlite:{}", file.display()), folder.path(), stored);
    // The ids of events follow the order of commits, within a process and across restarts.
    let ids: Vec<&String> = order.iter().map(|(_, id)| id).collect();
    assert!(ids.is_sorted(), "events are not in the order of commits");
}

#[cfg(feature = "postgres")]
#[test]
fn every_committed_mutation_is_delivered_after_kill_9_on_postgres() {
    let folder = tempfile::tempdir().unwrap();
    let database = postgres_server::fresh_url();
    let stored = || {
        postgres_server::rows(
            &database,
            "SELECT id, changes::text FROM notes",
            |id, changes| (id, changes.parse().unwrap()),
        )
    };
    let order = write_and_kill(&database, folder.path(), stored);
    // On PostgreSQL, the events of different records have no defined order, but the events of one
    // record are in order.
    let mut created = BTreeSet::new();
    for (fact, _) in &order {
        let mut words = fact.split(' ');
        let (name, id) = (words.next().unwrap(), words.next().unwrap());
        if name == "notes.created" {
            created.insert(id);
        } else {
            assert!(
                created.contains(id),
                "{fact} was delivered before the creation of its record"
            );
        }
    }
}
