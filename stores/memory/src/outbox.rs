//! The outbox in memory: at most 65,536 waiting events of this process.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use linchpin_core::BoxFuture;
use linchpin_core::event::{Entry, OutboxRow};
use linchpin_core::store::{Committed, Lost, Numbers, Outbox, Parked, Waiting};
use linchpin_core::{Result, Timestamp};

/// The maximum number of waiting events. Above it, the oldest row is dropped and the loss is
/// reported to its consumers, so that a stuck consumer does not use all memory.
const MAX_EVENTS: usize = 1 << 16;

/// The waiting events, in the order of changes.
#[derive(Default)]
pub(super) struct Queue(Mutex<State>);

#[derive(Default)]
struct State {
    rows: VecDeque<Arc<OutboxRow>>,
    /// The number of events in the rows.
    events: usize,
    last: i64,
    /// The rows that each consumer has processed.
    settled: HashMap<String, Numbers>,
    /// The events of the open transaction. No other statement writes during a transaction.
    transaction_events: Option<Vec<Entry>>,
    committed: Option<Arc<dyn Committed>>,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.0.lock();
        f.debug_struct("Queue")
            .field("events", &state.events)
            .field("last", &state.last)
            .finish_non_exhaustive()
    }
}

impl State {
    /// Adds the stored events of a commit as one row, and passes all its events to the receiver of
    /// commits.
    fn append(&mut self, entries: Vec<Entry>) {
        if entries.is_empty() {
            return;
        }
        let (stored, live): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.stored);
        let mut rows = Vec::with_capacity(2);
        if !stored.is_empty() {
            self.last += 1;
            self.events += stored.len();
            let row = Arc::new(OutboxRow::new(self.last, stored));
            self.rows.push_back(Arc::clone(&row));
            rows.push(row);
            while self.events > MAX_EVENTS
                && let Some(oldest) = self.rows.pop_front()
            {
                self.events -= oldest.events.len();
                tracing::error!(
                    "{MAX_EVENTS} events wait in memory; the oldest were dropped, because a \
                     consumer fails"
                );
            }
        }
        if !live.is_empty() {
            rows.push(Arc::new(OutboxRow::new(0, live)));
        }
        if let Some(committed) = &self.committed {
            committed.committed(rows);
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
        match &mut state.transaction_events {
            Some(transaction_events) => transaction_events.extend(entries),
            None => state.append(entries),
        }
    }

    /// From now on, events belong to a transaction.
    pub(super) fn hold(&self) {
        self.0.lock().transaction_events = Some(Vec::new());
    }

    /// The transaction was committed: publish its events.
    pub(super) fn release(&self) {
        let mut state = self.0.lock();
        let transaction_events = state.transaction_events.take();
        state.append(transaction_events.unwrap_or_default());
    }

    /// The transaction was rolled back, or was committed before: drop its events.
    pub(super) fn discard(&self) {
        self.0.lock().transaction_events = None;
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, Result<T>> {
    Box::pin(std::future::ready(Ok(value)))
}

impl Outbox for Queue {
    fn open<'a>(
        &'a self,
        consumers: &'a [&'a str],
        committed: Arc<dyn Committed>,
    ) -> BoxFuture<'a, Result<()>> {
        let mut state = self.0.lock();
        state.committed = Some(committed);
        let last = state.last;
        for consumer in consumers {
            state
                .settled
                .entry((*consumer).to_owned())
                .or_insert_with(|| {
                    let mut had = Numbers::NONE;
                    had.add(0, last);
                    had
                });
        }
        ready(())
    }

    fn knows<'a>(&'a self, consumer: &'a str) -> BoxFuture<'a, Result<bool>> {
        ready(self.0.lock().settled.contains_key(consumer))
    }

    fn is_in_commit_order(&self) -> bool {
        true
    }

    // There are no other processes.
    fn lead<'a>(
        &'a self,
        consumers: &'a [&'a str],
        _: Duration,
    ) -> BoxFuture<'a, Result<Vec<Option<i64>>>> {
        ready(vec![Some(1); consumers.len()])
    }

    fn resign<'a>(&'a self, _: &'a [&'a str]) -> BoxFuture<'a, Result<()>> {
        ready(())
    }

    fn waiting<'a>(
        &'a self,
        consumer: &'a str,
        taken: &'a Numbers,
        _: &'a [Arc<OutboxRow>],
        limit: usize,
    ) -> BoxFuture<'a, Result<Waiting>> {
        let state = self.0.lock();
        let (first, last) = (state.rows.front().map(|row| row.seq), state.last);
        let Some(settled) = state.settled.get(consumer) else {
            return ready(Waiting::default());
        };
        let mut had = settled.clone();
        had.extend(taken);
        // The rows before the first stored row have been removed. Those that this consumer has not
        // processed are lost.
        let gone = first.unwrap_or(last + 1) - 1;
        let missing = had.holes(0).into_iter().filter(|(from, _)| *from <= gone);
        let count = missing
            .map(|(from, to)| to.min(gone).abs_diff(from) + 1)
            .sum();
        let lost = (count > 0).then_some(Lost { count, until: gone });
        let waiting = state.rows.iter().filter(|row| !had.has(row.seq));
        let rows = waiting.take(limit).cloned().collect();
        ready(Waiting { rows, lost })
    }

    fn lost_reported<'a>(&'a self, consumer: &'a str, lost: Lost) -> BoxFuture<'a, Result<()>> {
        if let Some(settled) = self.0.lock().settled.get_mut(consumer) {
            settled.add(0, lost.until);
        }
        ready(())
    }

    fn settle<'a>(&'a self, consumer: &'a str, done: &'a Numbers) -> BoxFuture<'a, Result<()>> {
        let mut state = self.0.lock();
        if let Some(settled) = state.settled.get_mut(consumer) {
            settled.extend(done);
        }
        // Rows that all consumers have processed are removed immediately.
        let firsts = state.settled.values().map(|had| had.holes(0)[0].0);
        let least = firsts.min().unwrap_or_default();
        let count = state.rows.partition_point(|row| row.seq < least);
        let removed_events: usize = state.rows.drain(..count).map(|row| row.events.len()).sum();
        state.events -= removed_events;
        ready(())
    }

    // Parked events are not stored: they would be lost with the process. The log contains the
    // event.
    fn park<'a>(&'a self, _: &'a str, _: &'a Parked) -> BoxFuture<'a, Result<()>> {
        ready(())
    }

    fn prune<'a>(
        &'a self,
        _: &'a [&'a str],
        _: Timestamp,
        _: Timestamp,
        _: usize,
    ) -> BoxFuture<'a, Result<usize>> {
        ready(0)
    }
}

#[cfg(test)]
mod tests {
    use linchpin_core::Uuid;
    use linchpin_core::event::StoredText;

    use super::*;

    fn entries(count: usize) -> Vec<Entry> {
        let row = StoredText {
            id: Uuid::new_v7(),
            entity: "notes".to_owned(),
            record: None,
            at: Timestamp::default(),
            event: r#"{"name":"n","route":"r","actor":"system","request":"","payload":{}}"#
                .to_owned(),
        };
        let entry = row.decode(0).events.remove(0);
        vec![entry; count]
    }

    /// Ignores all events.
    struct IgnoreAll;

    impl Committed for IgnoreAll {
        fn committed(&self, _: Vec<Arc<OutboxRow>>) {}
        fn lost(&self, _: &[Entry]) {}
    }

    async fn open(queue: &Queue, consumers: &[&str]) {
        queue
            .open(consumers, Arc::new(IgnoreAll))
            .await
            .expect("open");
    }

    fn set(numbers: &[i64]) -> Numbers {
        numbers.iter().copied().collect()
    }

    async fn waiting_rows(queue: &Queue, consumer: &str, taken: &[i64], limit: usize) -> Vec<i64> {
        let taken = set(taken);
        let waiting = queue.waiting(consumer, &taken, &[], limit).await;
        let rows = waiting.unwrap_or_default().rows;
        rows.iter().map(|row| row.seq).collect()
    }

    #[tokio::test]
    async fn each_consumer_has_its_own_position() {
        let queue = Queue::default();
        queue.append(entries(1));
        open(&queue, &["a", "b"]).await;
        for _ in 0..5 {
            queue.append(entries(1));
        }
        assert_eq!(
            waiting_rows(&queue, "a", &[], 3).await,
            [2, 3, 4],
            "a new consumer gets no earlier events"
        );
        assert_eq!(waiting_rows(&queue, "a", &[2, 3], 9).await, [4, 5, 6]);
        queue.settle("a", &set(&[2, 4])).await.expect("settled");
        assert_eq!(waiting_rows(&queue, "a", &[], 9).await, [3, 5, 6]);
        assert_eq!(waiting_rows(&queue, "b", &[], 9).await, [2, 3, 4, 5, 6]);
        queue
            .settle("b", &set(&[2, 3, 4, 5, 6]))
            .await
            .expect("settled");
        assert_eq!(
            queue.0.lock().rows.len(),
            4,
            "rows that all consumers have processed are removed"
        );
    }

    #[tokio::test]
    async fn a_committed_transaction_adds_one_row() {
        let queue = Queue::default();
        open(&queue, &["a"]).await;
        queue.hold();
        queue.append(entries(1));
        assert!(waiting_rows(&queue, "a", &[], 9).await.is_empty());
        queue.discard();
        queue.hold();
        queue.append(entries(1));
        queue.append(entries(1));
        queue.release();
        queue.discard();
        assert_eq!(waiting_rows(&queue, "a", &[], 9).await, [1]);
        assert_eq!(queue.0.lock().rows[0].events.len(), 2);
    }

    #[tokio::test]
    async fn a_full_queue_drops_the_oldest_events_and_reports_the_loss_until_confirmed() {
        let queue = Queue::default();
        open(&queue, &["a"]).await;
        for _ in 0..MAX_EVENTS + 10 {
            queue.append(entries(1));
        }
        let none = Numbers::NONE;
        let lost = Lost {
            count: 10,
            until: 10,
        };
        for _ in 0..2 {
            let waiting = queue.waiting("a", &none, &[], 1).await.expect("rows");
            let first = waiting.rows[0].seq;
            assert_eq!(
                (first, waiting.lost),
                (11, Some(lost)),
                "the loss is returned until the consumer confirms it"
            );
        }
        queue.lost_reported("a", lost).await.expect("a report");
        let waiting = queue.waiting("a", &none, &[], 1).await.expect("rows");
        assert_eq!((waiting.rows[0].seq, waiting.lost), (11, None));
        assert_eq!(queue.0.lock().events, MAX_EVENTS);
    }
}
