//! Transactions: each on a connection of its own for as long as it lasts.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connect::Connector;
use super::lane::Live;
use super::run::{self, Failure};
use super::{closed, error, render};
use crate::resource::BoxFuture;
use crate::store::{Rows, Statement, Transaction};
use crate::{Error, Result, Value};

/// The server undoes a transaction that is silent for too long: others wait for what it holds.
const BEGIN: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '5s'";

/// The connections for transactions.
pub(super) struct Sessions {
    connector: Arc<Connector>,
    idle: Mutex<Vec<Live>>,
    places: Arc<Semaphore>,
    capacity: usize,
}

impl Sessions {
    pub(super) fn new(connector: &Arc<Connector>, capacity: usize) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(capacity));
        Arc::new(Self { connector: Arc::clone(connector), idle: Mutex::new(Vec::new()), places, capacity })
    }

    pub(super) async fn begin(self: &Arc<Self>) -> Result<Conversation> {
        let place = tokio::time::timeout(self.connector.patience, Arc::clone(&self.places).acquire_owned()).await;
        let place = place.map_err(|_| Error::unavailable("too many transactions are under way"))?.map_err(|_| closed())?;
        // One that was idle may have broken meanwhile: nothing is lost by trying the next.
        loop {
            let idle = self.idle.lock().pop();
            let fresh = idle.is_none();
            let live = match idle {
                Some(live) => live,
                None => self.connect().await.map_err(Error::unavailable)?,
            };
            match live.client.batch_execute(BEGIN).await {
                Ok(()) => return Ok(Conversation { live: Some(live), place: Some(place), sessions: Arc::clone(self), lost: false }),
                Err(error) if fresh => return Err(Error::unavailable(error)),
                Err(_) => {}
            }
        }
    }

    async fn connect(&self) -> std::result::Result<Live, tokio_postgres::Error> {
        let (client, connection) = self.connector.connect().await?;
        tokio::spawn(connection);
        self.connector.prepare(&client).await?;
        Ok(Live::new(client))
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
        let apart = !render::reads(statement);
        if apart && let Err(e) = live.client.batch_execute("SAVEPOINT statement").await {
            self.lost = true;
            return Err(Error::unavailable(e));
        }
        let outcome = run::run(live, statement, args, &mut rows).await;
        let kept = match (&outcome, apart) {
            (Ok(()), true) => live.client.batch_execute("RELEASE statement").await.is_ok(),
            (Err(_), true) => live.client.batch_execute("ROLLBACK TO statement; RELEASE statement").await.is_ok(),
            (Ok(()) | Err(Failure::Own(_)), false) => true,
            (Err(Failure::Unsent(_) | Failure::Server(_)), false) => false,
        };
        if let Err(Failure::Server(e)) = &outcome
            && error::may_repeat(e)
        {
            tracing::debug!(error = %e, "a statement of a transaction was undone in favour of another one");
        }
        if !kept {
            self.lost = true;
        }
        outcome.map(|()| rows).map_err(|failure| failure.into_error(statement))
    }
}

impl Transaction for Conversation {
    fn run<'a>(&'a mut self, statement: &'a Arc<Statement>, args: Vec<Value>, rows: Rows) -> BoxFuture<'a, Result<Rows>> {
        Box::pin(async move { self.perform(statement, &args, rows).await })
    }

    fn commit(mut self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            self.live()?.client.batch_execute("COMMIT").await.map_err(Error::unavailable)?;
            // Committed: there is nothing to undo, and the connection serves others.
            if let Some(live) = self.live.take() {
                self.sessions.idle.lock().push(live);
            }
            Ok(())
        })
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        let (Some(live), place) = (self.live.take(), self.place.take()) else { return };
        let sessions = Arc::clone(&self.sessions);
        // Without a runtime the connection ends here, and the server undoes what was open.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if live.client.batch_execute("ROLLBACK").await.is_ok() {
                    sessions.idle.lock().push(live);
                }
                drop(place);
            });
        }
    }
}
