//! Transactions: each on a connection of its own for as long as it lasts. Writes that leave events
//! are short ones, and so are those that have given way to somebody's lock.
//!
//! What somebody else holds is waited for with care. A transaction of the framework's waits for a
//! moment, gives way, and is begun again. One of the user's is given once and waits for as long as
//! it takes; so only one of these begins at a time, as long as the one before neither ends, nor
//! waits, nor takes long: two that take the same in another order would end each other. A share of
//! the connections is kept from all who may wait for long.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connect::Connector;
use super::lane::Live;
use super::outbox::Recorder;
use super::road::{Road, Way};
use super::run::{self, Failure};
use super::{REPEATS, closed, error};
use linchpin_core::BoxFuture;
use linchpin_core::event::Entry;
use linchpin_core::store::{Patience, Plan, Rows, Statement, Transaction};
use linchpin_core::{Error, Result, Value};

/// The server undoes a transaction that is silent for too long: others wait for what it holds. And
/// who waits for a lock is held up.
const SETTINGS: &str = "SET idle_in_transaction_session_timeout = '5s'; SET lock_timeout = '100ms'";

/// Waits for a while. Less than the second after which the server looks for who waits for whom: of
/// several that do, ours gives way.
const LONG: &str = "BEGIN; SET LOCAL lock_timeout = '500ms'";

/// Waits for as long as a statement may take.
const WAIT: &str = "SET LOCAL lock_timeout = 0";

const SAVEPOINT: &str = "SAVEPOINT statement";
const RELEASE: &str = "RELEASE statement";
const UNDO: &str = "ROLLBACK TO statement; RELEASE statement";

/// The connections for transactions.
pub(super) struct Sessions {
    connector: Arc<Connector>,
    idle: parking_lot::Mutex<Vec<Live>>,
    places: Arc<Semaphore>,
    /// For those that may wait for long: fewer than places.
    long: Arc<Semaphore>,
    road: Road,
    capacity: usize,
    /// How long one that has given way waits for a place.
    wait: Duration,
    recorder: Recorder,
}

/// What became of a write in a transaction of its own.
pub(super) enum Written {
    Committed,
    /// Nothing of it has happened.
    Failed(Failure),
    /// The connection was lost while it was being committed: nobody knows.
    Unknown(tokio_postgres::Error),
}

impl Sessions {
    pub(super) fn new(connector: &Arc<Connector>, capacity: usize, wait: Duration) -> Arc<Self> {
        let places = |count| Arc::new(Semaphore::new(count));
        Arc::new(Self {
            idle: parking_lot::Mutex::default(),
            places: places(capacity),
            long: places((capacity * 3 / 4).max(1)),
            road: Road::default(),
            capacity,
            wait: wait.max(connector.patience),
            recorder: Recorder::default(),
            connector: Arc::clone(connector),
        })
    }

    pub(super) async fn begin(self: &Arc<Self>, patience: Patience) -> Result<Conversation> {
        // One that was idle may have broken meanwhile: nothing is lost by trying the next.
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

    /// A connection before the beginning of its transaction, and whether it is a new one.
    async fn take(self: &Arc<Self>, patience: Patience) -> Result<(Conversation, bool)> {
        let wait = if patience == Patience::Long {
            self.wait
        } else {
            self.connector.patience
        };
        let entered = async {
            let way = if patience == Patience::Once {
                Some(self.road.enter().await?)
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
            .map_err(|_| Error::unavailable("too many transactions are under way"))?;
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

    /// Runs a write and writes its events, both or neither. In two turns: its beginning travels
    /// along with the statement, and its end along with the events.
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
            Ok(()) => conversation.finish(&rows.entries()).await,
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
        self.road.close();
        self.idle.lock().clear();
    }
}

/// A transaction; dropping it undoes everything.
pub(super) struct Conversation {
    live: Option<Live>,
    places: [Option<OwnedSemaphorePermit>; 2],
    /// As long as no other one of the user's may begin.
    way: Option<Way>,
    sessions: Arc<Sessions>,
    patience: Patience,
    /// How often the present statement was run again.
    repeats: usize,
    /// Nothing can be done with it any more.
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
        let live = self.live()?;
        // What fails here ends the transaction; one that is given once goes on when it has waited.
        let holds = matches!(statement.plan, Plan::Hold { .. } | Plan::Lock { .. });
        if statement.plan.reads() && !(holds && self.patience == Patience::Once) {
            let outcome = run::run_within(live, statement, args, &mut rows).await;
            self.lost = matches!(outcome, Err(Failure::Unsent(_) | Failure::Server(_)));
            return outcome
                .map(|()| rows)
                .map_err(|failure| failure.into_error(statement));
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
        outcome
            .map(|()| taken)
            .map_err(|failure| failure.into_error(statement))
    }

    /// How it begins.
    fn beginning(&self) -> &'static str {
        if self.patience == Patience::Long {
            LONG
        } else {
            "BEGIN"
        }
    }

    /// Whether a statement that failed, and was undone, is run again; sees to what it needs then.
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
            // The other one may be of the framework's, and have given way by now.
            error::is_deadlock(error) || (error::is_held_up(error) && self.wait().await.is_ok())
        } else {
            false
        };
        self.repeats += usize::from(again);
        again
    }

    /// From now on statements wait for as long as it takes, and others of the user's begin
    /// meanwhile.
    async fn wait(&mut self) -> Result<()> {
        self.way = None;
        let set = self.live()?.client.batch_execute(WAIT).await;
        // The server has ended the transaction: a commit would be a rollback that says nothing.
        self.lost |= set.is_err();
        set.map_err(Error::unavailable)
    }

    /// Runs a write that can be undone alone, with its events; and whether the transaction goes on.
    async fn apart(
        &self,
        live: &Live,
        statement: &Statement,
        args: &[Value],
        rows: &mut Rows,
    ) -> (std::result::Result<(), Failure>, bool) {
        let (begun, mut outcome) = tokio::join!(biased; live.client.batch_execute(SAVEPOINT), run::run_within(live, statement, args, rows));
        if let Err(error) = begun {
            return (Err(Failure::Server(error)), false);
        }
        if outcome.is_ok() && rows.is_recorded() {
            let (recorded, released) = self
                .sessions
                .recorder
                .write_and(live, &rows.entries(), RELEASE)
                .await;
            outcome = recorded.map_err(Failure::Server);
            if outcome.is_ok() {
                return (outcome, released.is_ok());
            }
        }
        let kept = match outcome {
            Ok(()) => live.client.batch_execute(RELEASE).await,
            Err(_) => live.client.batch_execute(UNDO).await,
        };
        (outcome, kept.is_ok())
    }

    /// Begins and runs the first statement.
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
    async fn finish(mut self, entries: &[Entry]) -> Written {
        let live = match self.live() {
            Ok(live) => live,
            Err(error) => return Written::Failed(Failure::Own(error)),
        };
        let (recorded, committed) = self
            .sessions
            .recorder
            .write_and(live, entries, "COMMIT")
            .await;
        if let Err(error) = recorded {
            // A server that refuses the events undoes the rest. One that is gone may have committed
            // all of it before.
            return if error.code().is_some() {
                Written::Failed(Failure::Server(error))
            } else {
                Written::Unknown(error)
            };
        }
        if let Err(error) = committed {
            return Written::Unknown(error);
        }
        self.keep();
        Written::Committed
    }

    /// There is nothing to undo, and the connection serves others.
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
            self.live()?
                .client
                .batch_execute("COMMIT")
                .await
                .map_err(Error::unavailable)?;
            self.keep();
            Ok(())
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
                // The server undoes it when the connection ends.
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
        // Without a runtime the connection ends here, and the server undoes what was open.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // A server that does not answer undoes it when the connection ends.
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
