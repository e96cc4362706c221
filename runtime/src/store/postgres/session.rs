//! Transactions: each on a connection of its own for as long as it lasts. Writes that leave events are short ones.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connect::Connector;
use super::lane::Live;
use super::outbox::Recorder;
use super::run::{self, Failure};
use super::{closed, error};
use crate::event::Entry;
use crate::resource::BoxFuture;
use crate::store::{Rows, Statement, Transaction};
use crate::{Error, Result, Value};

/// The server undoes a transaction that is silent for too long: others wait for what it holds.
const SETTINGS: &str = "SET idle_in_transaction_session_timeout = '5s'";

const SAVEPOINT: &str = "SAVEPOINT statement";
const RELEASE: &str = "RELEASE statement";
const UNDO: &str = "ROLLBACK TO statement; RELEASE statement";

/// The connections for transactions.
pub(super) struct Sessions {
    connector: Arc<Connector>,
    idle: Mutex<Vec<Live>>,
    places: Arc<Semaphore>,
    capacity: usize,
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
    pub(super) fn new(connector: &Arc<Connector>, capacity: usize) -> Arc<Self> {
        let (places, idle) = (Arc::new(Semaphore::new(capacity)), Mutex::new(Vec::new()));
        Arc::new(Self { connector: Arc::clone(connector), idle, places, capacity, recorder: Recorder::default() })
    }

    pub(super) async fn begin(self: &Arc<Self>) -> Result<Conversation> {
        // One that was idle may have broken meanwhile: nothing is lost by trying the next.
        loop {
            let (conversation, fresh) = self.take().await?;
            match conversation.live()?.client.batch_execute("BEGIN").await {
                Ok(()) => return Ok(conversation),
                Err(error) if fresh => return Err(Error::unavailable(error)),
                Err(_) => {}
            }
        }
    }

    /// A connection before the beginning of its transaction, and whether it is a new one.
    async fn take(self: &Arc<Self>) -> Result<(Conversation, bool)> {
        let place = tokio::time::timeout(self.connector.patience, Arc::clone(&self.places).acquire_owned()).await;
        let place = place.map_err(|_| Error::unavailable("too many transactions are under way"))?.map_err(|_| closed())?;
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
        Ok((Conversation { live: Some(live), place: Some(place), sessions: Arc::clone(self), lost: false }, fresh))
    }

    async fn connect(&self) -> std::result::Result<Live, tokio_postgres::Error> {
        let (client, connection) = self.connector.connect().await?;
        tokio::spawn(connection);
        self.connector.prepare(&client).await?;
        client.batch_execute(SETTINGS).await?;
        Ok(Live::new(client))
    }

    /// Runs a write and writes its events, both or neither. In two turns: its beginning travels along with the statement,
    /// and its end along with the events.
    pub(super) async fn write(self: &Arc<Self>, statement: &Statement, args: &[Value], rows: &mut Rows) -> Written {
        let before = rows.clone();
        let (conversation, _) = match self.take().await {
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
        self.places.close();
        self.idle.lock().clear();
    }
}

/// A transaction; dropping it undoes everything.
pub(super) struct Conversation {
    live: Option<Live>,
    place: Option<OwnedSemaphorePermit>,
    sessions: Arc<Sessions>,
    /// Nothing can be done with it any more.
    lost: bool,
}

impl Conversation {
    fn live(&self) -> Result<&Live> {
        self.live.as_ref().filter(|_| !self.lost).ok_or_else(|| Error::unavailable("the transaction was undone"))
    }

    async fn perform(&mut self, statement: &Statement, args: &[Value], mut rows: Rows) -> Result<Rows> {
        let live = self.live()?;
        if statement.plan.reads() {
            let outcome = run::run_within(live, statement, args, &mut rows).await;
            self.lost = matches!(outcome, Err(Failure::Unsent(_) | Failure::Server(_)));
            return outcome.map(|()| rows).map_err(|failure| failure.into_error(statement));
        }
        let mut taken = rows.clone();
        let (mut outcome, mut kept) = self.apart(live, statement, args, &mut taken).await;
        if let Err(failure) = &outcome
            && kept
            && run::repairable(statement, args, failure)
            && run::repair(live, statement).await
        {
            taken = rows;
            (outcome, kept) = self.apart(live, statement, args, &mut taken).await;
        }
        if let Err(Failure::Server(e)) = &outcome
            && error::may_repeat(e)
        {
            tracing::debug!(error = %e, "a statement of a transaction was undone in favour of another one");
        }
        self.lost = !kept;
        outcome.map(|()| taken).map_err(|failure| failure.into_error(statement))
    }

    /// Runs a write that can be undone alone, with its events; and whether the transaction goes on.
    async fn apart(&self, live: &Live, statement: &Statement, args: &[Value], rows: &mut Rows) -> (std::result::Result<(), Failure>, bool) {
        let (begun, mut outcome) = tokio::join!(biased; live.client.batch_execute(SAVEPOINT), run::run_within(live, statement, args, rows));
        if let Err(error) = begun {
            return (Err(Failure::Server(error)), false);
        }
        if outcome.is_ok() && rows.is_recorded() {
            let (recorded, released) = self.sessions.recorder.write_and(live, &rows.entries(), RELEASE).await;
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
    async fn start(&self, statement: &Statement, args: &[Value], rows: &mut Rows) -> std::result::Result<(), Failure> {
        let live = self.live().map_err(Failure::Own)?;
        let (begun, outcome) = tokio::join!(biased; live.client.batch_execute("BEGIN"), run::run_within(live, statement, args, rows));
        begun.map_err(Failure::Unsent)?;
        outcome
    }

    /// Writes events and commits.
    async fn finish(mut self, entries: &[Entry]) -> Written {
        let live = match self.live() {
            Ok(live) => live,
            Err(error) => return Written::Failed(Failure::Own(error)),
        };
        let (recorded, committed) = self.sessions.recorder.write_and(live, entries, "COMMIT").await;
        if let Err(error) = recorded {
            // A server that refuses the events undoes the rest. One that is gone may have committed all of it before.
            return if error.code().is_some() { Written::Failed(Failure::Server(error)) } else { Written::Unknown(error) };
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
    fn run<'a>(&'a mut self, statement: &'a Arc<Statement>, args: Vec<Value>, rows: Rows) -> BoxFuture<'a, Result<Rows>> {
        Box::pin(async move { self.perform(statement, &args, rows).await })
    }

    fn take_turn(&mut self, turn: i64) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let taken = self.live()?.client.execute("SELECT pg_advisory_xact_lock($1)", &[&turn]).await;
            self.lost |= taken.is_err();
            taken.map(|_| ()).map_err(error::plain)
        })
    }

    fn commit(mut self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            self.live()?.client.batch_execute("COMMIT").await.map_err(Error::unavailable)?;
            self.keep();
            Ok(())
        })
    }

    fn rollback(mut self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Some(live) = &self.live else { return };
            let undone = tokio::time::timeout(self.sessions.connector.patience, live.client.batch_execute("ROLLBACK")).await;
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
        let (Some(live), place) = (self.live.take(), self.place.take()) else { return };
        let (sessions, patience) = (Arc::clone(&self.sessions), self.sessions.connector.patience);
        // Without a runtime the connection ends here, and the server undoes what was open.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // A server that does not answer undoes it when the connection ends.
                if let Ok(Ok(())) = tokio::time::timeout(patience, live.client.batch_execute("ROLLBACK")).await {
                    sessions.idle.lock().push(live);
                }
                drop(place);
            });
        }
    }
}
