//! Attempts to deliver events, and the retries after a failure.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::{Delivery, Ended, MAX_STORE_BACKOFF, Source, Step};
use crate::event::Batch;
use crate::event::leases::{Lease, lease};
use crate::event::pending::{Held, Item, MAX_BACKOFF, pause};
use crate::event::relay::{cause, outbox};
use crate::store::Parked;
use crate::{Error, Result};

/// The number of failures after which an event is parked.
const MAX_TRIES: u32 = 20;
/// After this number of failed events in a row, the consumer counts as down, and the other events
/// are held back too.
const FAILURES_IN_A_ROW: usize = 3;
/// The name of the event that says that an event was parked.
const PARKED_EVENT: &str = "linchpin.outbox.dead";

impl Delivery {
    /// Delivers events in order. A failed event holds back later events of its record.
    pub(super) async fn deliver(&mut self, items: Vec<Item>) -> Step<()> {
        let (mut rest, mut failures) = (items, 0);
        if let Some(blocked) = &mut self.blocked {
            blocked.items.extend(rest);
            return Ok(());
        }
        while !rest.is_empty() {
            let (outcome, progress) = self.publish(&rest).await?;
            let Err(error) = outcome else {
                self.finish_all(&rest);
                return Ok(());
            };
            if self.consumer.sink.stops_at_failure() {
                let done: Vec<Item> = rest.drain(..progress.unwrap_or(0)).collect();
                self.finish_all(&done);
                self.block(rest.into(), 1, &error);
                return Ok(());
            }
            let (is_single, known) = (rest.len() == 1, progress);
            let failed = match known.or(is_single.then_some(0)) {
                Some(done) => {
                    let later = rest.split_off(done + 1);
                    if let Some(failed) = rest.pop() {
                        self.fail(failed, 1, &error).await;
                    }
                    self.finish_all(&rest);
                    failures = if rest.is_empty() { failures + 1 } else { 1 };
                    let later = later.into_iter();
                    rest = later.filter_map(|item| self.pending.admit(item)).collect();
                    if failures >= FAILURES_IN_A_ROW {
                        self.hold_all(std::mem::take(&mut rest));
                    }
                    continue;
                }
                None => std::mem::take(&mut rest),
            };
            self.deliver_singly(failed).await?;
        }
        Ok(())
    }

    /// Delivers events one by one, to find those that fail.
    async fn deliver_singly(&mut self, items: Vec<Item>) -> Step<()> {
        let mut failures = 0;
        for item in items {
            let Some(item) = self.pending.admit(item) else {
                continue;
            };
            if failures >= FAILURES_IN_A_ROW {
                self.hold_all(vec![item]);
                continue;
            }
            let item = [item];
            match self.publish(&item).await?.0 {
                Ok(()) => {
                    failures = 0;
                    self.finish_all(&item);
                }
                Err(error) => {
                    failures += 1;
                    let [item] = item;
                    self.fail(item, 1, &error).await;
                }
            }
        }
        Ok(())
    }

    /// Holds back events of a consumer that is down. This does not count as a failure of these
    /// events.
    fn hold_all(&mut self, items: Vec<Item>) {
        self.down = true;
        let due = Instant::now() + pause(0, MAX_BACKOFF);
        for item in items {
            if let Some(item) = self.pending.admit(item) {
                self.pending.hold(item, 0, due);
            }
        }
    }

    /// Tries a held event again. If it succeeds or is parked, delivers the events that waited for
    /// it.
    pub(super) async fn retry(&mut self, mut held: Held) -> Step<()> {
        let Some(item) = held.items.pop_front() else {
            return Ok(());
        };
        let item = [item];
        match self.publish(&item).await?.0 {
            Ok(()) => {
                self.finish_all(&item);
                if std::mem::take(&mut self.down) {
                    self.pending.retry_now(Instant::now());
                }
                self.deliver(held.items.into()).await
            }
            Err(error) => {
                let [item] = item;
                let held_back = held.items;
                self.fail(item, held.tries + 1, &error).await;
                // If the failed event is held, later events of its record wait for it. If it was
                // parked, they are delivered.
                let admitted: Vec<Item> = held_back
                    .into_iter()
                    .filter_map(|item| self.pending.admit(item))
                    .collect();
                self.deliver(admitted).await
            }
        }
    }

    /// Holds an event that has failed `tries` times, or parks it after the last try.
    async fn fail(&mut self, item: Item, tries: u32, error: &Error) {
        let pause = pause(tries - 1, MAX_BACKOFF);
        tracing::warn!(consumer = self.consumer.name, event = item.event.id.as_str(), tries, %error, cause = cause(error), pause = ?pause, "an event was not delivered; it is parked after 20 failed attempts");
        let now = Instant::now();
        if tries < MAX_TRIES {
            return self.pending.hold(item, tries, now + pause);
        }
        match self.park(&item, tries, error).await {
            Ok(()) => self.finish_all(&[item]),
            Err(error) => {
                tracing::warn!(consumer = self.consumer.name, %error, cause = cause(&error), "an event that failed in its last attempt cannot be parked; the app delivers it again");
                self.pending
                    .hold(item, MAX_TRIES - 1, now + MAX_STORE_BACKOFF);
            }
        }
    }

    async fn park(&self, item: &Item, tries: u32, error: &Error) -> Result<()> {
        let text = match cause(error) {
            cause if cause.is_empty() => error.to_string(),
            cause => format!("{error}: {cause}"),
        };
        if let Source::Stored { store, .. } = &self.source {
            let parked = Parked {
                event: item.entry.clone(),
                error: text.clone(),
                at: (self.clock)(),
            };
            outbox(store)?.park(&self.consumer.name, &parked).await?;
        }
        self.meter.parked();
        let event = &item.event;
        tracing::error!(
            consumer = self.consumer.name,
            event = event.id.as_str(),
            name = event.name,
            tries,
            cause = text,
            "an event failed in its last attempt and was parked"
        );
        let alarm = serde_json::json!({
            "consumer": self.consumer.name,
            "event": event.id.as_str(),
            "name": event.name,
            "entity": event.entity,
            "record": event.record_id,
            "error": text,
            "tries": tries,
        });
        // After the stop of the app there are no listeners.
        drop(self.bus.emit(PARKED_EVENT, &alarm));
        Ok(())
    }

    /// Stops the consumer at these events until they succeed.
    fn block(&mut self, items: VecDeque<Item>, tries: u32, error: &Error) {
        let pause = pause(tries - 1, MAX_BACKOFF);
        tracing::warn!(consumer = self.consumer.name, tries, %error, cause = cause(error), pause = ?pause, "events were not delivered; the consumer retries them before later events");
        self.health.fails(&self.consumer.name);
        self.blocked = Some(Held {
            items,
            tries,
            due: Instant::now() + pause,
        });
    }

    /// Retries the events at which the consumer has stopped.
    pub(super) async fn unblock(&mut self) -> Step<()> {
        let Some(Held { tries, due, .. }) = self.blocked else {
            return Ok(());
        };
        if due > Instant::now() {
            return Ok(());
        }
        let Some(blocked) = self.blocked.take() else {
            return Ok(());
        };
        let mut rest: Vec<Item> = blocked.items.into();
        let (outcome, progress) = self.publish(&rest).await?;
        match outcome {
            Ok(()) => {
                self.finish_all(&rest);
                self.health.works(&self.consumer.name);
            }
            Err(error) => {
                let done: Vec<Item> = rest.drain(..progress.unwrap_or(0)).collect();
                self.finish_all(&done);
                let tries = if done.is_empty() {
                    tries.saturating_add(1)
                } else {
                    1
                };
                self.block(rest.into(), tries, &error);
            }
        }
        Ok(())
    }

    fn finish_all(&mut self, items: &[Item]) {
        for item in items {
            self.pending.finish(item);
        }
    }

    /// Passes events to the sink. Returns its result, and the number of processed events if the
    /// sink reports it.
    async fn publish(&mut self, items: &[Item]) -> Step<(Result<()>, Option<usize>)> {
        let fence = self.lease.map_or(0, |lease| lease.fence);
        // Nothing is delivered after the lease has ended, because another process may lead then.
        if let Source::Stored { leases, .. } = &self.source {
            let same = |lease: Lease| lease.fence == fence;
            if !lease(leases, &self.consumer.name).is_some_and(same) {
                return Err(Ended::Lease);
            }
        }
        let events = items.iter().map(|item| Arc::clone(&item.event)).collect();
        let batch = Batch::new(events, fence);
        // A panic of a consumer counts as its failure. `publish` can panic even before it returns a
        // future, so the call is inside the `async` block.
        let attempt = AssertUnwindSafe(async { self.consumer.sink.publish(&batch).await });
        let outcome = attempt
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err(Error::internal("the consumer panicked")));
        let progress = batch.progress();
        let done = match &outcome {
            Ok(()) => items.len(),
            Err(_) => {
                self.meter.failed();
                progress.unwrap_or(0).min(items.len())
            }
        };
        let times = items[..done].iter().map(|item| item.event.at);
        self.meter.delivered(times, (self.clock)());
        Ok((outcome, progress))
    }
}
