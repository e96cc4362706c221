//! Reads that may take long: a few at a time, apart from the threads that serve requests.
//!
//! Who finds all places taken waits for a bounded time in a bounded queue and is told to come back. A caller that goes away
//! takes its statement with it. No caller has all places: somebody who asks for one slow page after the other slows down
//! nobody but those who do the same.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, InterruptHandle};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use super::{BUSY, native, reader};
use crate::store::{Rows, Statement};
use crate::{Error, Result, Value};

/// How long a read waits for a place.
const PATIENCE: Duration = Duration::from_secs(5);

/// The connections of long reads.
pub(super) struct Pool {
    path: PathBuf,
    size: usize,
    places: Arc<Semaphore>,
    /// What each caller may take of the places.
    shares: Arc<Shares>,
    /// How many more may wait.
    queue: AtomicUsize,
    /// Not in use at present.
    idle: Mutex<Vec<Connection>>,
    closed: AtomicBool,
}

impl Pool {
    pub(super) fn new(path: PathBuf, size: usize, queue: usize) -> Self {
        let size = size.max(1);
        Self {
            path,
            size,
            places: Arc::new(Semaphore::new(size)),
            shares: Arc::new(Shares { places: size.saturating_sub(1).max(1), queue: (queue / 4).max(1), callers: Mutex::default() }),
            queue: AtomicUsize::new(queue),
            idle: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Runs a read on a thread of its own.
    pub(super) async fn run(self: Arc<Self>, statement: Arc<Statement>, args: Vec<Value>, rows: Rows) -> Result<Rows> {
        let share = rows.caller.map(|caller| self.shares.of(caller)).transpose()?;
        let place = self.place(share).await?;
        let job = Arc::new(Job::default());
        let _caller = Caller(Arc::clone(&job));
        let pool = Arc::clone(&self);
        let work = move || {
            // Free when the read has ended, not when its caller has gone.
            let _place = place;
            let connection = pool.connection()?;
            let outcome = if job.begin(connection.get_interrupt_handle()) {
                native(&statement).and_then(|native| reader::read(&connection, statement.entity, native, &args, rows))
            } else {
                Err(Error::unavailable("the caller has gone"))
            };
            job.end();
            pool.keep(connection);
            outcome
        };
        tokio::task::spawn_blocking(work).await.map_err(Error::internal)?
    }

    /// A place, and before it one of the caller's own.
    async fn place(&self, share: Option<Share>) -> Result<Place> {
        let own = |share: &Share| Arc::clone(&share.places);
        let at_once = || {
            let of_caller = share.as_ref().map(|share| own(share).try_acquire_owned()).transpose().ok()?;
            Some((of_caller, Arc::clone(&self.places).try_acquire_owned().ok()?))
        };
        if let Some((of_caller, place)) = at_once() {
            return Ok(Place { _of_all: place, _of_caller: of_caller, _share: share });
        }
        let _waiting = Waiting::enter(&self.queue).ok_or_else(|| Error::unavailable("too many long reads wait"))?;
        let in_turn = async {
            let of_caller = match &share {
                Some(share) => Some(own(share).acquire_owned().await?),
                None => None,
            };
            Ok::<_, AcquireError>((of_caller, Arc::clone(&self.places).acquire_owned().await?))
        };
        match tokio::time::timeout(PATIENCE, in_turn).await {
            Ok(Ok((of_caller, place))) => Ok(Place { _of_all: place, _of_caller: of_caller, _share: share }),
            Ok(Err(_)) => Err(super::closed()),
            Err(_) => Err(Error::unavailable("no place for a long read became free in time")),
        }
    }

    fn connection(&self) -> Result<Connection> {
        let idle = self.idle.lock().pop();
        idle.map_or_else(|| reader::connect(&self.path, BUSY).map_err(Error::unavailable), Ok)
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if !self.closed.load(Ordering::Acquire) {
            idle.push(connection);
        }
    }

    /// Waits until accepted reads have ended, for a while, and closes their connections.
    pub(super) async fn close(&self, patience: Duration) {
        // All places at once are free when nobody reads any more; whoever waits already is served before.
        let all = u32::try_from(self.size).unwrap_or(u32::MAX);
        if tokio::time::timeout(patience, self.places.acquire_many(all)).await.is_err() {
            tracing::warn!("long reads were still running when the store was closed");
        }
        self.places.close();
        self.closed.store(true, Ordering::Release);
        self.idle.lock().clear();
    }

    /// Takes every place, so that reads have to wait.
    #[cfg(test)]
    pub(super) async fn occupy(&self) -> Vec<OwnedSemaphorePermit> {
        let mut taken = Vec::new();
        for _ in 0..self.size {
            taken.extend(Arc::clone(&self.places).acquire_owned().await);
        }
        taken
    }

    /// How many callers read or wait.
    #[cfg(test)]
    pub(super) fn callers(&self) -> usize {
        self.shares.callers.lock().len()
    }

    /// How many more reads may wait.
    #[cfg(test)]
    pub(super) fn queue_left(&self) -> usize {
        self.queue.load(Ordering::Acquire)
    }
}

/// Where a read runs; what it holds is free again when it is dropped.
struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_caller: Option<OwnedSemaphorePermit>,
    /// Last, so that the caller is forgotten after everything else.
    _share: Option<Share>,
}

/// The callers that read or wait at present, each with places of its own.
struct Shares {
    /// Of one caller.
    places: usize,
    /// How many reads of one caller may be there, waiting ones included, beyond its places.
    queue: usize,
    callers: Mutex<HashMap<NonZeroU64, (Arc<Semaphore>, usize)>>,
}

impl Shares {
    /// One more read of a caller.
    fn of(self: &Arc<Self>, caller: NonZeroU64) -> Result<Share> {
        let mut callers = self.callers.lock();
        let (places, reads) = callers.entry(caller).or_insert_with(|| (Arc::new(Semaphore::new(self.places)), 0));
        if *reads >= self.places + self.queue {
            return Err(Error::unavailable("too many long reads of one caller"));
        }
        *reads += 1;
        Ok(Share { places: Arc::clone(places), caller, shares: Arc::clone(self) })
    }
}

/// One read of a caller.
struct Share {
    places: Arc<Semaphore>,
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

/// A place in the queue.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(left: &'a AtomicUsize) -> Option<Self> {
        left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).ok().map(|_| Self(left))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// A read on its thread, as its caller sees it.
#[derive(Default)]
struct Job(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    Waiting,
    Reading(InterruptHandle),
    Over,
}

impl Job {
    /// `false` when the caller has gone already.
    fn begin(&self, handle: InterruptHandle) -> bool {
        let mut state = self.0.lock();
        let waiting = matches!(*state, State::Waiting);
        if waiting {
            *state = State::Reading(handle);
        }
        waiting
    }

    fn end(&self) {
        *self.0.lock() = State::Over;
    }
}

/// Interrupts the read when its caller goes away.
struct Caller(Arc<Job>);

impl Drop for Caller {
    fn drop(&mut self) {
        // The lock is held, so the connection cannot have gone on to somebody else's statement.
        let mut state = self.0.0.lock();
        if let State::Reading(handle) = &*state {
            handle.interrupt();
        }
        *state = State::Over;
    }
}
