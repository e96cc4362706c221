//! Transactions: during a transaction the writer thread works only for its caller.
//!
//! A file has one writer at a time. A second connection would only wait for the lock, so
//! transactions also use the writer thread. They run the same statements as calls outside of
//! transactions.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::names::pending;
use super::outbox::{CommitReceiver, Outgoing};
use super::render::Runs;
use super::{error, native, reader, writer};
use linchpin_core::BoxFuture;
use linchpin_core::store::{Rows, Statement, Transaction};
use linchpin_core::{Error, Result, Value};
use linchpin_sql::names::PresentNames;

/// A transaction is rolled back if it is idle for this long, because all other writes wait.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// A transaction is rolled back after this time.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// A command from the caller to the writer thread.
#[allow(clippy::large_enum_variant)] // nearly all commands are statements, and each is moved once
enum Command {
    Run(Box<Run>),
    Commit(oneshot::Sender<Result<()>>),
}

/// One statement.
struct Run {
    statement: Arc<Statement>,
    args: Vec<Value>,
    rows: Rows,
    answer: oneshot::Sender<Result<Rows>>,
}

/// The writer's end of a transaction.
pub(super) struct Session {
    opened: oneshot::Sender<Result<()>>,
    commands: mpsc::Receiver<Command>,
}

/// The caller's end of a transaction. Dropping it rolls back.
pub(super) struct TransactionHandle {
    commands: mpsc::Sender<Command>,
    names: Arc<PresentNames>,
}

/// Creates the two ends, and a channel on which the writer reports the start.
pub(super) fn open(
    names: Arc<PresentNames>,
) -> (Session, TransactionHandle, oneshot::Receiver<Result<()>>) {
    let (opened, begun) = oneshot::channel();
    let (sender, commands) = mpsc::channel();
    (
        Session { opened, commands },
        TransactionHandle {
            commands: sender,
            names,
        },
        begun,
    )
}

impl Session {
    /// Reports that the transaction does not begin.
    pub(super) fn refuse(self, error: Error) {
        drop(self.opened.send(Err(error)));
    }

    /// Serves the caller until it commits, stops waiting, or exceeds a limit.
    pub(super) fn serve(self, connection: &Connection, receiver: &CommitReceiver) {
        if let Err(error) = connection.execute_batch("BEGIN IMMEDIATE") {
            return self.refuse(Error::unavailable(error));
        }
        let Self { opened, commands } = self;
        if opened.send(Ok(())).is_ok() {
            run_commands(connection, &commands, receiver);
        }
        if !connection.is_autocommit() {
            // A failure is ignored: the next BEGIN would report it.
            drop(connection.execute_batch("ROLLBACK"));
        }
    }
}

fn run_commands(
    connection: &Connection,
    commands: &mpsc::Receiver<Command>,
    receiver: &CommitReceiver,
) {
    let end = Instant::now() + TIME_LIMIT;
    let mut outgoing = Outgoing::default();
    loop {
        let wait = IDLE_TIMEOUT.min(end.saturating_duration_since(Instant::now()));
        match commands.recv_timeout(wait) {
            Ok(Command::Run(run)) => {
                let Run {
                    statement,
                    args,
                    rows,
                    answer,
                } = *run;
                let (outcome, panicked) =
                    perform(connection, &statement, args, rows, &mut outgoing);
                // If the disk is full or fails, SQLite rolls back the whole transaction, not only
                // the statement.
                let lost = panicked || connection.is_autocommit();
                drop(answer.send(outcome));
                if lost {
                    return;
                }
            }
            Ok(Command::Commit(answer)) => {
                let committed = outgoing.write(connection).and_then(|()| {
                    connection
                        .execute_batch("COMMIT")
                        .map_err(Error::unavailable)
                });
                if committed.is_ok() {
                    outgoing.hand_over(receiver);
                }
                drop(answer.send(committed));
                return;
            }
            Err(RecvTimeoutError::Timeout) => {
                tracing::warn!(
                    "a transaction took too long and was rolled back, because other writes were \
                     waiting"
                );
                return;
            }
            // The caller has stopped waiting.
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Runs a statement. Also returns whether it panicked.
fn perform(
    connection: &Connection,
    statement: &Arc<Statement>,
    args: Vec<Value>,
    mut rows: Rows,
    outgoing: &mut Outgoing,
) -> (Result<Rows>, bool) {
    match native(statement) {
        Ok(native) if !matches!(native.runs, Runs::Writer) => (
            reader::read(connection, statement.entity, native, &args, &mut rows).map(|()| rows),
            false,
        ),
        _ => writer::run(connection, statement, args, rows, outgoing),
    }
}

impl TransactionHandle {
    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T>>) -> Command,
    ) -> Result<T> {
        let lost = || {
            Error::unavailable(
                "the transaction was rolled back: it took too long, or the store was closed",
            )
        };
        let (answer, answered) = oneshot::channel();
        self.commands.send(command(answer)).map_err(|_| lost())?;
        answered.await.unwrap_or_else(|_| Err(lost()))
    }
}

impl Transaction for TransactionHandle {
    fn run<'a>(
        &'a mut self,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> BoxFuture<'a, Result<Rows>> {
        let statement = Arc::clone(statement);
        Box::pin(async move {
            let generation = self.names.generation();
            let done = self.ask(|answer| {
                Command::Run(Box::new(Run {
                    statement,
                    args,
                    rows,
                    answer,
                }))
            });
            match done.await {
                Err(error) if error::missing_in(&error).is_some() => {
                    Err(pending(&self.names, generation, error).await)
                }
                outcome => outcome,
            }
        })
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { self.ask(Command::Commit).await })
    }
}
