//! In-process queues for statements that would block each other.
//!
//! Two statements that each lock several records that the other needs wait for each other until one
//! of them is stopped: for example, two updates that exchange the unique values of two records. Of
//! the statements on one entity that have conflicted before, only one runs at a time.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Mutex as Queued, OwnedMutexGuard};

use linchpin_core::Value;
use linchpin_core::filter::{Filter, Op, Operand, Source};
use linchpin_core::store::{Patience, Plan, Statement};

/// The longest pause of a statement outside of the queue, as a power of two of milliseconds.
const BESIDE: usize = 6;
/// The longest pause of a statement in the queue.
const LONGEST: Duration = Duration::from_secs(1);
/// The factor between the duration of an attempt and the pause after it, so that the queue is free
/// for others most of the time.
const REST: u32 = 4;

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
    /// Attempts without a queue.
    fn free(self) -> usize {
        match self {
            Self::Never => usize::MAX,
            Self::Late => 4,
            Self::Soon => 1,
            Self::Always => 0,
        }
    }
}

type Key = u64;

static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
/// All queues in use.
static ALL: LazyLock<Mutex<HashMap<Key, Arc<Queued<()>>>>> = LazyLock::new(Mutex::default);

/// A reference to a queue; the queue exists as long as there is a reference.
struct Interest {
    key: Key,
    /// `None` once it is dropped.
    queue: Option<Arc<Queued<()>>>,
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut all = ALL.lock();
        // Under the lock, so that of two references dropped at the same time the later one sees
        // that it is the last.
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
    _interest: Interest,
}

/// Waits for the first position in a queue.
pub async fn first(of: impl Hash) -> Place {
    let key = KEYS.hash_one(of);
    let queue = Arc::clone(ALL.lock().entry(key).or_default());
    let interest = Interest {
        key,
        queue: Some(Arc::clone(&queue)),
    };
    Place {
        _first: queue.lock_owned().await,
        _interest: interest,
    }
}

/// Whether a queue is not in use.
pub fn is_free(of: impl Hash) -> bool {
    !ALL.lock().contains_key(&KEYS.hash_one(of))
}

/// The attempts of one write, each of which may conflict with others.
///
/// Before the queue of the entity, writes of one record wait in a queue of that record: if another
/// transaction locks the record, only one of them waits for it at a time.
pub struct Attempts {
    queue: Queue,
    /// The location and the name of the entity.
    of: (usize, &'static str),
    record: Option<Key>,
    count: usize,
    began: Instant,
    /// The position in the queue of its record, until the end.
    own: Option<Place>,
    /// The position in the queue of its entity, for an attempt.
    turn: Option<Place>,
}

impl Attempts {
    /// Creates the attempts of a write to the entity `of`, and to one `record` of it if known.
    pub fn new(queue: Queue, of: (usize, &'static str), record: Option<Key>) -> Self {
        Self {
            queue,
            of,
            record,
            count: 0,
            began: Instant::now(),
            own: None,
            turn: None,
        }
    }

    /// The number of attempts so far.
    pub fn count(&self) -> usize {
        self.count
    }

    fn is_queued(&self) -> bool {
        self.count >= self.queue.free()
    }

    /// Begins an attempt; returns how long it may wait for locks.
    pub async fn begin(&mut self) -> Patience {
        self.began = Instant::now();
        if !self.is_queued() {
            return if self.count == 0 {
                Patience::Brief
            } else {
                Patience::Long
            };
        }
        if let (None, Some(record)) = (&self.own, self.record) {
            self.own = Some(first((self.of, record)).await);
            self.began = Instant::now();
        }
        // Batches are long, and wait among themselves.
        self.turn = Some(first((self.of, self.queue == Queue::Late)).await);
        Patience::Brief
    }

    /// It is over.
    pub fn end(&mut self) {
        self.turn = None;
    }

    /// The attempt had a conflict: waits before the next one.
    pub async fn pause(&mut self) {
        let exponent = self.count.min(BESIDE);
        // A new random state for each call.
        let random = RandomState::new().hash_one(self.count);
        let pause = if self.is_queued() {
            // The wait for the lock counts: longer waits make longer pauses.
            let rest = (self.began.elapsed() * REST)
                .max(Duration::from_millis(4 << exponent))
                .min(LONGEST);
            rest * (768 + u32::try_from(random % 256).unwrap_or_default()) / 1024
        } else {
            Duration::from_micros(random % (1000 << exponent))
        };
        self.count += 1;
        tokio::time::sleep(pause).await;
    }
}

/// The queue of a statement. A statement that writes unique values of existing records may deadlock
/// with another one. Two statements that select some unlocked records would leave fewer records to
/// each other.
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

/// The one record that it writes, if it says so by a key.
pub fn record(statement: &Statement, args: &[Value]) -> Option<Key> {
    let mut hasher = KEYS.build_hasher();
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

/// The only value that a filter compares a field with.
fn pinned(filter: &Filter, field: usize) -> Option<&Source> {
    match filter {
        Filter::All(parts) => parts.iter().find_map(|part| pinned(part, field)),
        Filter::Cond {
            field: of,
            op: Op::Eq,
            value: Operand::One(source),
        } if *of == field => Some(source),
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
    async fn a_queue_is_there_as_long_as_somebody_is_in_it() {
        let of = ("queues", "tests", 1);
        assert!(is_free(of));
        let place = first(of).await;
        assert!(!is_free(of) && is_free(("queues", "tests", 2)));
        let mut next = Box::pin(first(of));
        assert!(waits(next.as_mut()));
        let mut leaves = Box::pin(first(of));
        assert!(waits(leaves.as_mut()));
        drop(leaves);
        drop(place);
        let next = next.await;
        assert!(!is_free(of));
        drop(next);
        assert!(is_free(of));
    }

    #[tokio::test]
    async fn one_of_a_record_waits_among_those_of_its_entity() {
        let attempts = |record| Attempts {
            count: 1,
            ..Attempts::new(Queue::Soon, (1, "tests"), Some(record))
        };
        let (mut met, mut same, mut other) = (attempts(1), attempts(1), attempts(2));
        met.begin().await;
        assert!(met.own.is_some() && met.turn.is_some());
        // While it pauses, the entity is free for others, and the record is not.
        met.end();
        assert_eq!(other.begin().await, Patience::Brief);
        assert!(waits(std::pin::pin!(same.begin())));
        drop(met);
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
            assert!(before.elapsed() <= LONGEST);
        }
        assert!(
            began.elapsed() > Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
    }
}
