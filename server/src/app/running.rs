//! A started app: its resources, and the handle that stops it.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::checks::startup;
use super::plugin::Plugin;
use super::schema::LeaseTask;
use crate::audit::AuditLog;
use crate::entity::Entity;
use crate::event::Hub;
use crate::http::{Claims, Clock, Endpoint, HttpService};
use crate::indexing::Searches;
use crate::resource::{Adapter, Adapters};
use crate::store::Store;
use crate::{Error, Result};

/// An app that is ready to listen, with everything that [`Built::undo`] must undo.
pub(crate) struct Built {
    pub(super) store: Arc<dyn Store>,
    plugins: Vec<Box<dyn Plugin>>,
    pub(super) adapters: Adapters,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(super) service: Option<HttpService>,
    /// The clock and the period of the sweeper.
    pub(super) sweep: Option<(Clock, Duration)>,
    /// The store of idempotency keys, if a route uses them.
    pub(super) claims: Option<Arc<Claims>>,
    /// The audit log, if a route or the app uses one.
    pub(super) audit: Option<AuditLog>,
    /// The consumers and subscriptions of events.
    pub(super) events: Hub,
    /// Search indexes.
    pub(super) searches: Searches,
    /// The task that builds the indexes that were incomplete.
    pub(super) indexing: Option<JoinHandle<()>>,
    pub(super) grace: Duration,
    /// The address on which the app listens, as soon as it does.
    pub(super) listens_on: Arc<OnceLock<SocketAddr>>,
    /// The lease on the database, if the store has a schema.
    pub(super) lease_task: Option<LeaseTask>,
}

impl Built {
    pub(super) fn new(store: Arc<dyn Store>, grace: Duration) -> Self {
        Self {
            store,
            plugins: Vec::new(),
            adapters: Adapters::default(),
            endpoints: Vec::new(),
            service: None,
            sweep: None,
            claims: None,
            audit: None,
            events: Hub::default(),
            searches: Searches::default(),
            indexing: None,
            grace,
            listens_on: Arc::default(),
            lease_task: None,
        }
    }

    pub(super) fn add(&mut self, plugin: Box<dyn Plugin>) -> &dyn Plugin {
        self.plugins.push(plugin);
        // The plugin was just pushed, so the list is not empty.
        self.plugins[self.plugins.len() - 1].as_ref()
    }

    pub(super) fn plugins(&self) -> impl Iterator<Item = &dyn Plugin> {
        self.plugins.iter().map(AsRef::as_ref)
    }

    /// Tears plugins down in reverse order and closes search indexes and the store.
    pub(crate) async fn undo(self) {
        if let Some(indexing) = self.indexing {
            indexing.abort();
            // Even an aborted task must have ended before the indexes are closed.
            drop(indexing.await);
        }
        for plugin in self.plugins.iter().rev() {
            if let Err(error) = plugin.teardown().await {
                tracing::error!(plugin = plugin.name(), error = %error, "teardown failed");
            }
        }
        self.searches.close().await;
        // The lease ends only now, after everything that writes has stopped.
        if let Some(lease_task) = self.lease_task {
            lease_task.release().await;
        }
        self.store.close().await;
    }
}

/// A running app. Dropping it stops it without waiting; [`Running::stop`] finishes the accepted
/// requests.
#[derive(Debug)]
pub struct Running {
    pub(super) address: SocketAddr,
    pub(super) adapters: Adapters,
    pub(super) service: HttpService,
    pub(super) stop: watch::Sender<bool>,
    pub(super) task: JoinHandle<()>,
    /// Set when the database does not accept this binary any more.
    pub(super) ended: Option<watch::Receiver<Option<String>>>,
}

impl Running {
    /// The address that the app listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The adapter of `E`.
    ///
    /// # Errors
    /// If no package of the app lists `E`.
    pub fn adapter<E: Entity>(&self) -> Result<E::Adapter>
    where
        E::Adapter: From<Adapter<E>>,
    {
        self.adapters.get::<E>()
    }

    /// Typed access to every adapter.
    pub fn adapters(&self) -> &Adapters {
        &self.adapters
    }

    /// The service that responds to requests on that address. Other code of the process can call
    /// it: another server, or tests.
    pub fn service(&self) -> HttpService {
        self.service.clone()
    }

    /// Stops the app. The port closes, and further requests on open connections are refused with 503.
    /// Plugins are notified, see [`Plugin::stopping`]. Accepted requests may finish within the
    /// grace period. Then open connections are cut, plugins are torn down and stores are closed.
    ///
    /// # Errors
    /// If the serving task was lost.
    pub async fn stop(self) -> Result<()> {
        self.service.refuse_requests();
        // Without a receiver, the task has already ended by itself.
        let _ = self.stop.send(true);
        self.task.await.map_err(Error::internal)
    }

    /// Serves until SIGINT or SIGTERM, then stops.
    ///
    /// # Errors
    /// Like [`Running::stop`]; also if signal handlers cannot be installed, or if this binary
    /// cannot serve the database any more after a migration.
    pub async fn until_signal(self) -> Result<()> {
        self.until(Signals::new()?).await
    }

    /// As [`until_signal`](Self::until_signal), with handlers that are installed already.
    pub(super) async fn until(mut self, mut signals: Signals) -> Result<()> {
        let mut ended = self.ended.take();
        let why = tokio::select! {
            _ = signals.next() => None,
            why = database_refused(&mut ended) => Some(why),
        };
        if let Some(why) = why {
            self.stop().await?;
            return Err(startup(why));
        }
        tracing::info!("stopping; a second signal stops at once");
        tokio::select! {
            done = self.stop() => done,
            status = signals.next() => {
                tracing::warn!("stopped before the accepted requests were finished");
                // The exit status that a shell reports for a process that was ended by this signal.
                std::process::exit(status)
            }
        }
    }
}

/// Returns when the database does not accept this binary any more.
async fn database_refused(ended: &mut Option<watch::Receiver<Option<String>>>) -> String {
    if let Some(ended) = ended
        && let Ok(why) = ended.wait_for(Option::is_some).await
        && let Some(why) = &*why
    {
        return why.clone();
    }
    std::future::pending().await
}

/// The signals that stop an app.
#[cfg(unix)]
pub(super) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(super) fn new() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).map_err(Error::internal);
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for a signal; returns the exit status for it.
    pub(super) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => 143,
            _ = self.interrupt.recv() => 130,
        }
    }
}

/// The signals that stop an app.
#[cfg(not(unix))]
pub(super) struct Signals;

#[cfg(not(unix))]
impl Signals {
    #[allow(clippy::unnecessary_wraps)] // the same signature as on Unix
    pub(super) fn new() -> Result<Self> {
        Ok(Self)
    }

    pub(super) async fn next(&mut self) -> i32 {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        130
    }
}
