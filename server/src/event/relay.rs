//! The relay: delivers events from the outbox to consumers, each at its own speed.
//!
//! A consumer gets batches in order. After a failure it gets the same batch again, with growing
//! back-off; other consumers do not wait. Its position is stored at intervals and not after each
//! batch: after a crash, the most recent events are delivered twice.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{EntityEvent, EventBus, EventSink};
use crate::clock::Clock;
use crate::store::{Outbox, Store};
use crate::{Error, Result, Timestamp};

/// The number of events in a batch.
const BATCH: usize = 100;
/// The interval between two reads of the outbox if nothing wakes the relay.
const POLL: Duration = Duration::from_millis(250);
/// The interval between two writes of a busy consumer's position.
const NOTE: Duration = Duration::from_millis(200);
/// The maximum number of events delivered without storing the position.
const UNNOTED: usize = 5_000;
/// The first and the longest back-off after a failure. If the store fails, all consumers wait for
/// it, and a read costs little; a consumer that fails may be overloaded.
const FIRST: Duration = Duration::from_millis(250);
const LONGEST_OF_STORE: Duration = Duration::from_secs(1);
const LONGEST_OF_CONSUMER: Duration = Duration::from_secs(15);
/// How long a stop waits for undelivered events.
const PATIENCE: Duration = Duration::from_secs(5);
/// The number of delivered events removed at a time, and the interval of removals.
const CHUNK: usize = 500;
const PRUNE: Duration = Duration::from_mins(1);

/// A consumer of events.
pub(crate) struct Consumer {
    pub(crate) name: String,
    pub(crate) sink: Arc<dyn EventSink>,
    /// The storage name, if it takes events of one entity only.
    pub(crate) entity: Option<&'static str>,
    /// Whether commands deliver to it as well, because only one process may maintain the consumer's
    /// data.
    pub(crate) in_commands: bool,
}

impl Consumer {
    pub(crate) fn new(
        name: String,
        sink: Arc<dyn EventSink>,
        entity: Option<&'static str>,
    ) -> Self {
        Self {
            name,
            sink,
            entity,
            in_commands: false,
        }
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

/// A running delivery.
pub(crate) struct Relay {
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    bus: EventBus,
}

/// Starts a task per consumer, and one that removes events that all consumers have processed.
pub(super) fn start(
    consumers: Vec<Consumer>,
    store: Arc<dyn Store>,
    clock: Clock,
    keep: Duration,
    wake: watch::Sender<()>,
    bus: EventBus,
) -> Relay {
    let names: Vec<String> = consumers
        .iter()
        .map(|consumer| consumer.name.clone())
        .collect();
    let mut relay = feed(consumers, &store, &wake, bus);
    relay
        .tasks
        .spawn(prune(names, store, clock, keep, relay.stop.subscribe()));
    relay
}

/// Starts a task per consumer.
pub(super) fn feed(
    consumers: Vec<Consumer>,
    store: &Arc<dyn Store>,
    wake: &watch::Sender<()>,
    bus: EventBus,
) -> Relay {
    let (stop, stopped) = watch::channel(false);
    let mut tasks = JoinSet::new();
    for consumer in consumers {
        let delivery = Delivery {
            consumer,
            store: Arc::clone(store),
            woken: wake.subscribe(),
            stopped: stopped.clone(),
            given: Vec::new(),
            noted: Instant::now(),
        };
        tasks.spawn(delivery.run());
    }
    Relay { stop, tasks, bus }
}

impl Relay {
    /// Delivers the remaining events as far as consumers accept them within some seconds, then
    /// stops. The next start delivers the rest, if the store keeps it.
    pub(crate) async fn stop(mut self) {
        // Tasks hold receivers as long as they run.
        let _ = self.stop.send(true);
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(PATIENCE, ended).await.is_err() {
            tracing::warn!(
                "some events were not delivered before the stop; what the store keeps is delivered after the next start"
            );
            self.tasks.shutdown().await;
        }
        self.bus.close();
    }
}

struct Delivery {
    consumer: Consumer,
    store: Arc<dyn Store>,
    woken: watch::Receiver<()>,
    stopped: watch::Receiver<bool>,
    /// Positions of events that were delivered and whose position is not stored yet.
    given: Vec<i64>,
    noted: Instant,
}

impl Delivery {
    async fn run(mut self) {
        let mut failures = 0;
        loop {
            // Before the read, so that events committed during the read wake the relay again.
            self.woken.mark_unchanged();
            // Also before the read: events committed during the last read before the stop get one
            // more read.
            let stopping = *self.stopped.borrow();
            if !self.consumer.sink.is_served_here() {
                if stopping {
                    return;
                }
                tokio::select! {
                    _ = self.stopped.changed() => {}
                    () = tokio::time::sleep(POLL) => {}
                }
                continue;
            }
            match self.step().await {
                Ok(more) => {
                    failures = 0;
                    if more {
                        continue;
                    }
                    if stopping {
                        return;
                    }
                    tokio::select! {
                        // The sender is in the emitters: an error means that no more events can
                        // come.
                        _ = self.woken.changed() => {}
                        _ = self.stopped.changed() => {}
                        () = tokio::time::sleep(POLL) => {}
                    }
                }
                Err(failed) => {
                    let (longest, error, of_store) = match failed {
                        Failed::Store(error) => (LONGEST_OF_STORE, error, true),
                        Failed::Consumer(error) => (LONGEST_OF_CONSUMER, error, false),
                    };
                    let pause = pause(failures, longest);
                    failures += 1;
                    tracing::warn!(consumer = self.consumer.name, %error, cause = cause(&error), pause = ?pause, "events were not delivered and will be offered again");
                    if *self.stopped.borrow() {
                        // The position of earlier deliveries is stored all the same.
                        drop(self.note().await);
                        return;
                    }
                    tokio::select! {
                        _ = self.stopped.changed() => {}
                        // A new event means that the store works again.
                        _ = self.woken.changed(), if of_store => {}
                        () = tokio::time::sleep(pause) => {}
                    }
                }
            }
        }
    }

    /// Delivers one batch; returns whether there may be more.
    async fn step(&mut self) -> Result<bool, Failed> {
        let outbox = outbox(&self.store).map_err(Failed::Store)?;
        let batch = outbox
            .waiting(&self.consumer.name, &self.given, BATCH)
            .await
            .map_err(Failed::Store)?;
        let more = batch.len() == BATCH;
        let mut events = Vec::with_capacity(batch.len());
        let mut places = Vec::with_capacity(batch.len());
        let needs_records = self.consumer.sink.needs_records();
        for (place, entry) in batch {
            places.push(place);
            if self
                .consumer
                .entity
                .is_some_and(|entity| entity != entry.entity)
            {
                continue;
            }
            match entry.decode() {
                Ok((event, _)) if needs_records => events.push(event),
                // Only consumers that need records get this event; the others get no keys.
                Ok((_, true)) => {}
                Ok((event, false)) => events.push(EntityEvent {
                    keys: Vec::new(),
                    ..event
                }),
                // The event can never be delivered; blocking all later events would be worse.
                Err(error) => {
                    tracing::error!(
                        consumer = self.consumer.name,
                        cause = cause(&error),
                        "an event cannot be read and is passed over"
                    );
                }
            }
        }
        if !events.is_empty() {
            self.publish(&events).await.map_err(Failed::Consumer)?;
        }
        self.given.extend(places);
        let stopping = !more && *self.stopped.borrow();
        if stopping || self.noted.elapsed() >= NOTE || self.given.len() >= UNNOTED {
            self.note().await.map_err(Failed::Store)?;
        }
        Ok(more)
    }

    async fn publish(&self, events: &[EntityEvent]) -> Result<()> {
        // A panic of a consumer counts as its failure. The panic may happen before there is a
        // future, too.
        let attempt = AssertUnwindSafe(async { self.consumer.sink.publish(events).await });
        attempt
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err(Error::internal("the consumer panicked")))
    }

    async fn note(&mut self) -> Result<()> {
        if !self.given.is_empty() {
            outbox(&self.store)?
                .settle(&self.consumer.name, &self.given)
                .await?;
            self.given.clear();
        }
        self.noted = Instant::now();
        Ok(())
    }
}

/// The party that failed: the store or the consumer.
enum Failed {
    Store(Error),
    Consumer(Error),
}

fn outbox(store: &Arc<dyn Store>) -> Result<&dyn Outbox> {
    store
        .outbox()
        .ok_or_else(|| Error::internal("the store has no outbox"))
}

fn cause(error: &Error) -> String {
    std::error::Error::source(error).map_or_else(String::new, ToString::to_string)
}

/// The back-off after this number of consecutive failures: it doubles each time, with 20 % jitter
/// so that consumers do not retry together.
fn pause(failures: u32, longest: Duration) -> Duration {
    let whole = FIRST.saturating_mul(1 << failures.min(16)).min(longest);
    // The last bytes of a fresh uuid are random enough for this.
    let random = f64::from(uuid::Uuid::new_v4().as_bytes()[15]) / 255.0;
    whole.mul_f64(0.8 + 0.4 * random)
}

/// Removes old delivered events at intervals.
async fn prune(
    names: Vec<String>,
    store: Arc<dyn Store>,
    clock: Clock,
    keep: Duration,
    mut stopped: watch::Receiver<bool>,
) {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    while !*stopped.borrow() {
        let kept = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp::from_millis(clock().millis().saturating_sub(kept));
        loop {
            let Ok(outbox) = outbox(&store) else { return };
            match outbox.prune(&names, before, CHUNK).await {
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
        let every = PRUNE.min(keep.max(Duration::from_secs(1)));
        tokio::select! {
            _ = stopped.changed() => {}
            () = tokio::time::sleep(every) => {}
        }
    }
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
