//! New epochs for all streams, after events were lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::engine::{Engine, Result};

/// The time before a renewal that failed is tried again, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(250), Duration::from_mins(1));

/// A renewal of all streams. It is tried until it succeeds.
pub(super) struct Renewal {
    engine: Arc<dyn Engine>,
    due: AtomicBool,
    /// Held during a renewal, so that two of them do not become two resets.
    at_work: tokio::sync::Mutex<()>,
}

impl Renewal {
    pub(super) fn new(engine: Arc<dyn Engine>) -> Self {
        Self {
            engine,
            due: AtomicBool::new(false),
            at_work: tokio::sync::Mutex::default(),
        }
    }

    /// Renews all streams. If the engine is down, it is done when the engine is back.
    pub(super) async fn order(self: &Arc<Self>) {
        self.due.store(true, Ordering::Release);
        let Err(error) = self.make_up().await else {
            return;
        };
        tracing::warn!(%error, "rooms cannot start afresh now; it is tried again");
        // It ends with the relay.
        let me = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut pause = RETRY.0;
            loop {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY.1);
                let Some(me) = me.upgrade() else { return };
                if me.make_up().await.is_ok() {
                    return;
                }
            }
        });
    }

    /// Makes up for a renewal that is due.
    ///
    /// # Errors
    /// As [`Engine::renew`].
    pub(super) async fn make_up(&self) -> Result<()> {
        if !self.due.load(Ordering::Acquire) {
            return Ok(());
        }
        let _at_work = self.at_work.lock().await;
        // Before the work: a gap that is told meanwhile needs another renewal.
        if !self.due.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let renewed = self.engine.renew().await;
        if renewed.is_err() {
            self.due.store(true, Ordering::Release);
        }
        renewed
    }
}

#[cfg(test)]
mod tests {
    use linchpin::Timestamp;

    use super::*;
    use crate::engine::{History, MemoryEngine, Stream};

    #[tokio::test(start_paused = true)]
    async fn a_renewal_is_made_up_for_when_the_engine_is_back() {
        let engine = MemoryEngine::new(Arc::new(Timestamp::system_now));
        let stream = Stream::new("tasks:1:live", History::default());
        let first = engine.top(&stream).await.unwrap().epoch;
        let renewal = Arc::new(Renewal::new(Arc::new(engine.another_node())));
        renewal.make_up().await.unwrap();
        assert_eq!(engine.top(&stream).await.unwrap().epoch, first, "not due");
        engine.fail();
        renewal.order().await;
        assert!(renewal.make_up().await.unwrap_err().is_unavailable());
        engine.recover();
        assert_eq!(engine.top(&stream).await.unwrap().epoch, first);
        // The clock is driven: the wait is no time.
        tokio::time::sleep(RETRY.0 * 2).await;
        let second = engine.top(&stream).await.unwrap().epoch;
        assert_ne!(second, first);
        renewal.make_up().await.unwrap();
        tokio::time::sleep(RETRY.1).await;
        assert_eq!(engine.top(&stream).await.unwrap().epoch, second, "once");
    }
}
