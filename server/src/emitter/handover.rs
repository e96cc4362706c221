//! Passes events from a commit to the consumers of this process.
//!
//! The store passes the rows of every commit to this module, in commit order. The module keeps the
//! latest rows in memory. So consumers do not read these rows from the table, and all consumers
//! share the decoded rows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use linchpin_core::event::{Entry, OutboxRow};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};

use super::EventBus;
use crate::store::{Committed, Numbers};

/// The maximum number of kept rows, and the maximum size of all kept rows in bytes. Consumers that
/// are too slow for these rows read the table.
const MAX_ROWS: usize = 1024;
const MAX_BYTES: usize = 8 << 20;
/// The maximum number of events that wait for a live consumer.
const MAX_WAITING: usize = 16_384;

/// The latest rows, the live consumers, and the bus.
pub(crate) struct Handover {
    recent: Mutex<Recent>,
    live: RwLock<Vec<Arc<LiveQueue>>>,
    bus: EventBus,
    wake: watch::Sender<()>,
}

#[derive(Default)]
struct Recent {
    rows: BTreeMap<i64, Arc<OutboxRow>>,
    bytes: usize,
    /// The greatest row number so far.
    last: i64,
}

impl Recent {
    fn keep(&mut self, row: &Arc<OutboxRow>) {
        self.last = self.last.max(row.seq);
        if self.rows.insert(row.seq, Arc::clone(row)).is_none() {
            self.bytes += row.bytes;
        }
        while (self.rows.len() > MAX_ROWS || self.bytes > MAX_BYTES)
            && let Some((_, oldest)) = self.rows.pop_first()
        {
            self.bytes -= oldest.bytes;
        }
    }
}

impl Handover {
    pub(crate) fn new(bus: EventBus) -> Self {
        Self {
            recent: Mutex::default(),
            live: RwLock::default(),
            bus,
            wake: watch::Sender::new(()),
        }
    }

    /// A receiver that changes after each commit with stored events.
    pub(crate) fn woken(&self) -> watch::Receiver<()> {
        self.wake.subscribe()
    }

    pub(crate) fn add_live(&self, queue: Arc<LiveQueue>) {
        self.live.write().push(queue);
    }

    /// The kept rows that directly follow row `after`, up to the first gap, and whether any later
    /// row is known.
    pub(crate) fn rows_after(&self, after: i64, limit: usize) -> (Vec<Arc<OutboxRow>>, bool) {
        let recent = self.recent.lock();
        let mut rows = Vec::new();
        if recent.last <= after {
            return (rows, false);
        }
        for (seq, row) in recent.rows.range(after + 1..).take(limit) {
            if *seq != after + 1 + rows.len() as i64 {
                break;
            }
            rows.push(Arc::clone(row));
        }
        (rows, true)
    }

    /// The kept rows whose numbers are not in `taken`.
    pub(crate) fn rows_outside(&self, taken: &Numbers, limit: usize) -> Vec<Arc<OutboxRow>> {
        let recent = self.recent.lock();
        let new = recent.rows.values().filter(|row| !taken.has(row.seq));
        new.take(limit).cloned().collect()
    }

    /// Keeps rows that one consumer has read from the table, for the other consumers.
    pub(crate) fn keep(&self, rows: &[Arc<OutboxRow>]) {
        let mut recent = self.recent.lock();
        for row in rows {
            recent.keep(row);
        }
    }
}

impl Committed for Handover {
    fn committed(&self, rows: Vec<Arc<OutboxRow>>) {
        let mut stored = false;
        for row in &rows {
            self.bus.send(row);
            for queue in self.live.read().iter() {
                queue.push(row);
            }
            stored |= row.seq > 0;
        }
        if stored {
            self.keep_stored(&rows);
            self.wake.send_replace(());
        }
    }

    fn lost(&self, events: &[Entry]) {
        let count = events.len() as u64;
        tracing::error!(
            count,
            "it is unknown whether a transaction was committed, so its events may be lost"
        );
        self.bus.missed(count);
        for queue in self.live.read().iter() {
            queue.add_missed(count);
        }
    }
}

impl Handover {
    fn keep_stored(&self, rows: &[Arc<OutboxRow>]) {
        let mut recent = self.recent.lock();
        for row in rows.iter().filter(|row| row.seq > 0) {
            recent.keep(row);
        }
    }
}

/// The events that wait for a live consumer.
pub(crate) struct LiveQueue {
    state: Mutex<LiveState>,
    ready: Notify,
    /// The storage names of the entities whose events the consumer receives; `None` for all.
    entities: Option<BTreeSet<&'static str>>,
}

#[derive(Default)]
struct LiveState {
    rows: VecDeque<Arc<OutboxRow>>,
    /// The number of events in `rows`.
    events: usize,
    /// The number of lost events that were not reported yet.
    missed: u64,
}

impl LiveQueue {
    pub(crate) fn new(entities: Option<BTreeSet<&'static str>>) -> Self {
        Self {
            state: Mutex::default(),
            ready: Notify::new(),
            entities,
        }
    }

    fn push(&self, row: &Arc<OutboxRow>) {
        if let Some(entities) = &self.entities {
            let mut entities_of_row = row.events.iter().map(|entry| entry.event.entity.as_ref());
            if !entities_of_row.any(|entity| entities.contains(entity)) {
                return;
            }
        }
        let mut state = self.state.lock();
        if state.events >= MAX_WAITING {
            state.missed += row.events.len() as u64;
        } else {
            state.events += row.events.len();
            state.rows.push_back(Arc::clone(row));
        }
        drop(state);
        self.ready.notify_one();
    }

    fn add_missed(&self, count: u64) {
        self.state.lock().missed += count;
        self.ready.notify_one();
    }

    /// Takes all rows.
    pub(crate) fn take(&self) -> VecDeque<Arc<OutboxRow>> {
        let mut state = self.state.lock();
        state.events = 0;
        std::mem::take(&mut state.rows)
    }

    /// The number of lost events that were not reported to the consumer yet.
    pub(crate) fn missed(&self) -> u64 {
        self.state.lock().missed
    }

    /// Records that this number of lost events was reported to the consumer.
    pub(crate) fn mark_reported(&self, count: u64) {
        let mut state = self.state.lock();
        state.missed = state.missed.saturating_sub(count);
    }

    /// Waits for rows.
    pub(crate) async fn ready(&self) {
        self.ready.notified().await;
    }
}
