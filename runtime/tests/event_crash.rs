//! Kills a program between commits and deliveries, again and again: every committed mutation is told, under one id, and
//! nothing is told that did not happen.
//!
//! The test runs itself as the program that is killed.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, missing_docs)] // in a test, stopping is the report

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use linchpin::prelude::*;
use linchpin::{BoxFuture, Cx, EntityEvent, EventSink};

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
const ROUNDS: u64 = 8;

/// Appends what it is told to a file: what was written is there after a kill.
struct Log(Mutex<std::fs::File>);

impl EventSink for Log {
    fn publish<'a>(&'a self, events: &'a [EntityEvent]) -> BoxFuture<'a, linchpin::Result<()>> {
        Box::pin(async move {
            for event in events {
                // One write per line, so that a kill cuts none but the last.
                let line = format!(
                    "{} {} {} {}\n",
                    event.id,
                    event.name,
                    event.record_id.as_deref().unwrap_or_default(),
                    event.payload["changes"]
                );
                self.0.lock().unwrap().write_all(line.as_bytes()).unwrap();
                // Time to be killed between two.
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
            Ok(())
        })
    }
}

async fn app(folder: &Path) -> linchpin::Running {
    let log = std::fs::OpenOptions::new().append(true).create(true).open(folder.join("told")).unwrap();
    let database = format!("sqlite:{}", folder.join("crash.db").display());
    let config = Config::new().signing_secret("a-secret-of-the-crash-test-32-bytes").port(0).database(database);
    let app = App::new(config).plugin(JwtAuth::new()).package(&NOTES).event_sink("log", Log(Mutex::new(log)));
    app.start().await.unwrap()
}

/// The program: writes until it is killed, or only delivers what is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the program that the other test runs and kills"]
async fn program() {
    let Ok(folder) = std::env::var(FOLDER).map(PathBuf::from) else { return };
    let running = app(&folder).await;
    if std::env::var(LIFE).as_deref() == Ok("deliver") {
        // Stopping delivers what waits.
        running.stop().await.unwrap();
        return;
    }
    let notes = running.adapter::<Note>().unwrap();
    let cx = Cx::system("a crash test");
    let writers = (0..8).map(|_| async {
        loop {
            let note = notes.create(&cx, NoteCreate { changes: None }).await.unwrap();
            notes.change(&cx, note.id.as_str()).await.unwrap();
            let changed: linchpin::Result<()> = cx
                .transaction(async |cx| {
                    notes.change(cx, note.id.as_str()).await?;
                    notes.create(cx, NoteCreate { changes: Some(1000) }).await?;
                    // Undone every time: must never be told.
                    Err(linchpin::Error::not_found())
                })
                .await;
            assert!(changed.is_err());
        }
    });
    futures_util::future::join_all(writers).await;
}

fn run(folder: &Path, life: &str) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "program", "--ignored", "--test-threads", "1"])
        .env(FOLDER, folder)
        .env(LIFE, life)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Ids of the events, by what they tell; and the ids in the order of the first delivery.
fn told(folder: &Path) -> (BTreeMap<String, BTreeSet<String>>, Vec<String>) {
    let text = std::fs::read_to_string(folder.join("told")).unwrap_or_default();
    let mut by_fact: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut order = Vec::new();
    for line in text.lines() {
        let (id, fact) = line.split_once(' ').unwrap();
        if by_fact.entry(fact.to_owned()).or_default().insert(id.to_owned()) {
            order.push(id.to_owned());
        }
    }
    (by_fact, order)
}

#[test]
fn every_committed_mutation_is_told_after_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..ROUNDS {
        let mut child = run(folder.path(), "write");
        // The first start takes a while to get going.
        std::thread::sleep(Duration::from_millis(150 + 23 * round));
        // SIGKILL: no handler runs, nothing is flushed.
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // One more that is killed while it delivers what is left.
    let mut child = run(folder.path(), "deliver");
    std::thread::sleep(Duration::from_millis(40));
    child.kill().unwrap();
    child.wait().unwrap();
    let mut committed = BTreeSet::new();
    for _ in 0..20 {
        assert!(run(folder.path(), "deliver").wait().unwrap().success());
        let file = rusqlite::Connection::open(folder.path().join("crash.db")).unwrap();
        let facts = "SELECT id, changes FROM notes";
        let mut rows = file.prepare(facts).unwrap();
        let rows = rows.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))).unwrap();
        committed.clear();
        for (id, changes) in rows.map(Result::unwrap) {
            assert!(changes < 2, "what was undone is stored");
            committed.insert(format!("notes.created {id} 0"));
            if changes == 1 {
                committed.insert(format!("notes.change {id} 1"));
            }
        }
        if told(folder.path()).0.len() >= committed.len() {
            break;
        }
    }
    let (by_fact, order) = told(folder.path());
    let facts: BTreeSet<String> = by_fact.keys().cloned().collect();
    assert!(committed.len() > 200, "only {} mutations: the test tests nothing", committed.len());
    let missing: Vec<_> = committed.difference(&facts).collect();
    assert!(missing.is_empty(), "{} of {} were not told: {missing:?}", missing.len(), committed.len());
    let invented: Vec<_> = facts.difference(&committed).collect();
    assert!(invented.is_empty(), "told and never happened: {invented:?}");
    for (fact, ids) in &by_fact {
        assert_eq!(ids.len(), 1, "{fact} was told under several ids: {ids:?}");
    }
    let text = std::fs::read_to_string(folder.path().join("told")).unwrap();
    let repeated = text.lines().count() - order.len();
    // Numbers of commits are those of ids, within a process and from one to the next.
    let mut sorted = order.clone();
    sorted.sort();
    assert_eq!(order, sorted, "not in the order of commits");
    println!("{} mutations, {repeated} told more than once", committed.len());
}
