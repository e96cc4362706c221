//! Writes: on a shared connection as long as they need not wait for a lock, else on a connection of
//! their own.

use std::time::Instant;

use super::session::Written;
use super::{Failure, PostgresStore, REPEATS, error};
use linchpin_core::store::{Patience, Rows, Statement};
use linchpin_core::{Error, Result, Value};
use linchpin_queues::{self as queues, Attempts};

impl PostgresStore {
    /// Runs a write.
    ///
    /// On a shared connection, later statements wait for it. So it waits for a lock only briefly
    /// there, and longer on a connection of its own. It never waits for long while it holds locks,
    /// because that could cause a deadlock.
    pub(super) async fn write(
        &self,
        statement: &std::sync::Arc<Statement>,
        args: &[Value],
        rows: Rows,
    ) -> Result<Rows> {
        let (of, began) = (
            (
                std::ptr::from_ref(self).addr(),
                statement.entity.storage_name,
            ),
            Instant::now(),
        );
        let mut attempts = Attempts::new(
            queues::queue(statement),
            of,
            queues::record(statement, args),
        );
        let (mut lost, mut renamed) = (0, false);
        loop {
            let patience = self.in_time(began, attempts.begin()).await?;
            let done = if attempts.count() == 0 && lost == 0 && !rows.is_recorded() {
                self.send(&self.writes, None, statement, args, rows.clone())
                    .await
                    .map_err(Ended::from)
            } else {
                self.record(patience, statement, args, rows.clone()).await
            };
            attempts.end();
            match done {
                Ok(rows) => return Ok(rows),
                Err(Ended::For(error)) => return Err(error),
                Err(Ended::Lost(error)) => {
                    lost += 1;
                    if lost > REPEATS {
                        return Err(error);
                    }
                }
                Err(Ended::Renamed(error)) => {
                    if std::mem::replace(&mut renamed, true) {
                        return Err(error);
                    }
                }
                Err(Ended::HeldUp) => self.in_time(began, attempts.pause()).await?,
            }
        }
    }

    /// Waits up to the time limit of a statement since it `began`.
    async fn in_time<T>(&self, began: Instant, wait: impl Future<Output = T>) -> Result<T> {
        if self.time.is_zero() {
            return Ok(wait.await);
        }
        tokio::time::timeout(self.time.saturating_sub(began.elapsed()), wait)
            .await
            .map_err(|_| error::ended())
    }

    /// Runs a write as a transaction of its own, with its events.
    async fn record(
        &self,
        patience: Patience,
        statement: &Statement,
        args: &[Value],
        rows: Rows,
    ) -> Result<Rows, Ended> {
        // Refused at once while there is no connection to the server.
        drop(self.writes.place().await.map_err(Ended::For)?);
        let mut taken = rows;
        let generation = self.names.generation();
        let written = tokio::time::timeout(
            self.patience,
            self.recorded.write(patience, statement, args, &mut taken),
        )
        .await;
        let failure = match written {
            Ok(Written::Committed) => return Ok(taken),
            Ok(Written::Failed(failure)) => failure,
            Ok(Written::Unknown(error)) => {
                let error = Failure::Server(error).into_error(statement);
                return Err(Ended::For(error));
            }
            Err(_) => {
                return Err(Ended::For(Error::unavailable(
                    "the database does not answer",
                )));
            }
        };
        if failure.is_missing() {
            let error = failure.into_error(statement);
            let changed = self.names.refreshed(generation).await.map_err(Ended::For)?;
            return Err(if changed {
                Ended::Renamed(error)
            } else {
                Ended::For(error)
            });
        }
        // Nothing has been committed: it can be retried, even if the connection is lost.
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

/// The result of a write that was not done.
enum Ended {
    /// It is not retried.
    For(Error),
    /// The connection was lost before the write was sent.
    Lost(Error),
    /// The names of tables or columns have changed.
    Renamed(Error),
    /// It was stopped by a lock of another transaction.
    HeldUp,
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        if error.is_conflicting_write() {
            Self::HeldUp
        } else {
            Self::For(error)
        }
    }
}
