//! Invalidation of cached sessions in other processes.
//!
//! A single process needs no bus. With several, a change takes effect in the others as soon as the
//! bus delivers it. Without a bus, or while it fails, it takes effect within
//! `auth.session.cacheSeconds`.

use std::sync::Arc;
use std::time::Duration;

use linchpin::{BoxFuture, Result};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::check::Checks;

/// Maximum number of waiting invalidations. Further ones are dropped; other processes read those
/// changes when their cache expires.
pub(crate) const MAX_QUEUED: usize = 10_000;
/// Pause after a failure of the bus.
const PAUSE: Duration = Duration::from_secs(1);

/// Informs all processes of an app about changed sessions: `session.bus`.
///
/// It may lose, repeat and reorder messages, and deliver them to the sender.
pub trait InvalidationBus: Send + Sync + 'static {
    /// Informs the other processes that a user's sessions changed.
    fn publish<'a>(&'a self, user: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Calls `heard` with each message of other processes, until the connection fails. After that,
    /// `listen` is called again.
    fn listen<'a>(&'a self, heard: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, Result<()>>;
}

/// The tasks that send and receive invalidations while the app runs.
#[derive(Debug)]
pub(crate) struct BusConnection([JoinHandle<()>; 2]);

impl BusConnection {
    /// Starts both tasks. `invalidations` contains the ids of users to send; the cached sessions of
    /// received ids are dropped.
    pub(crate) fn open(
        bus: &Arc<dyn InvalidationBus>,
        checks: &Arc<Checks>,
        mut invalidations: mpsc::Receiver<String>,
    ) -> Self {
        let (out, inward, checks) = (Arc::clone(bus), Arc::clone(bus), Arc::clone(checks));
        let telling = tokio::spawn(async move {
            while let Some(user) = invalidations.recv().await {
                // A second attempt, because a connection that broke while it was idle fails at its
                // first use.
                let mut sent = out.publish(&user).await;
                if sent.is_err() {
                    sent = out.publish(&user).await;
                }
                if let Err(error) = sent {
                    tracing::warn!(error = ?error, "other processes were not informed of a changed session; they see the change after their cache expires");
                }
            }
        });
        let listening = tokio::spawn(async move {
            loop {
                if let Err(error) = inward.listen(&|user| checks.forget_locally(user)).await {
                    tracing::warn!(error = ?error, "cannot receive changes of sessions from other processes; this process sees them after its cache expires");
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self([telling, listening])
    }
}

impl Drop for BusConnection {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

#[cfg(feature = "postgres")]
pub use postgres::PostgresBus;

#[cfg(feature = "postgres")]
mod postgres {
    use linchpin::store::postgres::{Channel, PostgresOptions};
    use linchpin::{BoxFuture, Result};

    use super::InvalidationBus;

    /// The name of the channel.
    const CHANNEL: &str = "linchpin_auth_sessions";

    /// A bus over `LISTEN` and `NOTIFY` of a `PostgreSQL` server. Apps that share a database share
    /// the channel, which only costs extra reads.
    #[derive(Debug)]
    pub struct PostgresBus(Channel);

    impl PostgresBus {
        /// Uses two separate connections to this server, which usually is the app's store.
        ///
        /// # Errors
        /// If the options are invalid.
        pub fn new(options: &PostgresOptions) -> Result<Self> {
            Channel::new(options, CHANNEL).map(Self)
        }
    }

    impl InvalidationBus for PostgresBus {
        fn publish<'a>(&'a self, user: &'a str) -> BoxFuture<'a, Result<()>> {
            Box::pin(self.0.notify(user))
        }

        fn listen<'a>(
            &'a self,
            heard: &'a (dyn Fn(&str) + Send + Sync),
        ) -> BoxFuture<'a, Result<()>> {
            Box::pin(self.0.listen(heard))
        }
    }
}
