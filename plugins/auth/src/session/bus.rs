//! Between processes: whose sessions are to be looked at anew.
//!
//! Within a process that takes no bus at all. Across processes, what one changes counts in the
//! others as soon as the bus has told them; without one, or while it is broken, within
//! `auth.session.cacheSeconds`.

use std::sync::Arc;
use std::time::Duration;

use linchpin::{BoxFuture, Result};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::check::Checks;

/// Users that wait to be told of. Beyond it none are added: the others learn of those by
/// themselves, a little later.
pub(crate) const WAITING: usize = 10_000;
/// How long a bus that broke is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// Tells the processes of an app whose sessions have changed: `session.bus`.
///
/// It may lose, repeat and reorder what it is told, and tell it to the sender as well.
pub trait InvalidationBus: Send + Sync + 'static {
    /// Tells the others that something about a user has changed.
    fn publish<'a>(&'a self, user: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Passes on what others tell, for as long as it can. It is called again after it has ended.
    fn listen<'a>(&'a self, heard: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, Result<()>>;
}

/// Both directions, while the app runs.
#[derive(Debug)]
pub(crate) struct Line([JoinHandle<()>; 2]);

impl Line {
    /// Opens it: what `told` yields goes out, what comes in is forgotten.
    pub(crate) fn open(
        bus: &Arc<dyn InvalidationBus>,
        checks: &Arc<Checks>,
        mut told: mpsc::Receiver<String>,
    ) -> Self {
        let (out, inward, checks) = (Arc::clone(bus), Arc::clone(bus), Arc::clone(checks));
        let telling = tokio::spawn(async move {
            while let Some(user) = told.recv().await {
                // Once more when it fails: a connection that broke while nobody used it is noticed
                // by the first use.
                let mut told = out.publish(&user).await;
                if told.is_err() {
                    told = out.publish(&user).await;
                }
                if let Err(error) = told {
                    tracing::warn!(error = ?error, "other processes were not told of a change; they see it when what they know is old");
                }
            }
        });
        let listening = tokio::spawn(async move {
            loop {
                if let Err(error) = inward.listen(&|user| checks.heard(user)).await {
                    tracing::warn!(error = ?error, "changes in other processes are not heard of; they are seen when what is known is old");
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self([telling, listening])
    }
}

impl Drop for Line {
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

    /// `LISTEN` and `NOTIFY` of a `PostgreSQL` server that all processes reach. Apps that share a
    /// database share the channel, which costs them a look each and nothing else.
    #[derive(Debug)]
    pub struct PostgresBus(Channel);

    impl PostgresBus {
        /// Over two connections of its own to this server, which is usually the app's store.
        ///
        /// # Errors
        /// When the options are not valid.
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
