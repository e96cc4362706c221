//! Queues of this process for statements that would get into each other's way.
//!
//! Two statements that each write several things that the other wants wait for each other until
//! somebody ends one of them: two records that exchange their values of a unique, say. Of those on
//! one entity that have met others only one runs at a time.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Mutex as Queued, OwnedMutexGuard};

use linchpin_core::Value;
use linchpin_core::filter::{Filter, Op, Operand, Source};
use linchpin_core::store::{Patience, Plan, Statement};

/// The longest pause of one that runs beside others, as a power of two of milliseconds.
const BESIDE: usize = 6;
/// The longest pause of one that keeps others waiting while it runs.
const LONGEST: Duration = Duration::from_secs(1);
/// It pauses for so many times as long as it took, so that others have the queue for most of the
/// time.
const REST: u32 = 4;

/// When a statement waits in the queue of its entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Never: it writes one record, and whoever has that goes on.
    Never,
    /// When it has been held up too often.
    Late,
    /// When it has been held up.
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
/// Each queue that somebody is in.
static ALL: LazyLock<Mutex<HashMap<Key, Arc<Queued<()>>>>> = LazyLock::new(Mutex::default);

/// Somebody's interest in a queue, which is there as long as somebody has one.
struct Interest {
    key: Key,
    /// `None` once it is dropped.
    queue: Option<Arc<Queued<()>>>,
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut all = ALL.lock();
        // While nobody else comes or goes: of two that leave together the later one finds itself
        // alone.
        self.queue = None;
        if all
            .get(&self.key)
            .is_some_and(|queue| Arc::strong_count(queue) == 1)
        {
            all.remove(&self.key);
        }
    }
}

/// The first place of a queue. Dropped in this order: nobody holds a queue that is in nobody's
/// interest.
pub struct Place {
    _first: OwnedMutexGuard<()>,
    _interest: Interest,
}

/// Waits to be the first in a queue.
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

/// Whether nobody is in a queue.
pub fn is_free(of: impl Hash) -> bool {
    !ALL.lock().contains_key(&KEYS.hash_one(of))
}

/// The attempts of one write, each of which may be held up by others.
///
/// Where it queues, those of one record have a queue of their own before that: if somebody holds
/// the record, one of them meets him, and not each in its turn.
pub struct Attempts {
    queue: Queue,
    /// Where the entity is, and what it is called.
    of: (usize, &'static str),
    record: Option<Key>,
    count: usize,
    began: Instant,
    /// Among those of its record, until the end.
    own: Option<Place>,
    /// Among those of its entity, for an attempt.
    turn: Option<Place>,
}

impl Attempts {
    /// Of a write to the entity `of`, and to one `record` of it where that is known.
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

    /// How many there have been.
    pub fn count(&self) -> usize {
        self.count
    }

    fn is_queued(&self) -> bool {
        self.count >= self.queue.free()
    }

    /// Begins one; how long it may wait for what others hold.
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

    /// It was held up: waits until the next.
    pub async fn pause(&mut self) {
        let exponent = self.count.min(BESIDE);
        // A state of its own for each call, from the system's randomness.
        let random = RandomState::new().hash_one(self.count);
        let pause = if self.is_queued() {
            // What it waited for the queue counts: the more there are, the less often each comes.
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

/// When it waits in the queue of its entity. One that writes a unique of records that are there may
/// meet another one that has what it wants, and wants what it has. Two that take some records which
/// nobody else is at would leave each other fewer.
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

/// The one value that a filter compares a field with.
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
