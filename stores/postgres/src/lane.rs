//! Lanes: groups of shared connections. Statements of many callers are pipelined on each
//! connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::closed;
use super::connect::Connector;
use linchpin_core::causes;
use linchpin_core::{Error, Result};

/// The first and the longest pause between attempts to connect. The pause doubles after each
/// failure.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// An open connection.
pub(super) struct Live {
    pub(super) client: tokio_postgres::Client,
    /// Unique per process.
    pub(super) id: u64,
}

impl Live {
    pub(super) fn new(client: tokio_postgres::Client) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            client,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }
}

#[derive(Default)]
struct Slot {
    live: RwLock<Option<Arc<Live>>>,
    /// The number of statements in progress.
    waiting: AtomicUsize,
}

/// Connections for one kind of work.
pub(super) struct Lane {
    slots: Vec<Arc<Slot>>,
    permits: Arc<Semaphore>,
    /// The maximum number of statements in progress.
    capacity: usize,
    /// The number of connections made so far.
    made: watch::Receiver<usize>,
    /// The time limit for the first connection.
    connect_timeout: Duration,
    stop: watch::Sender<bool>,
}

/// A statement's use of a shared connection. It is counted to find the least busy connection.
pub(super) struct LaneConnection {
    slot: Arc<Slot>,
    pub(super) live: Arc<Live>,
}

impl Drop for LaneConnection {
    fn drop(&mut self) {
        self.slot.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LaneConnection {
    /// Closes the connection for all callers, because it does not answer.
    pub(super) fn abandon(&self) {
        let mut live = self.slot.live.write();
        if live.as_ref().is_some_and(|l| l.id == self.live.id) {
            *live = None;
        }
    }
}

impl Lane {
    /// Starts to connect in the background. Each broken connection is replaced.
    pub(super) fn start(connector: &Arc<Connector>, connections: usize, capacity: usize) -> Self {
        let (made_sender, made) = watch::channel(0);
        let made_sender = Arc::new(made_sender);
        let (stop, stopped) = watch::channel(false);
        let slots: Vec<Arc<Slot>> = (0..connections.max(1)).map(|_| Arc::default()).collect();
        for slot in &slots {
            let (slot, connector, made_sender, mut stopped) = (
                Arc::clone(slot),
                Arc::clone(connector),
                Arc::clone(&made_sender),
                stopped.clone(),
            );
            tokio::spawn(async move {
                tokio::select! {
                    () = maintain(&slot, &connector, &made_sender) => {}
                    // This also ends if the store is dropped, because that closes the channel.
                    _ = stopped.wait_for(|stop| *stop) => {}
                }
                *slot.live.write() = None;
            });
        }
        Self {
            slots,
            permits: Arc::new(Semaphore::new(capacity)),
            capacity,
            made,
            connect_timeout: connector.connect_timeout,
            stop,
        }
    }

    /// The number of connections if none is broken.
    pub(super) fn connections(&self) -> usize {
        self.slots.len()
    }

    /// Takes a permit for a statement in progress; `unavailable` if none is left.
    pub(super) fn admit(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.permits)
            .try_acquire_owned()
            .map_err(|e| match e {
                tokio::sync::TryAcquireError::Closed => closed(),
                tokio::sync::TryAcquireError::NoPermits => {
                    Error::unavailable("too many statements are running")
                }
            })
    }

    /// Takes a connection. Waits only if no connection has been opened yet.
    pub(super) async fn connection(&self) -> Result<LaneConnection> {
        if let Some(connection) = self.at_once() {
            return Ok(connection);
        }
        if *self.made.borrow() == 0 {
            let mut made = self.made.clone();
            drop(tokio::time::timeout(self.connect_timeout, made.wait_for(|n| *n > 0)).await);
        }
        self.at_once()
            .ok_or_else(|| Error::unavailable("the database cannot be reached"))
    }

    /// Returns the least busy open connection, and does not wait for one.
    pub(super) fn at_once(&self) -> Option<LaneConnection> {
        let slots = self.slots.iter().filter_map(|slot| {
            let live = slot.live.read();
            live.as_ref()
                .filter(|l| !l.client.is_closed())
                .map(|l| (slot, Arc::clone(l)))
        });
        let (slot, live) = slots.min_by_key(|(slot, _)| slot.waiting.load(Ordering::Relaxed))?;
        slot.waiting.fetch_add(1, Ordering::Relaxed);
        Some(LaneConnection {
            slot: Arc::clone(slot),
            live,
        })
    }

    /// The number of further statements that may be in progress.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.permits.available_permits()
    }

    /// The number of open connections.
    #[cfg(test)]
    pub(super) fn connected(&self) -> usize {
        self.slots
            .iter()
            .filter(|slot| slot.live.read().is_some())
            .count()
    }

    /// Refuses new statements, waits for running ones, and disconnects.
    pub(super) async fn close(&self, time_limit: Duration) {
        let all = u32::try_from(self.capacity).unwrap_or(u32::MAX);
        let ended = tokio::time::timeout(time_limit, self.permits.acquire_many(all)).await;
        if ended.is_err() {
            tracing::warn!("statements were still running when the store was closed");
        }
        self.permits.close();
        drop(ended);
        self.stop.send_replace(true);
    }
}

/// Keeps a slot connected.
async fn maintain(slot: &Slot, connector: &Connector, made: &watch::Sender<usize>) {
    let mut pause = PAUSES.0;
    loop {
        match connector.connect().await {
            Ok((client, connection)) => {
                let live = Arc::new(Live::new(client));
                // The settings are sent as SQL, so the task that drives the connection must run
                // first. Other callers get the connection only after the settings are applied.
                let driven = tokio::spawn(connection);
                if let Err(error) = connector.prepare(&live.client).await {
                    tracing::warn!(%error, "a new connection to the database was lost");
                } else {
                    *slot.live.write() = Some(live);
                    made.send_modify(|n| *n += 1);
                    pause = PAUSES.0;
                    if let Ok(Err(error)) = driven.await {
                        tracing::warn!(%error, "a connection to the database was lost");
                    }
                }
                *slot.live.write() = None;
            }
            Err(error) => tracing::warn!(error = %Causes(&error), "the database cannot be reached"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// An error with its causes.
pub(super) struct Causes<'a>(pub(super) &'a (dyn std::error::Error + 'static));

impl std::fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        causes(self.0).try_for_each(|cause| write!(f, ": {cause}"))
    }
}
