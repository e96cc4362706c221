//! Writes: one thread, one connection, group commits.
//!
//! The thread runs all waiting writes in one transaction, so that they share one wait for the disk.
//! A statement that fails is rolled back alone; answers are sent after the commit.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::file::Identity;
use super::names::repeat;
use super::outbox::{Chore, Outgoing, Told};
use super::session::{self, Conversation, Session};
use super::{closed, error, write};
use linchpin_core::store::{Reply, Rows, Statement};
use linchpin_core::{Error, Result, Value};
use linchpin_sql::names::PresentNames;

/// The maximum number of writes in one commit.
const GROUP: usize = 256;
/// How long the result of the disk check stays valid.
const ROOM_HOLDS: Duration = Duration::from_secs(1);

/// The time of the last disk check, and its error if there was no room.
type Room = Option<(Instant, Option<String>)>;

/// A request to the writer thread.
#[allow(clippy::large_enum_variant)] // nearly all are writes, and each is moved once
enum Request {
    Write(Job),
    /// A transaction: the thread works for one caller only for a while.
    Session(Session),
}

struct Job {
    work: Work,
    answer: oneshot::Sender<Result<Rows>>,
}

impl Job {
    /// Whether its caller has stopped waiting.
    fn is_left(&self) -> bool {
        matches!(self.work, Work::Statement { .. }) && self.answer.is_closed()
    }
}

enum Work {
    Statement {
        statement: Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    },
    Chore(Chore),
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
            Self::Chore(chore) => {
                let mut rows = Rows::count();
                let outcome = chore.run(connection).map(|values| {
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
    /// Held during the disk check.
    room: Arc<tokio::sync::Mutex<Room>>,
    names: Arc<PresentNames>,
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        file: Identity,
        queue: usize,
        names: Arc<PresentNames>,
        told: Arc<Told>,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel(queue.max(1));
        let file = Arc::new(file);
        let watched = Arc::clone(&file);
        let thread = std::thread::Builder::new()
            .name("linchpin-sqlite-writer".to_owned())
            .spawn(move || work(connection, &watched, receiver, &told))?;
        Ok(Self {
            queue: RwLock::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
            file,
            room: Arc::default(),
            names,
        })
    }

    /// Runs a write. If the names may change meanwhile, the write is kept for a second run.
    pub(super) fn run<'a>(
        &'a self,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        if !self.names.is_watched() {
            return self.once(Arc::clone(statement), args, rows);
        }
        let (again, taken) = (args.clone(), rows.clone());
        let generation = self.names.generation();
        let first = self.once(Arc::clone(statement), args, rows);
        Reply::Later(Box::pin(async move {
            match first.await {
                Err(error) if error::missing_in(&error).is_some() => {
                    let write = move || {
                        self.once(Arc::clone(statement), again.clone(), taken.clone())
                            .rows()
                    };
                    repeat(&self.names, generation, error, write).await
                }
                outcome => outcome,
            }
        }))
    }

    fn once<'a>(&self, statement: Arc<Statement>, args: Vec<Value>, rows: Rows) -> Reply<'a> {
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

    /// Does work for the outbox, in the same transaction as the writes around it.
    pub(super) fn chore(&self, chore: Chore, answer: oneshot::Sender<Result<Rows>>) -> Result<()> {
        self.send(Request::Write(Job {
            work: Work::Chore(chore),
            answer,
        }))
    }

    /// Waits for its turn and begins a transaction.
    pub(super) async fn begin(&self) -> Result<Conversation> {
        let (session, conversation, begun) = session::open(Arc::clone(&self.names));
        self.send(Request::Session(session))?;
        begun.await.unwrap_or_else(|_| Err(closed()))?;
        Ok(conversation)
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
        // Any number of callers may ask; one of them checks the disk, at most once per interval.
        let mut room = Arc::clone(&self.room).lock_owned().await;
        if room
            .as_ref()
            .is_none_or(|(asked, _)| asked.elapsed() >= ROOM_HOLDS)
        {
            let file = Arc::clone(&self.file);
            // The check always completes, even if its caller stops waiting: the next one uses the
            // result.
            let ask = move || {
                let refused = file.room().err();
                *room = Some((Instant::now(), refused));
                room
            };
            room = tokio::task::spawn_blocking(ask)
                .await
                .map_err(Error::internal)?;
        }
        let refused = room.as_ref().and_then(|(_, refused)| refused.clone());
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
        // The thread ends by itself when the queue is empty; an error means that it was lost.
        tokio::task::spawn_blocking(move || thread.join())
            .await
            .ok()?
            .ok()
    }
}

fn work(
    connection: Connection,
    file: &Identity,
    mut queue: mpsc::Receiver<Request>,
    told: &Told,
) -> Connection {
    let mut group = Vec::with_capacity(GROUP);
    while let Some(request) = queue.blocking_recv() {
        let mut session = None;
        let mut next = Some(request);
        while let Some(request) = next {
            match request {
                // The caller left before the write began: skip it.
                Request::Write(job) if job.is_left() => {}
                Request::Write(job) => group.push(job),
                // The writes before it are committed first.
                Request::Session(asked) => session = Some(asked),
            }
            next = if session.is_some() || group.len() == GROUP {
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
            commit(&connection, &mut group, &mut queue, told);
        } else if let Some(job) = group.pop() {
            // A group transaction around one statement would only add cost.
            let mut outgoing = Outgoing::default();
            let outcome = job.work.run(&connection, &mut outgoing).0;
            if !connection.is_autocommit() {
                // It panicked, or the commit failed.
                drop(connection.execute_batch("ROLLBACK"));
                outgoing.discard();
            }
            outgoing.hand_over(told);
            if let Some(error) = outcome.as_ref().err().filter(|e| error::is_busy(e)) {
                refuse(waiting(&mut queue).into_iter(), &cause(error));
            }
            finish(job.answer, outcome);
        }
        if let Some(session) = session {
            session.serve(&connection, told);
        }
    }
    connection
}

/// All writes that waited during the wait for a lock of another process. If each waited for the
/// lock separately, the waits would add up.
fn waiting(queue: &mut mpsc::Receiver<Request>) -> Vec<Job> {
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

/// Runs a group in one transaction. Its events are one row of the outbox.
fn commit(
    connection: &Connection,
    group: &mut Vec<Job>,
    queue: &mut mpsc::Receiver<Request>,
    told: &Told,
) {
    if let Err(error) = connection
        .execute_batch("BEGIN IMMEDIATE")
        .map_err(Error::unavailable)
    {
        if error::is_busy(&error) {
            group.extend(waiting(queue));
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
                    // Its changes so far cannot be separated from the rest of the group.
                    lost = Some("a write panicked".to_owned());
                }
                outcome
            }
            Some(_) => Err(Error::unavailable("the group of writes was undone")),
        };
        // A full or failing disk ends the whole transaction, not only the statement. So does a
        // record that was written and cannot be read, because a name of it has changed.
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
            // A failure cannot be handled here; the next BEGIN would report it.
            drop(connection.execute_batch("ROLLBACK"));
        }
    }
    outgoing.hand_over(told);
    for (answer, outcome) in done {
        // All of them: even a refusal may depend on a write of the group that is now rolled back.
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
    // A panic must not end the only writer.
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(outcome) => (outcome, false),
        Err(_) => (Err(Error::internal("a write panicked")), true),
    }
}

/// Sends an answer. The caller may have stopped waiting; the write is done nevertheless.
fn finish(answer: oneshot::Sender<Result<Rows>>, outcome: Result<Rows>) {
    drop(answer.send(outcome));
}
