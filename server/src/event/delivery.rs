//! The delivery to one consumer.
//!
//! The store hands over the rows of each commit, and the delivery takes the events from these rows.
//! If another process wrote the rows, or this consumer is too slow, the delivery reads the table of
//! the store. Positions are stored at intervals and not after each batch: after a crash, the most
//! recent events are delivered twice.

mod attempts;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio::time::Instant;

use super::leases::{Lease, Leases, lease};
use super::meter::Meter;
use super::pending::{Held, Item, MAX_BACKOFF, Pending, pause};
use super::relay::{Consumer, Health, cause, outbox};
use super::{EntityEvent, EventBus, Missed};
use crate::clock::Clock;
use crate::emitter::{Handover, LiveQueue};
use crate::event::{Entry, OutboxRow};
use crate::store::{Lost, Store};
use crate::{Error, Timestamp};

/// The bounds of the number of events in a batch, and of rows in a read.
const BATCH: RangeInclusive<usize> = 1..=1_000;
/// The interval between two reads of the outbox if nothing wakes the relay.
const POLL: Duration = Duration::from_millis(250);
/// The interval between two writes of a busy consumer's position.
const POSITION_INTERVAL: Duration = Duration::from_millis(200);
/// The longest back-off after a failure of the store. It is short, because all consumers wait
/// during the back-off and a read of the table is cheap.
const MAX_STORE_BACKOFF: Duration = Duration::from_secs(1);

/// The origin of the events of a consumer.
pub(super) enum Source {
    /// The outbox of a store, for the process that leads the consumer.
    Stored {
        store: Arc<dyn Store>,
        handover: Arc<Handover>,
        woken: watch::Receiver<()>,
        leases: watch::Receiver<Leases>,
        /// Whether all rows of the table have been taken, so that the next rows come from
        /// `handover`.
        caught_up: bool,
    },
    /// The queue of this process, without the outbox.
    Live(Arc<LiveQueue>),
}

pub(super) struct Delivery {
    consumer: Consumer,
    source: Source,
    stopped: watch::Receiver<bool>,
    bus: EventBus,
    clock: Clock,
    health: Health,
    meter: Meter,
    pending: Pending,
    /// The number of events in a batch, and of rows in a read.
    batch: usize,
    /// The events at which the consumer has stopped.
    blocked: Option<Held>,
    /// The lease under which events were taken.
    lease: Option<Lease>,
    /// Whether the consumer is down: several events failed in a row, and no retry has succeeded
    /// since.
    down: bool,
    position_stored: Instant,
}

/// The reason why a step ended early.
enum Ended {
    /// The store failed.
    Store(Error),
    /// Another process leads the consumer now.
    Lease,
    /// The consumer failed to process a report of lost events.
    LossUnreported(Error),
}

type Step<T> = std::result::Result<T, Ended>;

impl Delivery {
    pub(super) fn new(
        consumer: Consumer,
        source: Source,
        stopped: watch::Receiver<bool>,
        (bus, clock, health): (EventBus, Clock, Health),
    ) -> Self {
        Self {
            meter: Meter::new(&consumer.name),
            batch: (consumer.sink.largest_batch()).clamp(*BATCH.start(), *BATCH.end()),
            consumer,
            source,
            stopped,
            bus,
            clock,
            health,
            pending: Pending::default(),
            blocked: None,
            lease: None,
            down: false,
            position_stored: Instant::now(),
        }
    }

    pub(super) async fn run(mut self) {
        let (mut failures, mut read_table) = (0, true);
        loop {
            // Marked before the step, so that events that are committed during the step wake the
            // relay again.
            if let Source::Stored { woken, .. } = &mut self.source {
                woken.mark_unchanged();
            }
            // Read before the step, so that events that were committed before the stop get one more
            // step.
            let stopping = *self.stopped.borrow();
            if !self.leads() {
                if stopping && self.is_decided() {
                    return;
                }
                self.wait_for_lease().await;
                continue;
            }
            match self.step(read_table, stopping).await {
                Ok(true) => {
                    (failures, read_table) = (0, false);
                }
                Ok(false) if stopping => return self.log_undelivered(),
                Ok(false) => {
                    failures = 0;
                    read_table = self.wait().await;
                }
                Err(Ended::Lease) => self.drop_taken(),
                Err(Ended::LossUnreported(error)) => {
                    let pause = pause(failures, MAX_BACKOFF);
                    (failures, read_table) = (failures + 1, true);
                    tracing::warn!(consumer = self.consumer.name, %error, cause = cause(&error), pause = ?pause, "the consumer failed to process the report of lost events; the loss is reported again");
                    self.health.fails(&self.consumer.name);
                    if *self.stopped.borrow() {
                        drop(self.store_position().await);
                        return self.log_undelivered();
                    }
                    tokio::select! {
                        _ = self.stopped.changed() => {}
                        () = tokio::time::sleep(pause) => {}
                    }
                }
                Err(Ended::Store(error)) => {
                    let pause = pause(failures, MAX_STORE_BACKOFF);
                    (failures, read_table) = (failures + 1, true);
                    tracing::warn!(consumer = self.consumer.name, %error, cause = cause(&error), pause = ?pause, "the outbox cannot be read; the app tries again");
                    if *self.stopped.borrow() {
                        // Even so, store the position of earlier deliveries.
                        drop(self.store_position().await);
                        return;
                    }
                    self.sleep(pause).await;
                }
            }
        }
    }

    /// Whether this process delivers to the consumer. With a new lease, delivery starts again from
    /// the store.
    fn leads(&mut self) -> bool {
        let Source::Stored { leases, .. } = &self.source else {
            return true;
        };
        let lease = lease(leases, &self.consumer.name);
        let same = match (lease, self.lease) {
            (Some(new), Some(old)) => new.fence == old.fence,
            (new, _) => new.is_none(),
        };
        if lease.is_none() || !same {
            self.drop_taken();
        }
        self.lease = lease;
        lease.is_some()
    }

    /// Whether this process has tried to lead the consumer.
    fn is_decided(&self) -> bool {
        match &self.source {
            Source::Stored { leases, .. } => leases.borrow().is_some(),
            Source::Live(_) => true,
        }
    }

    /// Drops all taken events: the next leader reads them from the store.
    fn drop_taken(&mut self) {
        self.pending = Pending::default();
        self.blocked = None;
        self.lease = None;
        self.health.works(&self.consumer.name);
        if let Source::Stored { caught_up, .. } = &mut self.source {
            *caught_up = false;
        }
    }

    /// Waits until this process may lead the consumer.
    async fn wait_for_lease(&mut self) {
        if let Source::Stored { leases, .. } = &mut self.source {
            tokio::select! {
                _ = leases.changed() => {}
                _ = self.stopped.changed() => {}
                () = tokio::time::sleep(POLL) => {}
            }
        }
    }

    /// Waits for events. Returns whether the next step reads the table, because nothing woke the
    /// relay.
    async fn wait(&mut self) -> bool {
        let now = Instant::now();
        let due = match &self.blocked {
            Some(blocked) => Some(blocked.due),
            None => self.pending.next_due(),
        };
        let until = due.map_or(now + POLL, |due| due.min(now + POLL));
        match &mut self.source {
            Source::Stored { woken, .. } => tokio::select! {
                // The store owns the sender: an error means that no more events can arrive.
                changed = woken.changed() => changed.is_err(),
                _ = self.stopped.changed() => true,
                () = tokio::time::sleep_until(until) => true,
            },
            Source::Live(queue) => tokio::select! {
                () = queue.ready() => false,
                _ = self.stopped.changed() => true,
                () = tokio::time::sleep_until(until), if due.is_some() => true,
            },
        }
    }

    /// Waits after a failure of the store. A new event means that it works again.
    async fn sleep(&mut self, pause: Duration) {
        if let Source::Stored { woken, .. } = &mut self.source {
            tokio::select! {
                _ = self.stopped.changed() => {}
                _ = woken.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Delivers the waiting events; returns whether there may be more.
    async fn step(&mut self, read_table: bool, stopping: bool) -> Step<bool> {
        let mut more = false;
        self.unblock().await?;
        if self.blocked.is_none() && !self.pending.is_full() {
            let (rows, lost) = self.rows(read_table || stopping).await?;
            more = lost.is_some() || !rows.is_empty();
            if let Some(lost) = lost {
                self.report_lost(lost).await?;
            }
            self.take_rows(rows).await?;
        }
        while self.blocked.is_none()
            && let Some(held) = self.pending.take_due(Instant::now())
        {
            self.retry(held).await?;
        }
        self.meter.oldest(self.oldest(), (self.clock)());
        let over = stopping && !more;
        if over || self.position_stored.elapsed() >= POSITION_INTERVAL {
            self.store_position().await?;
        }
        Ok(more)
    }

    /// The next rows, and the rows that were lost before them.
    async fn rows(&mut self, read_table: bool) -> Step<(Vec<Arc<OutboxRow>>, Option<Lost>)> {
        let most = self.batch;
        let (store, handover, caught_up) = match &mut self.source {
            Source::Live(queue) => {
                // A taken row has no other copy, so rows stay in the queue until the loss is
                // reported.
                return Ok(match queue.missed() {
                    0 => (queue.take().into(), None),
                    count => (Vec::new(), Some(Lost { count, until: 0 })),
                });
            }
            Source::Stored {
                store,
                handover,
                caught_up,
                ..
            } => (store, handover, caught_up),
        };
        let outbox = outbox(store).map_err(Ended::Store)?;
        if *caught_up && outbox.is_in_commit_order() {
            let (rows, further) = handover.rows_after(self.pending.top(), most);
            if !rows.is_empty() || !(further || read_table) {
                return Ok((rows, None));
            }
        }
        let taken = self.pending.taken();
        let known = handover.rows_outside(&taken, most);
        let waiting = outbox.waiting(&self.consumer.name, &taken, &known, most);
        let waiting = waiting.await.map_err(Ended::Store)?;
        *caught_up = waiting.rows.len() < most;
        handover.keep(&waiting.rows);
        Ok((waiting.rows, waiting.lost))
    }

    /// Takes rows and delivers their events. An event waits if an earlier event of the same record
    /// has failed.
    async fn take_rows(&mut self, rows: Vec<Arc<OutboxRow>>) -> Step<()> {
        // Losses are reported before the rows count as taken: if a report fails, all rows are read
        // again.
        for row in &rows {
            if let Some(why) = &row.unreadable {
                tracing::error!(
                    consumer = self.consumer.name,
                    cause = why,
                    "an event cannot be read and is skipped"
                );
                self.notify_lost(1, "the events cannot be read").await?;
            }
        }
        let mut items = Vec::new();
        for row in rows {
            let before = items.len();
            let items_of_row = row.events.iter().filter_map(|entry| {
                Some(Item {
                    seq: row.seq,
                    event: self.consumer.visible_event(entry)?,
                    entry: entry.clone(),
                })
            });
            items.extend(items_of_row);
            self.pending.take(row.seq, items.len() - before);
        }
        let mut batch = Vec::with_capacity(items.len().min(self.batch));
        for item in items {
            batch.extend(self.pending.admit(item));
            if batch.len() == self.batch {
                self.deliver(std::mem::take(&mut batch)).await?;
            }
        }
        self.deliver(batch).await
    }

    /// The time of the oldest event that waits after a failure.
    fn oldest(&self) -> Option<Timestamp> {
        let blocked = self.blocked.as_ref().and_then(|held| held.items.front());
        let held = blocked.map(|item| item.event.at);
        held.into_iter().chain(self.pending.oldest()).min()
    }

    /// Reports lost rows to the consumer; after a success they are not reported again.
    async fn report_lost(&mut self, lost: Lost) -> Step<()> {
        let why = "the events were removed before they were delivered";
        self.notify_lost(lost.count, why).await?;
        match &self.source {
            Source::Live(queue) => queue.mark_reported(lost.count),
            Source::Stored { store, .. } => {
                let outbox = outbox(store).map_err(Ended::Store)?;
                let result = outbox.lost_reported(&self.consumer.name, lost).await;
                result.map_err(Ended::Store)?;
            }
        }
        Ok(())
    }

    async fn notify_lost(&mut self, count: u64, why: &'static str) -> Step<()> {
        tracing::error!(
            consumer = self.consumer.name,
            count,
            cause = why,
            "events were lost"
        );
        let result = AssertUnwindSafe(async {
            let missed = Missed { count, cause: why };
            self.consumer.sink.missed(missed).await
        });
        let result = result.catch_unwind().await;
        let result = result.unwrap_or_else(|_| Err(Error::internal("the consumer panicked")));
        if let Err(error) = result {
            // Read the rows from the table again: the rows in memory do not show that other rows
            // are missing.
            if let Source::Stored { caught_up, .. } = &mut self.source {
                *caught_up = false;
            }
            return Err(Ended::LossUnreported(error));
        }
        self.meter.lost(count);
        self.health.works(&self.consumer.name);
        Ok(())
    }

    /// Stores the position.
    async fn store_position(&mut self) -> Step<()> {
        if let Source::Stored { store, .. } = &self.source
            && !self.pending.done().is_empty()
        {
            let outbox = outbox(store).map_err(Ended::Store)?;
            outbox
                .settle(&self.consumer.name, self.pending.done())
                .await
                .map_err(Ended::Store)?;
            self.pending.settled();
        }
        self.position_stored = Instant::now();
        Ok(())
    }

    /// Logs the number of events that were not delivered, if there are any.
    fn log_undelivered(&self) {
        let blocked = self.blocked.as_ref().map_or(0, |held| held.items.len());
        let waiting = self.pending.waiting() + blocked;
        if waiting > 0 {
            let lost = matches!(self.source, Source::Live(_));
            tracing::warn!(
                consumer = self.consumer.name,
                waiting,
                lost,
                "events were not delivered before the stop"
            );
        }
    }
}

impl Consumer {
    /// The event as this consumer sees it; `None` if it is not for the consumer.
    fn visible_event(&self, entry: &Entry) -> Option<Arc<EntityEvent>> {
        let event = &entry.event;
        let takes = |entities: &BTreeSet<&'static str>| entities.contains(event.entity.as_ref());
        if !self.entities.as_ref().is_none_or(takes) {
            return None;
        }
        let has_states =
            !event.keys.is_empty() && (event.after.is_some() || event.before.is_some());
        let largest = self.sink.largest_payload();
        if self.needs_records || (has_states && takes(&self.states)) {
            return Some(event.within(largest));
        }
        // Only consumers that need records get internal events, keys and states.
        (!entry.internal).then(|| event.without_records().within(largest))
    }
}
