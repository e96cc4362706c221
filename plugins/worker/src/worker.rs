//! The loop of a worker: it takes work that is due, runs it, and sleeps until there is more.

use std::sync::Arc;
use std::time::Duration;

use linchpin::{BoxFuture, Result};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};

/// The interval at which a worker looks for work if nothing wakes it.
const INTERVAL: Duration = Duration::from_millis(250);
/// The pause after a failure of the store.
const PAUSE: Duration = Duration::from_secs(1);

/// A source of work, each piece with a due time.
///
/// `claim` leases work in the store, so that no other process has it at the same time. `run` does
/// one piece of it, and writes the result only if it still holds the lease.
pub trait Source: Send + Sync + 'static {
    /// A piece of leased work.
    type Item: Send + 'static;

    /// The name, for the log.
    fn name(&self) -> &'static str;

    /// The maximum number of pieces that run at the same time.
    fn at_once(&self) -> usize;

    /// Whether the worker leases more work only after all leased work has ended; `false` by
    /// default.
    fn is_in_rounds(&self) -> bool {
        false
    }

    /// The interval at which the worker looks for work if nothing wakes it; 250 ms by default.
    fn interval(&self) -> Duration {
        INTERVAL
    }

    /// Leases due work, in the order of the due times. `free` is 1 or more: the number of further
    /// pieces that may run now. A source that returns more must delay them in `run`.
    ///
    /// # Errors
    /// The errors of the store. The worker tries again after a second.
    fn claim(&self, free: usize) -> BoxFuture<'_, Result<Vec<Self::Item>>>;

    /// Does a piece of work. It should end soon when `stopped` is true.
    fn run(
        self: Arc<Self>,
        item: Self::Item,
        stopped: watch::Receiver<bool>,
    ) -> BoxFuture<'static, ()>;
}

/// A running worker.
#[derive(Debug)]
pub struct Worker {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Worker {
    /// Starts a worker. It looks for work at the interval of the source, and at once after `wake`.
    pub fn start<S: Source>(source: Arc<S>, wake: Arc<Notify>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(work(source, wake, stopped));
        Self { stop, task }
    }

    /// Makes the worker begin no further piece of work.
    pub fn stop(&self) {
        // The worker may have ended already.
        let _ = self.stop.send(true);
    }

    /// Stops the worker, and waits for running work, at most for `patience`. Work that takes longer
    /// is aborted; another process repeats it after its lease.
    pub async fn ended(self, patience: Duration) {
        self.stop();
        let abort = self.task.abort_handle();
        match tokio::time::timeout(patience, self.task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "a worker ended early"),
            Err(_) => {
                tracing::warn!(
                    "running work did not end in time: it is aborted, and repeated after its lease ends"
                );
                abort.abort();
            }
        }
    }
}

async fn work<S: Source>(source: Arc<S>, wake: Arc<Notify>, mut stopped: watch::Receiver<bool>) {
    let mut running = JoinSet::new();
    while !*stopped.borrow() {
        let mut pause = source.interval();
        let free = if source.is_in_rounds() && !running.is_empty() {
            0
        } else {
            source.at_once().saturating_sub(running.len())
        };
        if free > 0 {
            match source.claim(free).await {
                Ok(items) if items.is_empty() => {}
                Ok(items) => {
                    for item in items {
                        running.spawn(Arc::clone(&source).run(item, stopped.clone()));
                    }
                    continue;
                }
                Err(error) => {
                    tracing::warn!(worker = source.name(), error = ?error, "could not lease work; retrying");
                    pause = PAUSE;
                }
            }
        }
        tokio::select! {
            () = wake.notified() => {}
            () = tokio::time::sleep(pause) => {}
            // An error means that the worker was dropped.
            changed = stopped.changed() => if changed.is_err() { break },
            Some(ended) = running.join_next(), if !running.is_empty() => {
                log_panic(source.name(), ended);
            }
        }
    }
    while let Some(ended) = running.join_next().await {
        log_panic(source.name(), ended);
    }
}

fn log_panic(worker: &'static str, ended: std::result::Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(worker, %error, "work panicked; it is repeated after its lease ends");
    }
}
