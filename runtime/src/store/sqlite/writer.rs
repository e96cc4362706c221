//! Writes: one thread, one connection, commits in groups.
//!
//! The thread takes whatever waits and runs it in one transaction, so that one wait for the disk serves all. A statement
//! that fails undoes itself alone; answers leave after the commit.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Mutex, RwLock};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::{BUSY, Durability, reader};
use crate::store::{Reply, Rows, Statement};
use crate::{Error, Result, Value};

/// Most writes of one commit.
const GROUP: usize = 256;

struct Job {
    statement: Arc<Statement>,
    args: Vec<Value>,
    rows: Rows,
    answer: oneshot::Sender<Result<Rows>>,
}

/// The write side of a store.
pub(super) struct Writer {
    queue: RwLock<Option<mpsc::Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Opens the writer's connection; creates the file.
pub(super) fn connect(path: &Path, durability: Durability) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    reader::prepare(&connection)?;
    Ok(connection)
}

impl Writer {
    pub(super) fn start(connection: Connection, queue: usize) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel(queue.max(1));
        let thread = std::thread::Builder::new().name("linchpin-sqlite-writer".to_owned()).spawn(move || work(&connection, receiver))?;
        Ok(Self { queue: RwLock::new(Some(sender)), thread: Mutex::new(Some(thread)) })
    }

    pub(super) fn run<'a>(&self, statement: Arc<Statement>, args: Vec<Value>, rows: Rows) -> Reply<'a> {
        let (answer, answered) = oneshot::channel();
        let job = Job { statement, args, rows, answer };
        let sent = match &*self.queue.read() {
            Some(queue) => queue.try_send(job).map_err(|e| Error::unavailable(format!("the write was not accepted: {e}"))),
            None => Err(closed()),
        };
        match sent {
            Ok(()) => Reply::Later(Box::pin(async { answered.await.unwrap_or_else(|_| Err(closed())) })),
            Err(error) => Reply::Ready(Err(error)),
        }
    }

    pub(super) fn ping(&self) -> Result<()> {
        match &*self.queue.read() {
            Some(queue) if !queue.is_closed() => Ok(()),
            _ => Err(closed()),
        }
    }

    /// Takes nothing more, finishes what waits, and ends the thread.
    pub(super) async fn close(&self) {
        self.queue.write().take();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // The thread ends by itself once the queue is empty; an error means it had ended already.
            drop(tokio::task::spawn_blocking(move || thread.join()).await);
        }
    }
}

fn closed() -> Error {
    Error::unavailable("the store is closed")
}

fn work(connection: &Connection, mut queue: mpsc::Receiver<Job>) {
    let mut group = Vec::with_capacity(GROUP);
    while let Some(job) = queue.blocking_recv() {
        group.push(job);
        while group.len() < GROUP
            && let Ok(job) = queue.try_recv()
        {
            group.push(job);
        }
        if group.len() == 1 {
            // A transaction around one statement would only cost.
            for job in group.drain(..) {
                finish(job.answer, run(connection, &job.statement, job.args, job.rows).0);
            }
        } else {
            commit(connection, &mut group);
        }
    }
    if let Err(error) = connection.pragma_update(None, "wal_checkpoint", "TRUNCATE") {
        tracing::debug!(%error, "no checkpoint at the end");
    }
}

/// Runs a group in one transaction.
fn commit(connection: &Connection, group: &mut Vec<Job>) {
    if let Err(error) = connection.execute_batch("BEGIN IMMEDIATE") {
        let text = error.to_string();
        group.drain(..).for_each(|job| finish(job.answer, Err(Error::unavailable(text.clone()))));
        return;
    }
    let mut done = Vec::with_capacity(group.len());
    let mut lost = None;
    for job in group.drain(..) {
        let outcome = match &lost {
            None => {
                let (outcome, panicked) = run(connection, &job.statement, job.args, job.rows);
                if panicked {
                    // What it had done so far cannot be told apart from the rest of the group.
                    lost = Some("a write panicked".to_owned());
                }
                outcome
            }
            Some(_) => Err(Error::unavailable("the group of writes was undone")),
        };
        // A full disk or a failing one ends the whole transaction, not just the statement.
        if lost.is_none() && connection.is_autocommit() {
            lost = Some(outcome.as_ref().err().map(ToString::to_string).unwrap_or_default());
        }
        done.push((job.answer, outcome));
    }
    let committed = match lost {
        None => connection.execute_batch("COMMIT").map_err(|e| e.to_string()),
        Some(text) => Err(text),
    };
    if committed.is_err() && !connection.is_autocommit() {
        // Nothing can be done about a failure here; the next BEGIN would tell.
        drop(connection.execute_batch("ROLLBACK"));
    }
    for (answer, outcome) in done {
        // All of them: a refusal, too, may rest on a write of the group that is now undone.
        let outcome = match &committed {
            Err(text) => Err(Error::unavailable(format!("the group of writes was not committed: {text}"))),
            Ok(()) => outcome,
        };
        finish(answer, outcome);
    }
}

/// Runs one write; tells whether it panicked.
fn run(connection: &Connection, statement: &Statement, mut args: Vec<Value>, rows: Rows) -> (Result<Rows>, bool) {
    let work = || reader::write(connection, statement, &mut args, rows);
    // A panic must not take the only writer with it.
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(outcome) => (outcome, false),
        Err(_) => (Err(Error::internal("a write panicked")), true),
    }
}

/// Sends an answer; whoever asked may have gone, and the write stands all the same.
fn finish(answer: oneshot::Sender<Result<Rows>>, outcome: Result<Rows>) {
    drop(answer.send(outcome));
}
