//! Transactions: each has its own connection until it ends. Writes that record events are short
//! transactions, and so are writes that were stopped by a lock of another transaction.
//!
//! Waits for locks follow rules that avoid deadlocks. A transaction of the framework waits briefly,
//! rolls back, and retries. A transaction of the application runs once and waits up to the
//! statement time limit. Transactions of the application begin one after the other, because two of
//! them that lock the same records in different orders would deadlock. The next one begins when the
//! previous one has ended, waits for a lock, or has run for 100 ms. A quarter of the connections is
//! reserved for transactions that do not wait long.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connect::Connector;
use super::lane::Live;
use super::outbox::{Handover, Recorder};
use super::run::{self, Failure};
use super::turns::{Turn, Turns};
use super::{MAX_RETRIES, closed, error};
use linchpin_core::BoxFuture;
use linchpin_core::event::Entry;
use linchpin_core::store::{LockWait, Plan, Rows, Statement, Transaction};
use linchpin_core::{Error, Result, Value};
use linchpin_sql::names::PresentNames;

/// The server rolls back a transaction that is idle for too long, because others wait for its
/// locks. A statement that waits too long for a lock fails.
const SETTINGS: &str = "SET idle_in_transaction_session_timeout = '5s'; SET lock_timeout = '100ms'";

/// Waits up to 500 ms for a lock. The server checks for deadlocks only after 1 s of waiting (its
/// default `deadlock_timeout`), so in a deadlock this transaction is rolled back first.
const BEGIN_LONG: &str = "BEGIN; SET LOCAL lock_timeout = '500ms'";

/// Waits up to the statement time limit.
const NO_LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = 0";

const SAVEPOINT: &str = "SAVEPOINT statement";
const RELEASE: &str = "RELEASE statement";
const ROLLBACK_TO_SAVEPOINT: &str = "ROLLBACK TO statement; RELEASE statement";

/// The connections for transactions.
pub(super) struct Sessions {
    connector: Arc<Connector>,
    idle: parking_lot::Mutex<Vec<Live>>,
    permits: Arc<Semaphore>,
    /// Permits for transactions that may wait long: three quarters of the connections.
    long: Arc<Semaphore>,
    turns: Turns,
    capacity: usize,
    /// A write that was stopped by a lock waits at most this long for a connection.
    wait: Duration,
    recorder: Recorder,
    /// Receives events after the commit.
    handover: Arc<Handover>,
    names: Arc<PresentNames>,
}

/// The result of a write in a separate transaction.
pub(super) enum Written {
    Committed,
    /// Nothing was written.
    Failed(Failure),
    /// The connection was lost during the commit: the result is unknown.
    Unknown(tokio_postgres::Error),
}

impl Sessions {
    pub(super) fn new(
        connector: &Arc<Connector>,
        capacity: usize,
        wait: Duration,
        (names, handover): (&Arc<PresentNames>, &Arc<Handover>),
    ) -> Arc<Self> {
        let permits = |count| Arc::new(Semaphore::new(count));
        Arc::new(Self {
            idle: parking_lot::Mutex::default(),
            permits: permits(capacity),
            long: permits((capacity * 3 / 4).max(1)),
            turns: Turns::default(),
            capacity,
            wait: wait.max(connector.connect_timeout),
            recorder: Recorder::default(),
            handover: Arc::clone(handover),
            names: Arc::clone(names),
            connector: Arc::clone(connector),
        })
    }

    pub(super) async fn begin(self: &Arc<Self>, lock_wait: LockWait) -> Result<OpenTransaction> {
        // An idle connection may have broken. The next one is tried then.
        loop {
            let (transaction, is_new) = self.take(lock_wait).await?;
            match transaction
                .live()?
                .client
                .batch_execute(transaction.begin_statement())
                .await
            {
                Ok(()) => return Ok(transaction),
                Err(error) if is_new => return Err(Error::unavailable(error)),
                Err(_) => {}
            }
        }
    }

    /// A connection before the start of its transaction, and whether it is new.
    async fn take(self: &Arc<Self>, lock_wait: LockWait) -> Result<(OpenTransaction, bool)> {
        let wait = if lock_wait == LockWait::Extended {
            self.wait
        } else {
            self.connector.connect_timeout
        };
        let entered = async {
            let turn = if lock_wait == LockWait::UntilTimeout {
                Some(self.turns.enter().await?)
            } else {
                None
            };
            let long = if lock_wait == LockWait::Short {
                None
            } else {
                Some(Arc::clone(&self.long).acquire_owned().await?)
            };
            Ok::<_, tokio::sync::AcquireError>((
                turn,
                [long, Some(Arc::clone(&self.permits).acquire_owned().await?)],
            ))
        };
        let entered = tokio::time::timeout(wait, entered)
            .await
            .map_err(|_| Error::unavailable("too many transactions are running"))?;
        let (turn, permits) = entered.map_err(|_| closed())?;
        let idle = {
            let mut idle = self.idle.lock();
            idle.retain(|live| !live.client.is_closed());
            idle.pop()
        };
        let is_new = idle.is_none();
        let live = match idle {
            Some(live) => live,
            None => self.connect().await.map_err(Error::unavailable)?,
        };
        let sessions = Arc::clone(self);
        Ok((
            OpenTransaction {
                live: Some(live),
                permits,
                turn,
                sessions,
                lock_wait,
                repeats: 0,
                events: Vec::new(),
                lost: false,
            },
            is_new,
        ))
    }

    async fn connect(&self) -> std::result::Result<Live, tokio_postgres::Error> {
        let (client, connection) = self.connector.connect().await?;
        tokio::spawn(connection);
        self.connector.prepare(&client).await?;
        client.batch_execute(SETTINGS).await?;
        Ok(Live::new(client))
    }

    /// Runs a write and stores its events atomically. It takes two round trips: BEGIN is sent with
    /// the statement, and COMMIT with the events.
    pub(super) async fn write(
        self: &Arc<Self>,
        lock_wait: LockWait,
        statement: &Statement,
        args: &[Value],
        rows: &mut Rows,
    ) -> Written {
        let before = rows.clone();
        let (transaction, _) = match self.take(lock_wait).await {
            Ok(taken) => taken,
            Err(error) => return Written::Failed(Failure::Own(error)),
        };
        let mut outcome = transaction.start(statement, args, rows).await;
        if let (Err(failure), Some(live)) = (&outcome, &transaction.live)
            && run::repairable(statement, args, failure)
            && live.client.batch_execute("ROLLBACK").await.is_ok()
            && run::repair(live, statement).await
        {
            rows.clone_from(&before);
            outcome = transaction.start(statement, args, rows).await;
        }
        match outcome {
            Ok(()) => transaction.finish(rows.entries()).await,
            Err(failure) => Written::Failed(failure),
        }
    }

    pub(super) async fn close(&self, time_limit: Duration) {
        let all = u32::try_from(self.capacity).unwrap_or(u32::MAX);
        let ended = tokio::time::timeout(time_limit, self.permits.acquire_many(all)).await;
        if ended.is_err() {
            tracing::warn!("a transaction was still open when the store was closed");
        }
        for permits in [&self.permits, &self.long] {
            permits.close();
        }
        self.turns.close();
        self.idle.lock().clear();
    }
}

/// An open transaction. Dropping it rolls back.
pub(super) struct OpenTransaction {
    live: Option<Live>,
    /// The permit to wait long, and the permit for the connection.
    permits: [Option<OwnedSemaphorePermit>; 2],
    /// Its turn. No other transaction of the application begins before the turn ends.
    turn: Option<Turn>,
    sessions: Arc<Sessions>,
    lock_wait: LockWait,
    /// The number of retries of the current statement.
    repeats: usize,
    /// The events of the statements.
    events: Vec<Entry>,
    /// Whether the transaction can no longer be used.
    lost: bool,
}

impl OpenTransaction {
    fn live(&self) -> Result<&Live> {
        self.live
            .as_ref()
            .filter(|_| !self.lost)
            .ok_or_else(|| Error::unavailable("the transaction was rolled back"))
    }

    async fn perform(
        &mut self,
        statement: &Statement,
        args: &[Value],
        mut rows: Rows,
    ) -> Result<Rows> {
        self.repeats = 0;
        let generation = self.sessions.names.generation();
        let live = self.live()?;
        // Reads run without a savepoint, so a failed read ends the transaction. The exception is a
        // read that locks records in a transaction that is not retried: it has a savepoint, so that
        // the transaction can continue after a lock timeout.
        let locks_rows = matches!(statement.plan, Plan::Hold { .. } | Plan::Lock { .. });
        if statement.plan.reads() && !(locks_rows && self.lock_wait == LockWait::UntilTimeout) {
            let outcome = run::run_within(live, statement, args, &mut rows).await;
            self.lost = matches!(outcome, Err(Failure::Unsent(_) | Failure::Server(_)));
            return match outcome {
                Ok(()) => Ok(rows),
                Err(failure) => Err(self.error(failure, statement, generation).await),
            };
        }
        let mut result = rows.clone();
        let (mut outcome, mut can_continue) = self
            .run_with_savepoint(live, statement, args, &mut result)
            .await;
        while let Err(failure) = &outcome
            && can_continue
            && self.prepare_retry(statement, args, failure).await
        {
            result = rows.clone();
            let live = self.live()?;
            (outcome, can_continue) = self
                .run_with_savepoint(live, statement, args, &mut result)
                .await;
        }
        if let Err(Failure::Server(e)) = &outcome
            && error::may_retry(e)
        {
            tracing::debug!(
                error = %e,
                "a statement was rolled back in favor of another transaction"
            );
        }
        self.lost = !can_continue;
        match outcome {
            Ok(()) => {
                if result.is_recorded() {
                    self.events.append(&mut result.entries());
                }
                Ok(result)
            }
            Err(failure) => Err(self.error(failure, statement, generation).await),
        }
    }

    /// The error of a statement: `schema_pending` if a migration has changed the names since the
    /// `generation` that it was rendered for.
    async fn error(&self, failure: Failure, statement: &Statement, generation: u64) -> Error {
        let is_missing = failure.is_missing();
        let error = failure.into_error(statement);
        if !is_missing {
            return error;
        }
        let names = &self.sessions.names;
        names.within_transaction(error, generation).await
    }

    /// The statement that begins the transaction.
    fn begin_statement(&self) -> &'static str {
        if self.lock_wait == LockWait::Extended {
            BEGIN_LONG
        } else {
            "BEGIN"
        }
    }

    /// Whether to retry a statement that failed and was rolled back; prepares the retry.
    async fn prepare_retry(
        &mut self,
        statement: &Statement,
        args: &[Value],
        failure: &Failure,
    ) -> bool {
        let Ok(live) = self.live() else { return false };
        if self.repeats == MAX_RETRIES {
            return false;
        }
        let again = if run::repairable(statement, args, failure) {
            run::repair(live, statement).await
        } else if self.lock_wait == LockWait::UntilTimeout
            && let Failure::Server(error) = failure
        {
            // The other transaction may be one of the framework, which has been rolled back by now.
            error::is_deadlock(error)
                || (error::is_lock_timeout(error) && self.allow_long_waits().await.is_ok())
        } else {
            false
        };
        self.repeats += usize::from(again);
        again
    }

    /// Ends the turn. From now on, statements of this transaction wait for locks up to the
    /// statement time limit.
    async fn allow_long_waits(&mut self) -> Result<()> {
        self.turn = None;
        let set = self.live()?.client.batch_execute(NO_LOCK_TIMEOUT).await;
        // After an error, the server would silently roll back at the commit.
        self.lost |= set.is_err();
        set.map_err(Error::unavailable)
    }

    /// Runs a statement under a savepoint. Also returns whether the transaction can continue.
    async fn run_with_savepoint(
        &self,
        live: &Live,
        statement: &Statement,
        args: &[Value],
        rows: &mut Rows,
    ) -> (std::result::Result<(), Failure>, bool) {
        let (begun, outcome) = tokio::join!(biased; live.client.batch_execute(SAVEPOINT), run::run_within(live, statement, args, rows));
        if let Err(error) = begun {
            return (Err(Failure::Server(error)), false);
        }
        let kept = match outcome {
            Ok(()) => live.client.batch_execute(RELEASE).await,
            Err(_) => live.client.batch_execute(ROLLBACK_TO_SAVEPOINT).await,
        };
        (outcome, kept.is_ok())
    }

    /// Begins the transaction and runs the first statement.
    async fn start(
        &self,
        statement: &Statement,
        args: &[Value],
        rows: &mut Rows,
    ) -> std::result::Result<(), Failure> {
        let live = self.live().map_err(Failure::Own)?;
        let (begun, outcome) = tokio::join!(biased; live.client.batch_execute(self.begin_statement()), run::run_within(live, statement, args, rows));
        begun.map_err(Failure::Unsent)?;
        outcome
    }

    /// Writes events and commits.
    async fn finish(mut self, events: Vec<Entry>) -> Written {
        let live = match self.live() {
            Ok(live) => live,
            Err(error) => return Written::Failed(Failure::Own(error)),
        };
        let mut place = self.sessions.handover.place(events);
        let (recorded, committed) = self.sessions.recorder.commit(live, &mut place).await;
        if let Err(error) = recorded {
            // If the server refuses the events, it rolls back the transaction. If the connection is
            // lost, the server may have committed everything.
            return if error.code().is_some() {
                place.undone();
                Written::Failed(Failure::Server(error))
            } else {
                Written::Unknown(error)
            };
        }
        if let Err(error) = committed {
            if error.code().is_some() {
                place.undone();
            }
            return Written::Unknown(error);
        }
        place.committed();
        self.return_connection();
        Written::Committed
    }

    /// Returns the connection to the idle ones after the transaction has ended.
    fn return_connection(&mut self) {
        if let Some(live) = self.live.take() {
            self.sessions.idle.lock().push(live);
        }
    }
}

impl Transaction for OpenTransaction {
    fn run<'a>(
        &'a mut self,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> BoxFuture<'a, Result<Rows>> {
        Box::pin(async move { self.perform(statement, &args, rows).await })
    }

    fn take_advisory_lock(&mut self, key: i64) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if self.lock_wait == LockWait::UntilTimeout {
                self.allow_long_waits().await?;
            }
            let taken = self
                .live()?
                .client
                .execute("SELECT pg_advisory_xact_lock($1)", &[&key])
                .await;
            self.lost |= taken.is_err();
            taken.map(|_| ()).map_err(error::plain)
        })
    }

    fn commit(mut self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            let events = std::mem::take(&mut self.events);
            match self.finish(events).await {
                Written::Committed => Ok(()),
                Written::Failed(Failure::Own(error)) => Err(error),
                Written::Failed(Failure::Unsent(error) | Failure::Server(error))
                | Written::Unknown(error) => Err(Error::unavailable(error)),
            }
        })
    }

    fn rollback(mut self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Some(live) = &self.live else { return };
            let undone = tokio::time::timeout(
                self.sessions.connector.connect_timeout,
                live.client.batch_execute("ROLLBACK"),
            )
            .await;
            match undone {
                Ok(Ok(())) => self.return_connection(),
                // The server rolls back when the connection ends.
                Ok(Err(_)) | Err(_) => self.live = None,
            }
        })
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        let (Some(live), permits) = (self.live.take(), std::mem::take(&mut self.permits)) else {
            return;
        };
        let (sessions, time_limit) = (
            Arc::clone(&self.sessions),
            self.sessions.connector.connect_timeout,
        );
        // Without a runtime the connection ends here, and the server rolls back.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // If the server does not answer, it rolls back when the connection ends.
                if let Ok(Ok(())) =
                    tokio::time::timeout(time_limit, live.client.batch_execute("ROLLBACK")).await
                {
                    sessions.idle.lock().push(live);
                }
                drop(permits);
            });
        }
    }
}
