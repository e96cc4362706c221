//! Transactions: each has its own connection until it ends. Writes that record events are short
//! transactions, and so are writes that were stopped by a lock of another transaction.
//!
//! Waits for locks follow rules that avoid deadlocks. A transaction of the framework waits briefly,
//! rolls back, and retries. A transaction of the application runs once and waits as long as
//! necessary; so the next one begins only after the previous one has ended, waits, or takes long:
//! two transactions that lock the same records in another order would deadlock. A share of the
//! connections is reserved for transactions that do not wait for long.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connect::Connector;
use super::lane::Live;
use super::outbox::{Handover, Recorder};
use super::run::{self, Failure};
use super::turns::{Turn, Turns};
use super::{REPEATS, closed, error};
use linchpin_core::BoxFuture;
use linchpin_core::event::Entry;
use linchpin_core::store::{Patience, Plan, Rows, Statement, Transaction};
use linchpin_core::{Error, Result, Value};
use linchpin_sql::names::PresentNames;

/// The server rolls back a transaction that is idle for too long, because others wait for its
/// locks. A statement that waits too long for a lock fails.
const SETTINGS: &str = "SET idle_in_transaction_session_timeout = '5s'; SET lock_timeout = '100ms'";

/// Waits for some time, but less than the second after which the server checks for deadlocks: in a
/// deadlock, ours is rolled back first.
const LONG: &str = "BEGIN; SET LOCAL lock_timeout = '500ms'";

/// Waits up to the statement time limit.
const WAIT: &str = "SET LOCAL lock_timeout = 0";

const SAVEPOINT: &str = "SAVEPOINT statement";
const RELEASE: &str = "RELEASE statement";
const UNDO: &str = "ROLLBACK TO statement; RELEASE statement";

/// The connections for transactions.
pub(super) struct Sessions {
    connector: Arc<Connector>,
    idle: parking_lot::Mutex<Vec<Live>>,
    places: Arc<Semaphore>,
    /// For transactions that may wait for long: fewer than connections.
    long: Arc<Semaphore>,
    turns: Turns,
    capacity: usize,
    /// How long a stopped write waits for a connection.
    wait: Duration,
    recorder: Recorder,
    /// Receives events after the commit.
    handover: Arc<Handover>,
    names: Arc<PresentNames>,
}

/// The result of a write in a transaction of its own.
pub(super) enum Written {
    Committed,
    /// It has not been done.
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
        let places = |count| Arc::new(Semaphore::new(count));
        Arc::new(Self {
            idle: parking_lot::Mutex::default(),
            places: places(capacity),
            long: places((capacity * 3 / 4).max(1)),
            turns: Turns::default(),
            capacity,
            wait: wait.max(connector.patience),
            recorder: Recorder::default(),
            handover: Arc::clone(handover),
            names: Arc::clone(names),
            connector: Arc::clone(connector),
        })
    }

    pub(super) async fn begin(self: &Arc<Self>, patience: Patience) -> Result<Conversation> {
        // An idle connection may have broken meanwhile: the next one is tried.
        loop {
            let (conversation, fresh) = self.take(patience).await?;
            match conversation
                .live()?
                .client
                .batch_execute(conversation.beginning())
                .await
            {
                Ok(()) => return Ok(conversation),
                Err(error) if fresh => return Err(Error::unavailable(error)),
                Err(_) => {}
            }
        }
    }

    /// A connection before the start of its transaction, and whether it is new.
    async fn take(self: &Arc<Self>, patience: Patience) -> Result<(Conversation, bool)> {
        let wait = if patience == Patience::Long {
            self.wait
        } else {
            self.connector.patience
        };
        let entered = async {
            let way = if patience == Patience::Once {
                Some(self.turns.enter().await?)
            } else {
                None
            };
            let long = if patience == Patience::Brief {
                None
            } else {
                Some(Arc::clone(&self.long).acquire_owned().await?)
            };
            Ok::<_, tokio::sync::AcquireError>((
                way,
                [long, Some(Arc::clone(&self.places).acquire_owned().await?)],
            ))
        };
        let entered = tokio::time::timeout(wait, entered)
            .await
            .map_err(|_| Error::unavailable("too many transactions are running"))?;
        let (way, places) = entered.map_err(|_| closed())?;
        let idle = {
            let mut idle = self.idle.lock();
            idle.retain(|live| !live.client.is_closed());
            idle.pop()
        };
        let fresh = idle.is_none();
        let live = match idle {
            Some(live) => live,
            None => self.connect().await.map_err(Error::unavailable)?,
        };
        let sessions = Arc::clone(self);
        Ok((
            Conversation {
                live: Some(live),
                places,
                way,
                sessions,
                patience,
                repeats: 0,
                events: Vec::new(),
                lost: false,
            },
            fresh,
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
        patience: Patience,
        statement: &Statement,
        args: &[Value],
        rows: &mut Rows,
    ) -> Written {
        let before = rows.clone();
        let (conversation, _) = match self.take(patience).await {
            Ok(taken) => taken,
            Err(error) => return Written::Failed(Failure::Own(error)),
        };
        let mut outcome = conversation.start(statement, args, rows).await;
        if let (Err(failure), Some(live)) = (&outcome, &conversation.live)
            && run::repairable(statement, args, failure)
            && live.client.batch_execute("ROLLBACK").await.is_ok()
            && run::repair(live, statement).await
        {
            rows.clone_from(&before);
            outcome = conversation.start(statement, args, rows).await;
        }
        match outcome {
            Ok(()) => conversation.finish(rows.entries()).await,
            Err(failure) => Written::Failed(failure),
        }
    }

    pub(super) async fn close(&self, patience: Duration) {
        let all = u32::try_from(self.capacity).unwrap_or(u32::MAX);
        let ended = tokio::time::timeout(patience, self.places.acquire_many(all)).await;
        if ended.is_err() {
            tracing::warn!("a transaction was still open when the store was closed");
        }
        for places in [&self.places, &self.long] {
            places.close();
        }
        self.turns.close();
        self.idle.lock().clear();
    }
}

/// A transaction; dropping it rolls back.
pub(super) struct Conversation {
    live: Option<Live>,
    places: [Option<OwnedSemaphorePermit>; 2],
    /// Its turn: while it holds it, no other transaction of the application may begin.
    way: Option<Turn>,
    sessions: Arc<Sessions>,
    patience: Patience,
    /// The number of retries of the present statement.
    repeats: usize,
    /// The events of its statements.
    events: Vec<Entry>,
    /// Whether the transaction is lost.
    lost: bool,
}

impl Conversation {
    fn live(&self) -> Result<&Live> {
        self.live
            .as_ref()
            .filter(|_| !self.lost)
            .ok_or_else(|| Error::unavailable("the transaction was undone"))
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
        // A failure here ends the transaction; one that runs once continues after a wait.
        let holds = matches!(statement.plan, Plan::Hold { .. } | Plan::Lock { .. });
        if statement.plan.reads() && !(holds && self.patience == Patience::Once) {
            let outcome = run::run_within(live, statement, args, &mut rows).await;
            self.lost = matches!(outcome, Err(Failure::Unsent(_) | Failure::Server(_)));
            return match outcome {
                Ok(()) => Ok(rows),
                Err(failure) => Err(self.error(failure, statement, generation).await),
            };
        }
        let mut taken = rows.clone();
        let (mut outcome, mut kept) = self.apart(live, statement, args, &mut taken).await;
        while let Err(failure) = &outcome
            && kept
            && self.repeats(statement, args, failure).await
        {
            taken = rows.clone();
            let live = self.live()?;
            (outcome, kept) = self.apart(live, statement, args, &mut taken).await;
        }
        if let Err(Failure::Server(e)) = &outcome
            && error::may_repeat(e)
        {
            tracing::debug!(error = %e, "a statement of a transaction was undone in favour of another one");
        }
        self.lost = !kept;
        match outcome {
            Ok(()) => {
                if taken.is_recorded() {
                    self.events.append(&mut taken.entries());
                }
                Ok(taken)
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

    /// The statement that begins it.
    fn beginning(&self) -> &'static str {
        if self.patience == Patience::Long {
            LONG
        } else {
            "BEGIN"
        }
    }

    /// Whether to retry a statement that failed and was rolled back; prepares the retry.
    async fn repeats(&mut self, statement: &Statement, args: &[Value], failure: &Failure) -> bool {
        let Ok(live) = self.live() else { return false };
        if self.repeats == REPEATS {
            return false;
        }
        let again = if run::repairable(statement, args, failure) {
            run::repair(live, statement).await
        } else if self.patience == Patience::Once
            && let Failure::Server(error) = failure
        {
            // The other one may be a transaction of the framework that has been rolled back by now.
            error::is_deadlock(error) || (error::is_held_up(error) && self.wait().await.is_ok())
        } else {
            false
        };
        self.repeats += usize::from(again);
        again
    }

    /// From now on statements wait up to the time limit, and other transactions of the application
    /// may begin.
    async fn wait(&mut self) -> Result<()> {
        self.way = None;
        let set = self.live()?.client.batch_execute(WAIT).await;
        // The server has ended the transaction: a commit would silently be a rollback.
        self.lost |= set.is_err();
        set.map_err(Error::unavailable)
    }

    /// Runs a write under a savepoint; returns whether the transaction continues.
    async fn apart(
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
            Err(_) => live.client.batch_execute(UNDO).await,
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
        let (begun, outcome) = tokio::join!(biased; live.client.batch_execute(self.beginning()), run::run_within(live, statement, args, rows));
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
            // If the server refuses the events, it rolls back the rest. If the connection is lost,
            // the server may have committed everything before.
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
        self.keep();
        Written::Committed
    }

    /// The transaction has ended, and the connection can be reused.
    fn keep(&mut self) {
        if let Some(live) = self.live.take() {
            self.sessions.idle.lock().push(live);
        }
    }
}

impl Transaction for Conversation {
    fn run<'a>(
        &'a mut self,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> BoxFuture<'a, Result<Rows>> {
        Box::pin(async move { self.perform(statement, &args, rows).await })
    }

    fn take_turn(&mut self, turn: i64) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if self.patience == Patience::Once {
                self.wait().await?;
            }
            let taken = self
                .live()?
                .client
                .execute("SELECT pg_advisory_xact_lock($1)", &[&turn])
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
                self.sessions.connector.patience,
                live.client.batch_execute("ROLLBACK"),
            )
            .await;
            match undone {
                Ok(Ok(())) => self.keep(),
                // The server rolls back when the connection ends.
                Ok(Err(_)) | Err(_) => self.live = None,
            }
        })
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        let (Some(live), places) = (self.live.take(), std::mem::take(&mut self.places)) else {
            return;
        };
        let (sessions, patience) = (Arc::clone(&self.sessions), self.sessions.connector.patience);
        // Without a runtime the connection ends here, and the server rolls back.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // If the server does not answer, it rolls back when the connection ends.
                if let Ok(Ok(())) =
                    tokio::time::timeout(patience, live.client.batch_execute("ROLLBACK")).await
                {
                    sessions.idle.lock().push(live);
                }
                drop(places);
            });
        }
    }
}
