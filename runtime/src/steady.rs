//! A clock that never goes back.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

/// Makes a clock that may be set back one that is not. While it goes forward it is passed on, at the cost of one comparison.
#[derive(Debug)]
pub(crate) struct Steady {
    /// The latest instant that was given, in milliseconds.
    latest: AtomicI64,
    /// An instant that was given, and when, by a clock that nobody sets.
    anchor: Mutex<Option<(Instant, i64)>>,
}

impl Steady {
    pub(crate) const fn new() -> Self {
        Self { latest: AtomicI64::new(i64::MIN), anchor: Mutex::new(None) }
    }

    /// The present, of a clock that shows `shown`. If that is before an instant that was given, time goes on from there.
    pub(crate) fn at(&self, shown: i64, instant: impl FnOnce() -> Instant) -> i64 {
        let latest = self.latest.load(Ordering::Relaxed);
        if shown == latest {
            return shown;
        }
        if shown > latest {
            return self.latest.fetch_max(shown, Ordering::Relaxed).max(shown);
        }
        let mut anchor = self.anchor.lock();
        let now = instant();
        let latest = self.latest.load(Ordering::Relaxed);
        let since = |at: Instant| i64::try_from(now.saturating_duration_since(at).as_millis()).unwrap_or(i64::MAX);
        let passed = anchor.and_then(|(at, given)| given.checked_add(since(at))).filter(|passed| *passed >= latest);
        let present = passed.unwrap_or_else(|| {
            *anchor = Some((now, latest));
            latest
        });
        self.latest.fetch_max(present, Ordering::Relaxed).max(present)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_goes_on_after_the_clock_was_set_back() {
        let (steady, begun) = (Steady::new(), Instant::now());
        let at = |shown: i64, passed: u64| steady.at(shown, || begun + Duration::from_millis(passed));
        assert_eq!((at(1_000_000, 0), at(1_000_000, 0), at(1_000_005, 5)), (1_000_000, 1_000_000, 1_000_005));
        // Ten minutes back: the first look finds it, and from there time passes as it does.
        assert_eq!((at(400_005, 5), at(400_010, 10), at(401_005, 1005)), (1_000_005, 1_000_010, 1_001_005));
        // Further back, and forward again but not past what was given.
        assert_eq!((at(0, 2005), at(900_000, 3005)), (1_002_005, 1_003_005));
        // A clock that has passed it is followed, also after a pause that the other one does not count.
        assert_eq!((at(2_000_000, 3005), at(1_999_000, 3105), at(1_999_100, 3205)), (2_000_000, 2_000_000, 2_000_100));
    }

    #[test]
    fn many_at_once_never_see_it_go_back() {
        let steady = Steady::new();
        std::thread::scope(|scope| {
            for turn in 0..4_i64 {
                let steady = &steady;
                scope.spawn(move || {
                    let mut before = i64::MIN;
                    for n in 0..2000_i64 {
                        // A clock that jumps to and fro.
                        let now = steady.at((n * 7919 + turn) % 1000, Instant::now);
                        assert!(now >= before, "{now} after {before}");
                        before = now;
                    }
                });
            }
        });
    }
}
