//! Writes run on a shared connection. A write that must wait for a lock is repeated on a separate
//! connection.

use std::time::Instant;

use super::session::Written;
use super::{Failure, MAX_RETRIES, PostgresStore, error};
use linchpin_core::store::{LockWait, Rows, Statement};
use linchpin_core::{Error, Result, Value};
use linchpin_queues::{self as queues, Attempts};

impl PostgresStore {
    /// Runs a write.
    ///
    /// On a shared connection, later statements wait for the write. It therefore waits at most 50
    /// ms for a lock there, and longer on a separate connection. A write never waits long while it
    /// holds locks, because that could cause a deadlock.
    pub(super) async fn write(
        &self,
        statement: &std::sync::Arc<Statement>,
        args: &[Value],
        rows: Rows,
    ) -> Result<Rows> {
        let (store_and_table, began) = (
            (
                std::ptr::from_ref(self).addr(),
                statement.entity.storage_name,
            ),
            Instant::now(),
        );
        let mut attempts = Attempts::new(
            queues::queue(statement),
            store_and_table,
            queues::record(statement, args),
        );
        let (mut lost, mut renamed) = (0, false);
        loop {
            let lock_wait = self.in_time(began, attempts.begin()).await?;
            let done = if attempts.count() == 0 && lost == 0 && !rows.is_recorded() {
                self.send(&self.writes, None, statement, args, rows.clone())
                    .await
                    .map_err(Ended::from)
            } else {
                self.record(lock_wait, statement, args, rows.clone()).await
            };
            attempts.end();
            match done {
                Ok(rows) => return Ok(rows),
                Err(Ended::Final(error)) => return Err(error),
                Err(Ended::Lost(error)) => {
                    lost += 1;
                    if lost > MAX_RETRIES {
                        return Err(error);
                    }
                }
                Err(Ended::Renamed(error)) => {
                    if std::mem::replace(&mut renamed, true) {
                        return Err(error);
                    }
                }
                Err(Ended::Blocked) => self.in_time(began, attempts.pause()).await?,
            }
        }
    }

    /// Waits at most until the time limit of a statement, counted from `began`.
    async fn in_time<T>(&self, began: Instant, wait: impl Future<Output = T>) -> Result<T> {
        if self.statement_timeout.is_zero() {
            return Ok(wait.await);
        }
        tokio::time::timeout(self.statement_timeout.saturating_sub(began.elapsed()), wait)
            .await
            .map_err(|_| error::canceled())
    }

    /// Runs a write as a separate transaction, with its events.
    async fn record(
        &self,
        lock_wait: LockWait,
        statement: &Statement,
        args: &[Value],
        rows: Rows,
    ) -> Result<Rows, Ended> {
        // The write is refused immediately while the server cannot be reached.
        drop(self.writes.connection().await.map_err(Ended::Final)?);
        let mut taken = rows;
        let generation = self.names.generation();
        let written = tokio::time::timeout(
            self.answer_timeout,
            self.recorded.write(lock_wait, statement, args, &mut taken),
        )
        .await;
        let failure = match written {
            Ok(Written::Committed) => return Ok(taken),
            Ok(Written::Failed(failure)) => failure,
            Ok(Written::Unknown(error)) => {
                let error = Failure::Server(error).into_error(statement);
                return Err(Ended::Final(error));
            }
            Err(_) => {
                return Err(Ended::Final(Error::unavailable(
                    "the database does not answer",
                )));
            }
        };
        if failure.is_missing() {
            let error = failure.into_error(statement);
            let changed = self
                .names
                .refreshed(generation)
                .await
                .map_err(Ended::Final)?;
            return Err(if changed {
                Ended::Renamed(error)
            } else {
                Ended::Final(error)
            });
        }
        // Nothing has been committed, so the write can be retried, even if the connection is lost.
        let lost = match &failure {
            Failure::Unsent(_) => true,
            Failure::Server(e) => error::is_lost(e),
            Failure::Own(_) => false,
        };
        let error = failure.into_error(statement);
        Err(if lost {
            Ended::Lost(error)
        } else {
            error.into()
        })
    }
}

/// The reason why a write was not done.
enum Ended {
    /// An error after which the write is not retried.
    Final(Error),
    /// The connection was lost, and nothing was committed.
    Lost(Error),
    /// The names of tables or columns have changed.
    Renamed(Error),
    /// The write was stopped by a lock of another transaction.
    Blocked,
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        if error.is_conflicting_write() {
            Self::Blocked
        } else {
            Self::Final(error)
        }
    }
}
