//! The events that a consumer has taken and not finished, in the order of each record.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::EntityEvent;
use crate::Timestamp;
use crate::event::Entry;
use crate::store::Numbers;

/// The maximum number of records whose events wait because one of them failed.
pub(super) const MAX_HELD_RECORDS: usize = 1_000;
/// The maximum number of events that wait because an earlier one failed.
const MAX_WAITING_EVENTS: usize = 10_000;

/// An event for a consumer.
pub(super) struct Item {
    /// The row of the event; 0 if it is not stored.
    pub(super) seq: i64,
    pub(super) entry: Entry,
    /// The event as the consumer sees it.
    pub(super) event: Arc<EntityEvent>,
}

/// A record whose events keep their order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key(String, Option<String>);

impl Item {
    fn key(&self) -> Key {
        Key(
            self.event.entity.clone().into_owned(),
            self.event.record_id.clone(),
        )
    }
}

/// An event that failed, and later events of the same record.
pub(super) struct Held {
    pub(super) items: VecDeque<Item>,
    /// The number of failures of the first one.
    pub(super) tries: u32,
    pub(super) due: Instant,
}

/// The unfinished events of a consumer.
#[derive(Default)]
pub(super) struct Pending {
    /// The number of unfinished events of each row.
    open: BTreeMap<i64, usize>,
    /// Finished rows that are not yet marked as finished in the store.
    done: Numbers,
    /// The greatest row that was taken.
    top: i64,
    held: HashMap<Key, Held>,
    /// The number of events that wait in `held`.
    waiting: usize,
}

impl Pending {
    /// Adds a row with `count` events for the consumer.
    pub(super) fn take(&mut self, seq: i64, count: usize) {
        self.top = self.top.max(seq);
        match (seq, count) {
            (0, _) => {}
            (_, 0) => self.done.insert(seq),
            _ => {
                self.open.insert(seq, count);
            }
        }
    }

    /// Marks an event as finished.
    pub(super) fn finish(&mut self, item: &Item) {
        if let Some(left) = self.open.get_mut(&item.seq) {
            *left -= 1;
            if *left == 0 {
                self.open.remove(&item.seq);
                self.done.insert(item.seq);
            }
        }
    }

    /// The greatest row that was taken.
    pub(super) fn top(&self) -> i64 {
        self.top
    }

    /// The taken rows that are not yet marked as finished in the store.
    pub(super) fn taken(&self) -> Numbers {
        let mut taken = self.done.clone();
        self.open.keys().for_each(|seq| taken.insert(*seq));
        taken
    }

    /// The finished rows that are not yet marked as finished in the store.
    pub(super) fn done(&self) -> &Numbers {
        &self.done
    }

    /// Clears the list of finished rows, after the store has marked them as finished.
    pub(super) fn settled(&mut self) {
        self.done = Numbers::NONE;
    }

    /// Whether so many events wait that the consumer must not take more.
    pub(super) fn is_full(&self) -> bool {
        self.held.len() >= MAX_HELD_RECORDS || self.waiting >= MAX_WAITING_EVENTS
    }

    /// The number of events that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// The time of the oldest event that waits.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        let first = |held: &Held| held.items.front().map(|item| item.event.at);
        self.held.values().filter_map(first).min()
    }

    /// Returns the item. If an earlier event of its record waits after a failure, the item waits
    /// too, and the result is `None`.
    pub(super) fn admit(&mut self, item: Item) -> Option<Item> {
        if self.held.is_empty() {
            return Some(item);
        }
        match self.held.get_mut(&item.key()) {
            Some(held) => {
                held.items.push_back(item);
                self.waiting += 1;
                None
            }
            None => Some(item),
        }
    }

    /// Holds an event until `due`. The event has failed `tries` times. If other events of its
    /// record are held already, the event waits after them, and their `tries` and `due` stay.
    pub(super) fn hold(&mut self, item: Item, tries: u32, due: Instant) {
        let key = item.key();
        self.waiting += 1;
        let held = self.held.entry(key).or_insert_with(|| Held {
            items: VecDeque::new(),
            tries,
            due,
        });
        held.items.push_back(item);
    }

    /// Takes the held events of the record whose retry has been due for the longest time; `None` if
    /// no retry is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Held> {
        let due = self.held.iter().filter(|(_, held)| held.due <= now);
        let key = due.min_by_key(|(_, held)| held.due)?.0.clone();
        let held = self.held.remove(&key)?;
        self.waiting -= held.items.len();
        Some(held)
    }

    /// The instant at which the next held event is tried.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.held.values().map(|held| held.due).min()
    }

    /// Makes all held events due now, because the consumer works again.
    pub(super) fn retry_now(&mut self, now: Instant) {
        for held in self.held.values_mut() {
            held.due = held.due.min(now);
        }
    }
}

/// The first and the longest back-off after failures.
const FIRST_BACKOFF: Duration = Duration::from_millis(250);
pub(super) const MAX_BACKOFF: Duration = Duration::from_mins(1);

/// The back-off after this number of earlier failures: it doubles each time, with 20 % jitter so
/// that consumers do not retry together.
pub(super) fn pause(failures: u32, longest: Duration) -> Duration {
    let base = FIRST_BACKOFF
        .saturating_mul(1 << failures.min(16))
        .min(longest);
    // The last bytes of a fresh uuid are random enough for this.
    let random = f64::from(uuid::Uuid::new_v4().as_bytes()[15]) / 255.0;
    base.mul_f64(0.8 + 0.4 * random)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Uuid;
    use crate::event::StoredText;

    fn item(seq: i64, record: &str) -> Item {
        let row = StoredText {
            id: Uuid::new_v7(),
            entity: "notes".to_owned(),
            record: Some(record.to_owned()),
            at: Timestamp::default(),
            event: r#"{"name":"n","route":"r","actor":"system","request":"","payload":{}}"#
                .to_owned(),
        };
        let entry = row.decode(seq).events.remove(0);
        let event = Arc::clone(&entry.event);
        Item { seq, entry, event }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_event_holds_back_later_ones_of_its_record_only() {
        let (mut pending, now) = (Pending::default(), Instant::now());
        for seq in 1..=3 {
            pending.take(seq, 1);
        }
        let first = pending.admit(item(1, "a")).expect("nothing is held");
        pending.hold(first, 1, now + FIRST_BACKOFF);
        assert!(pending.admit(item(2, "a")).is_none());
        let other = pending.admit(item(3, "b")).expect("another record");
        pending.finish(&other);
        assert_eq!(pending.done().to_string(), "3");
        assert_eq!(pending.taken().to_string(), "1-3");
        assert!(pending.take_due(now).is_none());
        let held = pending.take_due(now + FIRST_BACKOFF).expect("due");
        assert_eq!((held.tries, held.items.len(), pending.waiting()), (1, 2, 0));
        let order: Vec<i64> = held.items.iter().map(|item| item.seq).collect();
        assert_eq!(order, [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_row_is_finished_after_its_last_event() {
        let mut pending = Pending::default();
        pending.take(1, 2);
        pending.take(2, 0);
        let (one, two) = (item(1, "a"), item(1, "b"));
        pending.finish(&two);
        assert_eq!(pending.done().to_string(), "2");
        pending.finish(&one);
        assert_eq!(pending.done().to_string(), "1-2");
        pending.settled();
        assert!(pending.taken().is_empty());
        assert_eq!(pending.top(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_consumer_with_a_thousand_held_records_is_full() {
        let (mut pending, now) = (Pending::default(), Instant::now());
        for n in 0..MAX_HELD_RECORDS {
            assert!(!pending.is_full(), "{n}");
            pending.hold(item(1, &n.to_string()), 1, now);
        }
        assert!(pending.is_full());
    }

    #[test]
    fn pauses_double_up_to_a_maximum_and_have_jitter() {
        for (failures, base) in [
            (0, 250),
            (1, 500),
            (4, 4000),
            (8, 60_000),
            (u32::MAX, 60_000),
        ] {
            for _ in 0..50 {
                let millis = pause(failures, MAX_BACKOFF).as_millis();
                assert!(
                    (base * 8 / 10..=base * 12 / 10).contains(&millis),
                    "{failures}: {millis}"
                );
            }
        }
        let pauses: BTreeSet<u128> = (0..50).map(|_| pause(3, MAX_BACKOFF).as_millis()).collect();
        assert!(pauses.len() > 10, "{pauses:?}");
    }
}
