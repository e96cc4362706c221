//! The outbox in memory: events of this process, up to a maximum number.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use linchpin_core::BoxFuture;
use linchpin_core::event::Entry;
use linchpin_core::store::Outbox;
use linchpin_core::{Result, Timestamp};

/// The maximum number of waiting events. Beyond it the oldest is dropped: a stuck consumer must not
/// use all memory.
const ROOM: usize = 1 << 16;

/// The waiting events, in the order of changes.
#[derive(Debug, Default)]
pub(super) struct Queue(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    entries: VecDeque<(i64, Entry)>,
    last: i64,
    /// The position of each consumer.
    settled: HashMap<String, i64>,
    /// The events of the open transaction; nothing else writes meanwhile.
    held: Option<Vec<Entry>>,
}

impl State {
    fn append(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            if self.entries.len() == ROOM {
                self.entries.pop_front();
                tracing::error!(
                    "{ROOM} events wait in memory, and the oldest was given up: a consumer is failing"
                );
            }
            self.last += 1;
            self.entries.push_back((self.last, entry));
        }
    }
}

impl Queue {
    /// Adds the events of a statement.
    pub(super) fn append(&self, entries: Vec<Entry>) {
        if entries.is_empty() {
            return;
        }
        let mut state = self.0.lock();
        match &mut state.held {
            Some(held) => held.extend(entries),
            None => state.append(entries),
        }
    }

    /// From now on, events belong to a transaction.
    pub(super) fn hold(&self) {
        self.0.lock().held = Some(Vec::new());
    }

    /// The transaction was committed: publish its events.
    pub(super) fn release(&self) {
        let mut state = self.0.lock();
        let held = state.held.take();
        state.append(held.unwrap_or_default());
    }

    /// The transaction was rolled back, or was committed before: drop its events.
    pub(super) fn discard(&self) {
        self.0.lock().held = None;
    }
}

impl Outbox for Queue {
    fn open<'a>(&'a self, consumers: &'a [&'a str]) -> BoxFuture<'a, Result<()>> {
        let mut state = self.0.lock();
        let last = state.last;
        for consumer in consumers {
            state.settled.entry((*consumer).to_owned()).or_insert(last);
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn knows<'a>(&'a self, consumer: &'a str) -> BoxFuture<'a, Result<bool>> {
        let known = self.0.lock().settled.contains_key(consumer);
        Box::pin(std::future::ready(Ok(known)))
    }

    fn waiting<'a>(
        &'a self,
        consumer: &'a str,
        given: &'a [i64],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(i64, Entry)>>> {
        let state = self.0.lock();
        let settled = state.settled.get(consumer).copied().unwrap_or(state.last);
        let after = given.last().copied().unwrap_or_default().max(settled);
        let from = state.entries.partition_point(|(seq, _)| *seq <= after);
        let waiting = state.entries.range(from..).take(limit).cloned().collect();
        Box::pin(std::future::ready(Ok(waiting)))
    }

    fn settle<'a>(&'a self, consumer: &'a str, given: &'a [i64]) -> BoxFuture<'a, Result<()>> {
        if let Some(seq) = given.last().copied() {
            let mut state = self.0.lock();
            state.settled.insert(consumer.to_owned(), seq);
            // Events that all consumers have processed are removed at once.
            let least = state.settled.values().copied().min().unwrap_or_default();
            let had = state.entries.partition_point(|(seq, _)| *seq <= least);
            state.entries.drain(..had);
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn prune<'a>(
        &'a self,
        _: &'a [&'a str],
        _: Timestamp,
        _: usize,
    ) -> BoxFuture<'a, Result<usize>> {
        Box::pin(std::future::ready(Ok(0)))
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use linchpin_core::Uuid;

    fn entry() -> Entry {
        Entry {
            id: Uuid::new_v7(),
            entity: Cow::Borrowed("notes"),
            record: None,
            at: Timestamp::default(),
            event: String::new(),
        }
    }

    async fn places(queue: &Queue, consumer: &str, given: &[i64], limit: usize) -> Vec<i64> {
        queue
            .waiting(consumer, given, limit)
            .await
            .unwrap_or_default()
            .iter()
            .map(|(seq, _)| *seq)
            .collect()
    }

    #[tokio::test]
    async fn each_consumer_has_a_place_of_its_own() {
        let queue = Queue::default();
        queue.append(vec![entry()]);
        queue.open(&["a", "b"]).await.expect("open");
        queue.append((0..5).map(|_| entry()).collect());
        assert_eq!(
            places(&queue, "a", &[], 3).await,
            [2, 3, 4],
            "what was there before a consumer is not for it"
        );
        assert_eq!(places(&queue, "a", &[2, 3], 9).await, [4, 5, 6]);
        queue.settle("a", &[2, 3, 4]).await.expect("settled");
        assert_eq!(places(&queue, "a", &[], 9).await, [5, 6]);
        assert_eq!(places(&queue, "b", &[], 9).await, [2, 3, 4, 5, 6]);
        queue.settle("b", &[2, 3, 4, 5, 6]).await.expect("settled");
        assert_eq!(queue.0.lock().entries.len(), 2, "what all have had is gone");
    }

    #[tokio::test]
    async fn a_transaction_is_seen_once_it_is_committed() {
        let queue = Queue::default();
        queue.open(&["a"]).await.expect("open");
        queue.hold();
        queue.append(vec![entry()]);
        assert!(places(&queue, "a", &[], 9).await.is_empty());
        queue.discard();
        queue.hold();
        queue.append(vec![entry(), entry()]);
        queue.release();
        queue.discard();
        assert_eq!(places(&queue, "a", &[], 9).await, [1, 2]);
    }

    #[tokio::test]
    async fn memory_is_bounded() {
        let queue = Queue::default();
        queue.open(&["a"]).await.expect("open");
        queue.append((0..ROOM + 10).map(|_| entry()).collect());
        assert_eq!(places(&queue, "a", &[], 1).await, [11]);
        assert_eq!(queue.0.lock().entries.len(), ROOM);
    }
}
