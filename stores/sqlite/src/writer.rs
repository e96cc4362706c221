//! Writes: one thread, one connection, group commits.
//!
//! The thread runs all waiting writes in one transaction, so that they share one wait for the disk.
//! If a statement fails, only its own changes are rolled back. Answers are sent after the commit.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::file::Identity;
use super::names::repeat;
use super::outbox::{CommitReceiver, OutboxTask, Outgoing};
use super::session::{self, Session, TransactionHandle};
use super::{closed, error, write};
use linchpin_core::store::{Reply, Rows, Statement};
use linchpin_core::{Error, Result, Value};
use linchpin_sql::names::PresentNames;

/// The maximum number of writes in one commit (a group).
const MAX_GROUP: usize = 256;
/// The result of the disk check is reused for this long.
const SPACE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The time of the last disk check, and its error if there was no room.
type SpaceCheck = Option<(Instant, Option<String>)>;

/// A request to the writer thread.
#[allow(clippy::large_enum_variant)] // nearly all requests are writes, and each is moved once
enum Request {
    Write(Job),
    /// A transaction: until it ends, the thread works only for its caller.
    Session(Session),
}

struct Job {
    work: Work,
    answer: oneshot::Sender<Result<Rows>>,
}

impl Job {
    /// Whether its caller has stopped waiting.
    fn is_abandoned(&self) -> bool {
        matches!(self.work, Work::Statement { .. }) && self.answer.is_closed()
    }
}

enum Work {
    Statement {
        statement: Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    },
    OutboxTask(OutboxTask),
}

impl Work {
    /// Runs the work; returns whether it panicked.
    fn run(self, connection: &Connection, outgoing: &mut Outgoing) -> (Result<Rows>, bool) {
        match self {
            Self::Statement {
                statement,
                args,
                rows,
            } => run(connection, &statement, args, rows, outgoing),
            Self::OutboxTask(outbox_task) => {
                let mut rows = Rows::count();
                let outcome = outbox_task.run(connection).map(|values| {
                    rows.last = values;
                    rows
                });
                (outcome, false)
            }
        }
    }
}

/// The write side of a store.
pub(super) struct Writer {
    queue: RwLock<Option<mpsc::Sender<Request>>>,
    thread: Mutex<Option<JoinHandle<Connection>>>,
    file: Arc<Identity>,
    /// The result of the last disk check. The lock is held during a check.
    space_check: Arc<tokio::sync::Mutex<SpaceCheck>>,
    names: Arc<PresentNames>,
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        file: Identity,
        queue: usize,
        names: Arc<PresentNames>,
        commit_receiver: Arc<CommitReceiver>,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel(queue.max(1));
        let file = Arc::new(file);
        let watched_file = Arc::clone(&file);
        let thread = std::thread::Builder::new()
            .name("linchpin-sqlite-writer".to_owned())
            .spawn(move || work(connection, &watched_file, receiver, &commit_receiver))?;
        Ok(Self {
            queue: RwLock::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
            file,
            space_check: Arc::default(),
            names,
        })
    }

    /// Runs a write. If the names may change before it runs, its arguments are kept for a second
    /// run.
    pub(super) fn run<'a>(
        &'a self,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        if !self.names.is_watched() {
            return self.run_once(Arc::clone(statement), args, rows);
        }
        let (repeat_args, repeat_rows) = (args.clone(), rows.clone());
        let generation = self.names.generation();
        let first = self.run_once(Arc::clone(statement), args, rows);
        Reply::Later(Box::pin(async move {
            match first.await {
                Err(error) if error::missing_in(&error).is_some() => {
                    let write = move || {
                        self.run_once(
                            Arc::clone(statement),
                            repeat_args.clone(),
                            repeat_rows.clone(),
                        )
                        .rows()
                    };
                    repeat(&self.names, generation, error, write).await
                }
                outcome => outcome,
            }
        }))
    }

    fn run_once<'a>(&self, statement: Arc<Statement>, args: Vec<Value>, rows: Rows) -> Reply<'a> {
        let (answer, answered) = oneshot::channel();
        let job = Job {
            work: Work::Statement {
                statement,
                args,
                rows,
            },
            answer,
        };
        match self.send(Request::Write(job)) {
            Ok(()) => Reply::Later(Box::pin(async {
                answered.await.unwrap_or_else(|_| Err(closed()))
            })),
            Err(error) => Reply::Ready(Err(error)),
        }
    }

    /// Queues work for the outbox. It runs in the same transaction as the writes next to it in the
    /// queue.
    pub(super) fn outbox_task(
        &self,
        outbox_task: OutboxTask,
        answer: oneshot::Sender<Result<Rows>>,
    ) -> Result<()> {
        self.send(Request::Write(Job {
            work: Work::OutboxTask(outbox_task),
            answer,
        }))
    }

    /// Waits for its turn and begins a transaction.
    pub(super) async fn begin(&self) -> Result<TransactionHandle> {
        let (session, handle, begun) = session::open(Arc::clone(&self.names));
        self.send(Request::Session(session))?;
        begun.await.unwrap_or_else(|_| Err(closed()))?;
        Ok(handle)
    }

    fn send(&self, request: Request) -> Result<()> {
        match &*self.queue.read() {
            Some(queue) => queue
                .try_send(request)
                .map_err(|e| Error::unavailable(format!("the write was not accepted: {e}"))),
            None => Err(closed()),
        }
    }

    /// Checks that the store accepts writes and the disk has room for them.
    pub(super) async fn ping(&self) -> Result<()> {
        match &*self.queue.read() {
            Some(queue) if !queue.is_closed() => self.file.check()?,
            _ => return Err(closed()),
        }
        // Concurrent callers share one check of the disk, at most once per second.
        let mut space_check = Arc::clone(&self.space_check).lock_owned().await;
        if space_check
            .as_ref()
            .is_none_or(|(checked_at, _)| checked_at.elapsed() >= SPACE_CHECK_INTERVAL)
        {
            let file = Arc::clone(&self.file);
            // The check always completes, even if its caller stops waiting. The next caller uses
            // the result.
            let check = move || {
                let refused = file.check_free_space().err();
                *space_check = Some((Instant::now(), refused));
                space_check
            };
            space_check = tokio::task::spawn_blocking(check)
                .await
                .map_err(Error::internal)?;
        }
        let refused = space_check
            .as_ref()
            .and_then(|(_, refused)| refused.clone());
        refused.map_or(Ok(()), |why| Err(Error::unavailable(why)))
    }

    /// Refuses new writes.
    pub(super) fn refuse(&self) {
        self.queue.write().take();
    }

    /// Finishes waiting writes, ends the thread and returns its connection; `None` if that was done
    /// before.
    pub(super) async fn close(&self) -> Option<Connection> {
        self.refuse();
        let thread = self.thread.lock().take()?;
        // The thread ends by itself when the queue is empty. An error means that it has panicked.
        tokio::task::spawn_blocking(move || thread.join())
            .await
            .ok()?
            .ok()
    }
}

/// Runs requests until the queue is closed and empty. Returns the connection.
fn work(
    connection: Connection,
    file: &Identity,
    mut queue: mpsc::Receiver<Request>,
    commit_receiver: &CommitReceiver,
) -> Connection {
    let mut group = Vec::with_capacity(MAX_GROUP);
    while let Some(request) = queue.blocking_recv() {
        let mut session = None;
        let mut next = Some(request);
        while let Some(request) = next {
            match request {
                // The caller stopped waiting before the write began, so the write is skipped.
                Request::Write(job) if job.is_abandoned() => {}
                Request::Write(job) => group.push(job),
                // The writes before it are committed first.
                Request::Session(next_session) => session = Some(next_session),
            }
            next = if session.is_some() || group.len() == MAX_GROUP {
                None
            } else {
                queue.try_recv().ok()
            };
        }
        if let Err(error) = file.check() {
            refuse(group.drain(..), &cause(&error));
            if let Some(session) = session {
                session.refuse(error);
            }
            continue;
        }
        if group.len() > 1 {
            commit(&connection, &mut group, &mut queue, commit_receiver);
        } else if let Some(job) = group.pop() {
            // A single write needs no group transaction.
            let mut outgoing = Outgoing::default();
            let outcome = job.work.run(&connection, &mut outgoing).0;
            if !connection.is_autocommit() {
                // The write panicked, or the commit failed.
                drop(connection.execute_batch("ROLLBACK"));
                outgoing.discard();
            }
            outgoing.hand_over(commit_receiver);
            if let Some(error) = outcome.as_ref().err().filter(|e| error::is_busy(e)) {
                refuse(take_waiting(&mut queue).into_iter(), &cause(error));
            }
            finish(job.answer, outcome);
        }
        if let Some(session) = session {
            session.serve(&connection, commit_receiver);
        }
    }
    connection
}

/// Takes all writes that were queued during a wait for the lock of another process. If each group
/// waited for the lock separately, the waits would add up.
fn take_waiting(queue: &mut mpsc::Receiver<Request>) -> Vec<Job> {
    let mut jobs = Vec::new();
    while let Ok(request) = queue.try_recv() {
        match request {
            Request::Write(job) => jobs.push(job),
            Request::Session(session) => session.refuse(Error::unavailable(
                "the database is locked by another process",
            )),
        }
    }
    jobs
}

fn refuse(jobs: impl Iterator<Item = Job>, cause: &str) {
    jobs.for_each(|job| finish(job.answer, Err(Error::unavailable(cause.to_owned()))));
}

fn cause(error: &Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Runs a group in one transaction, which also writes the events of the group to the outbox.
fn commit(
    connection: &Connection,
    group: &mut Vec<Job>,
    queue: &mut mpsc::Receiver<Request>,
    commit_receiver: &CommitReceiver,
) {
    if let Err(error) = connection
        .execute_batch("BEGIN IMMEDIATE")
        .map_err(Error::unavailable)
    {
        if error::is_busy(&error) {
            group.extend(take_waiting(queue));
        }
        refuse(group.drain(..), &cause(&error));
        return;
    }
    let mut done = Vec::with_capacity(group.len());
    let (mut lost, mut outgoing) = (None, Outgoing::default());
    for job in group.drain(..) {
        let outcome = match &lost {
            None => {
                let (outcome, panicked) = job.work.run(connection, &mut outgoing);
                if panicked {
                    // The changes of the panicked write cannot be separated from the rest of the
                    // group.
                    lost = Some("a write panicked".to_owned());
                }
                outcome
            }
            Some(_) => Err(Error::unavailable("the group of writes was undone")),
        };
        // If the disk is full or fails, SQLite rolls back the whole transaction, not only the
        // statement. The transaction is also rolled back if a written record cannot be read because
        // a name has changed.
        if lost.is_none() && connection.is_autocommit() {
            lost = Some(outcome.as_ref().err().map(cause).unwrap_or_default());
        }
        done.push((job.answer, outcome));
    }
    let committed = match lost {
        None => outgoing
            .write(connection)
            .map_err(|e| cause(&e))
            .and_then(|()| {
                connection
                    .execute_batch("COMMIT")
                    .map_err(|e| e.to_string())
            }),
        Some(text) => Err(text),
    };
    if committed.is_err() {
        outgoing.discard();
        if !connection.is_autocommit() {
            // A failure is ignored: the next BEGIN would report it.
            drop(connection.execute_batch("ROLLBACK"));
        }
    }
    outgoing.hand_over(commit_receiver);
    for (answer, outcome) in done {
        // All writes get the error: even a refused write may have been refused because of another
        // write that is now rolled back.
        let outcome = match &committed {
            Err(cause) => Err(error::undone(cause)),
            Ok(()) => outcome,
        };
        finish(answer, outcome);
    }
}

/// Runs one write; returns whether it panicked.
pub(super) fn run(
    connection: &Connection,
    statement: &Statement,
    mut args: Vec<Value>,
    rows: Rows,
    outgoing: &mut Outgoing,
) -> (Result<Rows>, bool) {
    let work = || write::write(connection, statement, &mut args, rows, outgoing);
    // A panic must not end the writer thread, because there is only one.
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(outcome) => (outcome, false),
        Err(_) => (Err(Error::internal("a write panicked")), true),
    }
}

/// Sends an answer. If the caller has stopped waiting, the write is done anyway.
fn finish(answer: oneshot::Sender<Result<Rows>>, outcome: Result<Rows>) {
    drop(answer.send(outcome));
}
