//! The right of this process to serve its database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Error;

/// The right to serve, which ends unless it is extended. Reading it costs one atomic load.
#[derive(Clone, Debug)]
pub(crate) struct Lease(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    begin: Instant,
    /// The end of the lease, in seconds after `begin`; from then on this process must not serve.
    end: AtomicU64,
}

impl Lease {
    /// A lease from `begin` on.
    pub(crate) fn new(begin: Instant, length: Duration) -> Self {
        Self(Arc::new(Inner {
            begin,
            end: AtomicU64::new(length.as_secs()),
        }))
    }

    /// Extends the lease: it lasts for `length` from `from` on.
    pub(crate) fn extend(&self, from: Instant, length: Duration) {
        let passed = from.saturating_duration_since(self.0.begin);
        let end = passed.as_secs() + length.as_secs();
        self.0.end.store(end, Ordering::Relaxed);
    }

    /// Ends the lease now.
    pub(crate) fn end(&self) {
        self.0.end.store(0, Ordering::Relaxed);
    }

    /// Whether this process may serve at `now`.
    #[inline]
    pub(crate) fn holds(&self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.0.begin);
        passed.as_secs() < self.0.end.load(Ordering::Relaxed)
    }
}

/// The error of requests after the lease has ended.
#[cold]
pub(crate) fn ended() -> Error {
    Error::unavailable(
        "the lease of this instance has ended: the ledger of migrations cannot be reached, or does \
         not accept this binary any more",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_unless_it_is_extended() {
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        let length = Duration::from_secs(20);
        let lease = Lease::new(begin, length);
        assert!(lease.holds(begin) && lease.holds(after(19)));
        assert!(!lease.holds(after(20)));

        lease.extend(after(10), length);
        assert!(lease.holds(after(29)) && !lease.holds(after(30)));

        // The process was stopped for an hour, and has renewed the lease since.
        lease.extend(after(3600), length);
        assert!(lease.holds(after(3610)));
        lease.end();
        assert!(!lease.holds(after(3610)));
    }
}
