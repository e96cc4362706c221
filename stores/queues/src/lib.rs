//! In-process queues for statements that would block each other.
//!
//! Two statements that lock the same records in different orders wait for each other until the
//! database stops one of them: for example, two updates that exchange the unique values of two
//! records. Of the statements on one entity that have conflicted before, only one runs at a time.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Mutex as Queued, OwnedMutexGuard};

use linchpin_core::Value;
use linchpin_core::filter::{Filter, Op, Operand, Source};
use linchpin_core::store::{LockWait, Plan, Statement};

/// The number of conflicts after which pauses no longer double. Outside of the queue, a pause is
/// then shorter than 2^6 ms.
const MAX_EXPONENT: usize = 6;
/// The longest pause of a statement in the queue.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// The factor between the duration of an attempt and the pause after it, so that the queue is free
/// for others most of the time.
const PAUSE_FACTOR: u32 = 4;

/// The condition for a statement to wait in the queue of its entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Never: it writes one record, so it cannot cause a deadlock.
    Never,
    /// After several conflicts.
    Late,
    /// After the first conflict.
    Soon,
    /// From the beginning.
    Always,
}

impl Queue {
    /// The number of attempts before the statement waits in the queue.
    fn unqueued_attempts(self) -> usize {
        match self {
            Self::Never => usize::MAX,
            Self::Late => 4,
            Self::Soon => 1,
            Self::Always => 0,
        }
    }
}

type Key = u64;

/// Hashes the name of a queue to its key.
static KEY_HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
/// All queues in use.
static ALL: LazyLock<Mutex<HashMap<Key, Arc<Queued<()>>>>> = LazyLock::new(Mutex::default);

/// A reference to a queue; the queue exists as long as there is a reference.
struct QueueReference {
    key: Key,
    /// `None` once it is dropped.
    queue: Option<Arc<Queued<()>>>,
}

impl Drop for QueueReference {
    fn drop(&mut self) {
        let mut all = ALL.lock();
        // The field is cleared under the lock: if two references are dropped at the same time, the
        // second one then sees that it was the last.
        self.queue = None;
        if all
            .get(&self.key)
            .is_some_and(|queue| Arc::strong_count(queue) == 1)
        {
            all.remove(&self.key);
        }
    }
}

/// The first position in a queue. The fields are dropped in this order: the lock is released before
/// the reference.
pub struct Place {
    _first: OwnedMutexGuard<()>,
    _reference: QueueReference,
}

/// Waits for the first position in a queue.
pub async fn first(name: impl Hash) -> Place {
    let key = KEY_HASHER.hash_one(name);
    let queue = Arc::clone(ALL.lock().entry(key).or_default());
    let reference = QueueReference {
        key,
        queue: Some(Arc::clone(&queue)),
    };
    Place {
        _first: queue.lock_owned().await,
        _reference: reference,
    }
}

/// Whether a queue is not in use.
pub fn is_free(name: impl Hash) -> bool {
    !ALL.lock().contains_key(&KEY_HASHER.hash_one(name))
}

/// The attempts of one write, each of which may conflict with others.
///
/// A write that must be queued first waits in a queue of its record, if it writes only one record,
/// and then in the queue of its entity. So if another transaction locks the record, only one write
/// at a time waits for that lock.
pub struct Attempts {
    queue: Queue,
    /// The address of the store, and the name of the entity in it.
    entity: (usize, &'static str),
    record: Option<Key>,
    count: usize,
    began: Instant,
    /// The position in the queue of its record. The write keeps it until its last attempt has
    /// ended.
    record_place: Option<Place>,
    /// The position in the queue of its entity, kept only during an attempt.
    entity_place: Option<Place>,
}

impl Attempts {
    /// Creates the attempts of a write to an entity, and to one `record` of it if known.
    pub fn new(queue: Queue, entity: (usize, &'static str), record: Option<Key>) -> Self {
        Self {
            queue,
            entity,
            record,
            count: 0,
            began: Instant::now(),
            record_place: None,
            entity_place: None,
        }
    }

    /// The number of attempts so far.
    pub fn count(&self) -> usize {
        self.count
    }

    fn is_queued(&self) -> bool {
        self.count >= self.queue.unqueued_attempts()
    }

    /// Begins an attempt; returns how long it may wait for locks.
    pub async fn begin(&mut self) -> LockWait {
        self.began = Instant::now();
        if !self.is_queued() {
            return if self.count == 0 {
                LockWait::Short
            } else {
                LockWait::Extended
            };
        }
        if let (None, Some(record)) = (&self.record_place, self.record) {
            self.record_place = Some(first((self.entity, record)).await);
            self.began = Instant::now();
        }
        // Writes of many records are long, so they have a separate queue.
        self.entity_place = Some(first((self.entity, self.queue == Queue::Late)).await);
        LockWait::Short
    }

    /// Ends an attempt: releases its position in the queue of the entity.
    pub fn end(&mut self) {
        self.entity_place = None;
    }

    /// Waits before the next attempt, after an attempt with a conflict.
    pub async fn pause(&mut self) {
        let exponent = self.count.min(MAX_EXPONENT);
        // A new random state for each call.
        let random = RandomState::new().hash_one(self.count);
        let pause = if self.is_queued() {
            // The elapsed time includes waits for locks, so a longer wait leads to a longer pause.
            let rest = (self.began.elapsed() * PAUSE_FACTOR)
                .max(Duration::from_millis(4 << exponent))
                .min(MAX_PAUSE);
            rest * (768 + u32::try_from(random % 256).unwrap_or_default()) / 1024
        } else {
            Duration::from_micros(random % (1000 << exponent))
        };
        self.count += 1;
        tokio::time::sleep(pause).await;
    }
}

/// The queue of a statement. A statement that writes unique values of existing records may deadlock
/// with another one. Two statements that skip locked records at the same time would each find fewer
/// records, so only one of them runs at a time.
pub fn queue(statement: &Statement) -> Queue {
    let one = |filter: &Filter| pinned(filter, statement.entity.primary).is_some();
    match &statement.plan {
        Plan::Update {
            pick: Some(pick), ..
        }
        | Plan::Delete {
            pick: Some(pick), ..
        } if !pick.waits && pick.limit > 1 => Queue::Always,
        Plan::Update { set, .. } | Plan::Upsert { set, .. }
            if set.iter().any(|assign| {
                statement
                    .entity
                    .uniques
                    .iter()
                    .any(|unique| unique.fields.contains(&assign.field))
            }) =>
        {
            Queue::Soon
        }
        Plan::Update { filter, .. } | Plan::Delete { filter, .. } if !one(filter) => Queue::Late,
        _ => Queue::Never,
    }
}

/// The hash of the keys of the only record that a statement writes, if the statement names it.
pub fn record(statement: &Statement, args: &[Value]) -> Option<Key> {
    let mut hasher = KEY_HASHER.build_hasher();
    let mut hash = |value: &Value| match value {
        Value::Int(n) => n.hash(&mut hasher),
        other => other.as_text().hash(&mut hasher),
    };
    match &statement.plan {
        Plan::Update { filter, .. } | Plan::Delete { filter, .. } => {
            match pinned(filter, statement.entity.primary)? {
                Source::Arg { index, .. } => hash(args.get(*index)?),
                Source::Value(value) => hash(value),
                _ => return None,
            }
        }
        Plan::Upsert { keys, .. } => keys
            .iter()
            .try_for_each(|key| args.get(*key).map(&mut hash))?,
        _ => return None,
    }
    Some(hasher.finish())
}

/// The value that a filter requires in a field; `None` if the filter does not fix the field.
fn pinned(filter: &Filter, field: usize) -> Option<&Source> {
    match filter {
        Filter::All(parts) => parts.iter().find_map(|part| pinned(part, field)),
        Filter::Cond {
            field: compared,
            op: Op::Eq,
            value: Operand::One(source),
        } if *compared == field => Some(source),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Waker};

    use super::*;

    fn waits<F: Future>(future: Pin<&mut F>) -> bool {
        future
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    }

    #[tokio::test]
    async fn a_queue_exists_while_it_has_members() {
        let name = ("queues", "tests", 1);
        assert!(is_free(name));
        let place = first(name).await;
        assert!(!is_free(name) && is_free(("queues", "tests", 2)));
        let mut next = Box::pin(first(name));
        assert!(waits(next.as_mut()));
        let mut canceled = Box::pin(first(name));
        assert!(waits(canceled.as_mut()));
        drop(canceled);
        drop(place);
        let next = next.await;
        assert!(!is_free(name));
        drop(next);
        assert!(is_free(name));
    }

    #[tokio::test]
    async fn a_record_queue_waits_for_the_entity_queue() {
        let attempts = |record| Attempts {
            count: 1,
            ..Attempts::new(Queue::Soon, (1, "tests"), Some(record))
        };
        let (mut leader, mut same, mut other) = (attempts(1), attempts(1), attempts(2));
        leader.begin().await;
        assert!(leader.record_place.is_some() && leader.entity_place.is_some());
        // While `leader` pauses, writes of other records can use the queue of the entity, but
        // writes of the same record still wait.
        leader.end();
        assert_eq!(other.begin().await, LockWait::Short);
        assert!(waits(std::pin::pin!(same.begin())));
        drop(leader);
        other.end();
        same.begin().await;
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_end() {
        let mut attempts = Attempts::new(Queue::Soon, (1, "pauses"), Some(1));
        let began = tokio::time::Instant::now();
        for _ in 0..64 {
            attempts.begin().await;
            attempts.end();
            let before = tokio::time::Instant::now();
            attempts.pause().await;
            assert!(before.elapsed() <= MAX_PAUSE);
        }
        assert!(
            began.elapsed() > Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
    }
}
