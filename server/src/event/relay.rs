//! The relay: delivers events to consumers, each at its own speed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::delivery::{Delivery, Source};
use super::leases::{Leases, Renewal};
use super::{EventBus, EventSink};
use crate::clock::Clock;
use crate::emitter::{Handover, LiveQueue};
use crate::entity::EntityDesc;
use crate::store::{Outbox, Store};
use crate::{Error, Result, Timestamp};

/// The time that a stop waits for undelivered events, and then for the release of leases.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);
/// The number of delivered rows removed at a time, and the interval of removals.
const CHUNK: usize = 500;
const PRUNE_INTERVAL: Duration = Duration::from_mins(1);
/// The retention of parked events.
const PARKED_RETENTION: Duration = Duration::from_hours(30 * 24);

/// A consumer of events.
#[derive(Clone)]
pub(crate) struct Consumer {
    pub(crate) name: String,
    pub(crate) sink: Arc<dyn EventSink>,
    /// The storage name, if the consumer takes events of one entity only.
    pub(crate) entity: Option<&'static str>,
    /// Whether a command also delivers to the consumer. This is safe only if one process at a time
    /// maintains the data of the consumer: otherwise a command would take events away from a
    /// server.
    pub(crate) in_commands: bool,
    /// The storage names of the entities whose events the consumer takes; `None` for all. Set at
    /// the start.
    pub(crate) entities: Option<BTreeSet<&'static str>>,
    /// Whether the consumer needs the key of every changed record.
    pub(crate) needs_records: bool,
    /// The storage names of the entities whose states the consumer needs in events about many
    /// records. Set at the start.
    pub(crate) states: BTreeSet<&'static str>,
}

impl Consumer {
    pub(crate) fn new(
        name: String,
        sink: Arc<dyn EventSink>,
        entity: Option<&'static str>,
    ) -> Self {
        Self {
            name,
            needs_records: sink.needs_records(),
            states: BTreeSet::new(),
            sink,
            entity,
            in_commands: false,
            entities: None,
        }
    }

    /// Whether the consumer takes the events of an entity.
    pub(super) fn takes(&self, entity: &'static EntityDesc) -> bool {
        self.entity.is_none_or(|of| of == entity.storage_name) && self.sink.takes(entity)
    }
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer")
            .field("name", &self.name)
            .field("entity", &self.entity)
            .finish_non_exhaustive()
    }
}

/// The consumers that have stopped at an event, for the readiness check.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health(Arc<Mutex<BTreeSet<String>>>);

impl Health {
    pub(super) fn fails(&self, consumer: &str) {
        self.0.lock().insert(consumer.to_owned());
    }

    pub(super) fn works(&self, consumer: &str) {
        self.0.lock().remove(consumer);
    }

    /// Whether a consumer has stopped.
    pub(crate) fn is_degraded(&self) -> bool {
        !self.0.lock().is_empty()
    }
}

/// The data that all deliveries share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) handover: Arc<Handover>,
    pub(super) bus: EventBus,
    pub(super) clock: Clock,
    pub(super) health: Health,
}

/// A running delivery.
pub(crate) struct Relay {
    stop: watch::Sender<bool>,
    deliveries: JoinSet<()>,
    /// Renews leases and removes old events.
    upkeep: JoinSet<()>,
    /// The consumers of the outbox.
    stored: Vec<String>,
    shared: Shared,
}

/// Starts a task per consumer, and a task that removes events that all consumers have processed.
pub(super) fn start(
    consumers: Vec<(Consumer, Option<Arc<LiveQueue>>)>,
    shared: Shared,
    keep: Duration,
) -> Relay {
    let mut relay = start_with_queues(consumers, shared);
    if !relay.stored.is_empty() {
        let (names, shared) = (relay.stored.clone(), relay.shared.clone());
        let stopped = relay.stop.subscribe();
        relay.upkeep.spawn(prune(names, shared, keep, stopped));
    }
    relay
}

/// Starts a task per consumer. A live consumer is passed with its queue.
pub(super) fn start_with_queues(
    consumers: Vec<(Consumer, Option<Arc<LiveQueue>>)>,
    shared: Shared,
) -> Relay {
    let (stop, stopped) = watch::channel(false);
    let (mut deliveries, mut upkeep) = (JoinSet::new(), JoinSet::new());
    let (leases, led) = watch::channel(Leases::None);
    let (mut stored, mut sinks) = (Vec::new(), Vec::new());
    for (consumer, live) in consumers {
        let source = match live {
            Some(queue) => Source::Live(queue),
            None => {
                stored.push(consumer.name.clone());
                sinks.push((consumer.name.clone(), Arc::clone(&consumer.sink)));
                Source::Stored {
                    store: Arc::clone(&shared.store),
                    handover: Arc::clone(&shared.handover),
                    woken: shared.handover.woken(),
                    leases: led.clone(),
                    caught_up: false,
                }
            }
        };
        let parts = (
            shared.bus.clone(),
            Arc::clone(&shared.clock),
            shared.health.clone(),
        );
        deliveries.spawn(Delivery::new(consumer, source, stopped.clone(), parts).run());
    }
    if !stored.is_empty() {
        let renewal = Renewal {
            store: Arc::clone(&shared.store),
            sinks,
            leases,
        };
        upkeep.spawn(renewal.run(stopped));
    }
    Relay {
        stop,
        deliveries,
        upkeep,
        stored,
        shared,
    }
}

impl Relay {
    /// Delivers the remaining events for up to 5 seconds, then stops. After the next start, the app
    /// delivers the rest of the stored events.
    pub(crate) async fn stop(mut self) {
        // Tasks hold receivers as long as they run.
        let _ = self.stop.send(true);
        let ended = async { while self.deliveries.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_TIMEOUT, ended).await.is_err() {
            tracing::warn!(
                "some events were not delivered before the stop; stored events are delivered after the next start"
            );
            self.deliveries.shutdown().await;
        }
        self.upkeep.shutdown().await;
        if !self.stored.is_empty()
            && let Ok(outbox) = outbox(&self.shared.store)
        {
            let names: Vec<&str> = self.stored.iter().map(String::as_str).collect();
            // Then another process can take over at once. If this fails, the leases expire.
            drop(tokio::time::timeout(RELEASE_TIMEOUT, outbox.resign(&names)).await);
        }
        self.shared.bus.close();
    }
}

pub(super) fn outbox(store: &Arc<dyn Store>) -> Result<&dyn Outbox> {
    store
        .outbox()
        .ok_or_else(|| Error::internal("the store has no outbox"))
}

pub(super) fn cause(error: &Error) -> String {
    std::error::Error::source(error).map_or_else(String::new, ToString::to_string)
}

/// Removes old delivered events at intervals.
async fn prune(
    names: Vec<String>,
    Shared { store, clock, .. }: Shared,
    keep: Duration,
    mut stopped: watch::Receiver<bool>,
) {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    while !*stopped.borrow() {
        let now = clock().millis();
        let before = |kept: Duration| {
            let kept = i64::try_from(kept.as_millis()).unwrap_or(i64::MAX);
            Timestamp::from_millis(now.saturating_sub(kept))
        };
        loop {
            let Ok(outbox) = outbox(&store) else { return };
            let pruned = outbox.prune(&names, before(keep), before(PARKED_RETENTION), CHUNK);
            match pruned.await {
                Ok(CHUNK) if !*stopped.borrow() => tokio::task::yield_now().await,
                Ok(_) => break,
                // The next interval tries again.
                Err(error) => {
                    tracing::warn!(%error, cause = cause(&error), "delivered events could not be removed");
                    break;
                }
            }
        }
        // A shorter retention needs more frequent removals.
        let every = PRUNE_INTERVAL.min(keep.max(Duration::from_secs(1)));
        tokio::select! {
            _ = stopped.changed() => {}
            () = tokio::time::sleep(every) => {}
        }
    }
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
