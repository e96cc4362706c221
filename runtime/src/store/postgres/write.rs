//! Writes: among others on a connection as long as nobody stands in their way, else on one of their own.

use std::time::{Duration, Instant};

use super::session::Written;
use super::{Failure, PostgresStore, REPEATS, error};
use crate::store::queues::{self, Queue};
use crate::store::{Patience, Rows, Statement};
use crate::{Error, Result, Value};

/// The pause before the first attempt after one that was held up; and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));
/// Attempts without a queue.
const FREE: usize = 4;

impl PostgresStore {
    /// Runs a write.
    ///
    /// Whatever follows it on its connection waits with it. So it waits there for a moment only, and longer where it waits alone. It
    /// never waits for long while it holds something: others that want that, and hold what it wants, would wait for each other.
    pub(super) async fn write(&self, statement: &std::sync::Arc<Statement>, args: &[Value], rows: Rows) -> Result<Rows> {
        let (queue, began) = (statement.queue(), Instant::now());
        let (mut attempt, mut lost, mut pause) = (0, 0, PAUSES.0);
        loop {
            let queued = queue == Queue::Always || (queue == Queue::Late && attempt >= FREE);
            let of = (std::ptr::from_ref(self).addr(), statement.entity.storage_name);
            let place = if queued { Some(queues::first(of).await) } else { None };
            let patience = if queued || attempt == 0 { Patience::Brief } else { Patience::Long };
            let done = if attempt == 0 && !rows.is_recorded() {
                self.send(&self.writes, None, statement, args, rows.clone()).await.map_err(Ended::from)
            } else {
                self.record(patience, statement, args, rows.clone()).await
            };
            drop(place);
            match done {
                Ok(rows) => return Ok(rows),
                Err(Ended::For(error)) => return Err(error),
                Err(Ended::Lost(error)) => {
                    lost += 1;
                    if lost > REPEATS {
                        return Err(error);
                    }
                }
                Err(Ended::HeldUp) => {
                    if !self.time.is_zero() && began.elapsed() >= self.time {
                        return Err(error::ended());
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
            attempt += 1;
        }
    }

    /// Runs a write as a transaction of its own, with the events that it leaves.
    async fn record(&self, patience: Patience, statement: &Statement, args: &[Value], rows: Rows) -> Result<Rows, Ended> {
        // Refused at once while there is no way to the server.
        drop(self.writes.place().await.map_err(Ended::For)?);
        let mut taken = rows;
        let written = tokio::time::timeout(self.patience, self.recorded.write(patience, statement, args, &mut taken)).await;
        let failure = match written {
            Ok(Written::Committed) => return Ok(taken),
            Ok(Written::Failed(failure)) => failure,
            Ok(Written::Unknown(error)) => return Err(Ended::For(error::of(statement.entity, error))),
            Err(_) => return Err(Ended::For(Error::unavailable("the database does not answer"))),
        };
        // Nothing has been committed: it can be run again, whatever happened to the connection.
        let lost = match &failure {
            Failure::Unsent(_) => true,
            Failure::Server(e) => error::is_lost(e),
            Failure::Own(_) => false,
        };
        let error = failure.into_error(statement);
        Err(if lost { Ended::Lost(error) } else { error.into() })
    }
}

/// How a write ended that was not done.
enum Ended {
    /// It is not tried again.
    For(Error),
    /// The connection was lost before anything was done.
    Lost(Error),
    /// It gave way to somebody else.
    HeldUp,
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        if error.is_overtaken() { Self::HeldUp } else { Self::For(error) }
    }
}
