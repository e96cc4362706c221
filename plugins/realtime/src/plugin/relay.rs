//! The consumer of events: it appends committed changes to the streams of rooms.

use std::sync::Arc;

use linchpin::entity::{EntityDesc, FieldSet};
use linchpin::event::{Batch, Missed};
use linchpin::{BoxFuture, Entity, EventSink, Result};

use super::plan::{EventStates, Plan};
use super::queued::{self, QueuedFrame};
use crate::engine::{Append, Engine, Fence};

/// The name of the consumer.
pub(super) const CONSUMER: &str = "realtime";

/// The number of collected frames at which the relay appends them. It must be below 256: a failed
/// append is repeated, and an engine remembers at least the last 256 frames of a stream.
const APPEND_BATCH: usize = 100;

/// The consumer of the events that rooms carry.
pub(super) struct Relay {
    plan: Arc<Plan>,
    engine: Arc<dyn Engine>,
}

impl Relay {
    pub(super) fn new(plan: Arc<Plan>, engine: Arc<dyn Engine>) -> Self {
        Self { plan, engine }
    }

    /// Appends frames, and empties the list.
    async fn append(&self, appends: &mut Vec<Append>, fence: i64) -> Result<()> {
        if appends.is_empty() {
            return Ok(());
        }
        // The fence of a live consumer is 0. Every node runs its own live consumer, so no node
        // takes over from another one.
        if let Some(number) = u64::try_from(fence).ok().filter(|fence| *fence > 0) {
            let fence = Fence {
                consumer: Arc::from(CONSUMER),
                number,
            };
            for append in &mut *appends {
                append.fence = Some(fence.clone());
            }
        }
        self.engine.append(appends).await?;
        appends.clear();
        Ok(())
    }

    /// Resets all rooms if there were events without the states of their records, which an earlier
    /// release has written.
    async fn reset_if_lost(&self, lost: &mut u64) -> Result<()> {
        match std::mem::take(lost) {
            0 => Ok(()),
            count => {
                let cause = "events lack the ids or states of their records";
                self.reset_all(count, cause).await
            }
        }
    }

    /// Resets all rooms: gives all streams new epochs, so that clients read the state of their
    /// rooms again.
    async fn reset_all(&self, count: u64, cause: &str) -> Result<()> {
        tracing::error!(count, cause, "all rooms are reset because events were lost");
        Ok(self.engine.renew().await?)
    }
}

impl EventSink for Relay {
    fn publish<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (mut appends, mut lost) = (Vec::with_capacity(batch.len()), 0);
            for (at, event) in batch.iter().enumerate() {
                if event.entity == QueuedFrame::DESC.storage_name {
                    appends.extend(queued::append_of(event)?);
                } else if self.plan.frames(event, &mut appends)? == EventStates::Missing {
                    lost += 1;
                }
                if appends.len() >= APPEND_BATCH {
                    self.append(&mut appends, batch.fence()).await?;
                    self.reset_if_lost(&mut lost).await?;
                    batch.done(at + 1);
                    // Yield, so that nodes take these frames before the next ones arrive.
                    tokio::task::yield_now().await;
                }
            }
            self.append(&mut appends, batch.fence()).await?;
            self.reset_if_lost(&mut lost).await
        })
    }

    fn missed(&self, missed: Missed) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let Missed { count, cause, .. } = missed;
            self.reset_all(count, cause).await
        })
    }

    fn takes(&self, entity: &'static EntityDesc) -> bool {
        self.plan.takes(entity)
    }

    fn reads(&self, entity: &'static EntityDesc) -> FieldSet {
        self.plan.reads(entity)
    }

    fn needs_states(&self, entity: &'static EntityDesc) -> bool {
        self.plan.takes_many(entity)
    }

    fn is_live(&self) -> bool {
        // Streams that end with the process need no events from before its start.
        !self.engine.facts().persistent
    }

    fn stops_at_failure(&self) -> bool {
        true
    }
}
