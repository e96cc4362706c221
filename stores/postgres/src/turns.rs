//! Turns: transactions of the application begin one after the other.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

/// The time limit of a turn. It is enough for a transaction that only writes. If a transaction
/// takes longer, the next one begins after this time and runs concurrently.
const TURN_TIMEOUT: Duration = Duration::from_millis(100);

/// A transaction waits here until the previous one has ended, waits for a lock, or has run for 100
/// ms.
pub(super) struct Turns(Arc<Semaphore>);

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Turns {
    pub(super) async fn enter(&self) -> Result<Turn, AcquireError> {
        let turn = Arc::new(Mutex::new(Some(Arc::clone(&self.0).acquire_owned().await?)));
        let ending = Arc::clone(&turn);
        let timer = tokio::spawn(async move {
            tokio::time::sleep(TURN_TIMEOUT).await;
            ending.lock().take();
        });
        Ok(Turn { turn, timer })
    }

    pub(super) fn close(&self) {
        self.0.close();
    }
}

/// A turn. It ends on drop, or after a time limit.
pub(super) struct Turn {
    turn: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
    timer: JoinHandle<()>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turn.lock().take();
        self.timer.abort();
    }
}
