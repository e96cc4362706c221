//! Slots for long reads: each slot runs one read at a time.
//!
//! If all slots are taken, a read waits in a bounded queue for at most 5 seconds, and is then
//! refused with `unavailable`. With two or more slots, one caller can take all but one of them, so
//! a caller of many long reads does not block other callers.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use linchpin_core::{Error, Result};

/// The time limit for a read that waits for a slot.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(5);

/// The slots of a store.
pub struct ReadSlots {
    size: usize,
    all: Arc<Semaphore>,
    /// The slots and queue of each caller.
    shares: Arc<Shares>,
    /// The number of further reads that may wait.
    queue: AtomicUsize,
}

impl ReadSlots {
    /// Creates slots, and a queue with a maximum length.
    pub fn new(size: usize, queue: usize) -> Self {
        let size = size.max(1);
        let shares = Shares {
            slots: size.saturating_sub(1).max(1),
            queue: (queue / 4).max(1),
            callers: Mutex::default(),
        };
        Self {
            size,
            all: Arc::new(Semaphore::new(size)),
            shares: Arc::new(shares),
            queue: AtomicUsize::new(queue),
        }
    }

    /// Takes a slot from the caller's share, then a slot of the store.
    ///
    /// # Errors
    /// `unavailable` if the queue is full, no slot becomes free within 5 seconds, or the store is
    /// closed.
    pub async fn take(&self, caller: Option<NonZeroU64>) -> Result<ReadSlot> {
        let share = caller
            .map(|caller| self.shares.add_read(caller))
            .transpose()?;
        let own = |share: &Share| Arc::clone(&share.slots);
        let at_once = || {
            let of_caller = share
                .as_ref()
                .map(|share| own(share).try_acquire_owned())
                .transpose()
                .ok()?;
            Some((of_caller, Arc::clone(&self.all).try_acquire_owned().ok()?))
        };
        if let Some((of_caller, slot)) = at_once() {
            return Ok(ReadSlot {
                _of_all: slot,
                _of_caller: of_caller,
                _share: share,
            });
        }
        let _waiting = Waiting::enter(&self.queue)
            .ok_or_else(|| Error::unavailable("too many long reads are waiting"))?;
        let in_turn = async {
            let of_caller = match &share {
                Some(share) => Some(own(share).acquire_owned().await?),
                None => None,
            };
            Ok::<_, AcquireError>((of_caller, Arc::clone(&self.all).acquire_owned().await?))
        };
        match tokio::time::timeout(QUEUE_TIMEOUT, in_turn).await {
            Ok(Ok((of_caller, slot))) => Ok(ReadSlot {
                _of_all: slot,
                _of_caller: of_caller,
                _share: share,
            }),
            Ok(Err(_)) => Err(Error::unavailable("the store is closed")),
            Err(_) => Err(Error::unavailable(
                "no slot for a long read became free in time",
            )),
        }
    }

    /// Waits for accepted reads to end, up to a time limit; after that no slot is available.
    pub async fn close(&self, time_limit: Duration) {
        // All slots are free only if no read runs. The semaphore is fair: reads that already wait
        // get their slots first.
        let all = u32::try_from(self.size).unwrap_or(u32::MAX);
        if tokio::time::timeout(time_limit, self.all.acquire_many(all))
            .await
            .is_err()
        {
            tracing::warn!("long reads were still running when the store was closed");
        }
        self.all.close();
    }

    /// Takes every slot, so that reads have to wait.
    #[doc(hidden)]
    pub async fn occupy(&self) -> Vec<OwnedSemaphorePermit> {
        let mut taken = Vec::new();
        for _ in 0..self.size {
            taken.extend(Arc::clone(&self.all).acquire_owned().await);
        }
        taken
    }

    /// The number of callers that read or wait.
    #[doc(hidden)]
    pub fn callers(&self) -> usize {
        self.shares.callers.lock().len()
    }

    /// The number of further reads that may wait.
    #[doc(hidden)]
    pub fn queue_left(&self) -> usize {
        self.queue.load(Ordering::Acquire)
    }
}

/// A slot for a read; it is released on drop.
pub struct ReadSlot {
    _of_all: OwnedSemaphorePermit,
    _of_caller: Option<OwnedSemaphorePermit>,
    /// The last field, so that the caller's entry is removed after everything else.
    _share: Option<Share>,
}

/// The callers that read or wait at present, each with its own slots.
struct Shares {
    /// The number of slots per caller.
    slots: usize,
    /// The number of waiting reads per caller, in addition to its slots.
    queue: usize,
    /// The slots of each caller, and the number of its reads that run or wait.
    callers: Mutex<HashMap<NonZeroU64, (Arc<Semaphore>, usize)>>,
}

impl Shares {
    /// Adds a read of a caller.
    fn add_read(self: &Arc<Self>, caller: NonZeroU64) -> Result<Share> {
        let mut callers = self.callers.lock();
        let (slots, reads) = callers
            .entry(caller)
            .or_insert_with(|| (Arc::new(Semaphore::new(self.slots)), 0));
        if *reads >= self.slots + self.queue {
            return Err(Error::unavailable("too many long reads of one caller"));
        }
        *reads += 1;
        Ok(Share {
            slots: Arc::clone(slots),
            caller,
            shares: Arc::clone(self),
        })
    }
}

/// A read of a caller.
struct Share {
    slots: Arc<Semaphore>,
    caller: NonZeroU64,
    shares: Arc<Shares>,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut callers = self.shares.callers.lock();
        if let Some((_, reads)) = callers.get_mut(&self.caller) {
            *reads -= 1;
            if *reads == 0 {
                callers.remove(&self.caller);
            }
        }
    }
}

/// An entry in the queue.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(left: &'a AtomicUsize) -> Option<Self> {
        left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
            left.checked_sub(1)
        })
        .ok()
        .map(|_| Self(left))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}
