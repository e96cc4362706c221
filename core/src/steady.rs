//! A clock that never goes back.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64};

/// The clocks of the standard library. On `wasm32-unknown-unknown`, where these panic, the clocks
/// of JavaScript.
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub(crate) use std::time;
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub(crate) use web_time as time;

use time::Instant;

/// A clock that goes back by at most this number of milliseconds does not count as set back: of two
/// threads, the one that reads the clock first may call [`Steady::at`] last.
const TOLERANCE_MILLIS: i64 = 16;

/// A monotonic view of a clock that may be set back. While the clock goes forward, its time is
/// returned, at the cost of one comparison.
///
/// After the clock was set back, the time continues from the latest returned time at half speed,
/// until the clock reaches it. So both agree again after twice the time by which the clock was set
/// back. No thread waits for another.
#[derive(Debug)]
pub struct Steady {
    /// The latest returned time, in milliseconds.
    latest: AtomicI64,
    /// Whether the latest returned time is ahead of the clock.
    ahead: AtomicBool,
    /// The time up to which elapsed time is counted while `ahead` is true, in milliseconds since
    /// `base`.
    counted: AtomicI64,
    /// A point in time of the monotonic system clock.
    base: OnceLock<Instant>,
}

impl Steady {
    #[doc(hidden)]
    pub const fn new() -> Self {
        Self {
            latest: AtomicI64::new(i64::MIN),
            ahead: AtomicBool::new(false),
            counted: AtomicI64::new(0),
            base: OnceLock::new(),
        }
    }

    /// Returns the current time if the clock shows `clock_millis`. If an earlier call returned a
    /// later time, the time continues from that one. `instant` reads the monotonic system clock.
    #[doc(hidden)]
    pub fn at(&self, clock_millis: i64, instant: impl FnOnce() -> Instant) -> i64 {
        let latest = self.latest.load(Relaxed);
        if clock_millis == latest {
            return clock_millis;
        }
        if clock_millis > latest {
            if self.ahead.load(Relaxed) {
                self.ahead.store(false, Relaxed);
            }
            return self
                .latest
                .fetch_max(clock_millis, Relaxed)
                .max(clock_millis);
        }
        if latest.saturating_sub(clock_millis) <= TOLERANCE_MILLIS {
            return latest;
        }
        let now = instant();
        let since = now.saturating_duration_since(*self.base.get_or_init(|| now));
        let now = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        if !self.ahead.load(Acquire) {
            self.counted.store(now, Relaxed);
            self.ahead.store(true, Release);
            return latest;
        }
        let counted = self.counted.load(Relaxed);
        let half = now.saturating_sub(counted) / 2;
        // Only one of the threads that read the same time counts it.
        if half > 0
            && self
                .counted
                .compare_exchange(counted, counted + 2 * half, Relaxed, Relaxed)
                .is_ok()
        {
            return self.latest.fetch_add(half, Relaxed) + half;
        }
        self.latest.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_advances_after_the_clock_was_set_back() {
        let (steady, begun) = (Steady::new(), Instant::now());
        let at = |clock_millis: i64, passed: u64| {
            steady.at(clock_millis, || begun + Duration::from_millis(passed))
        };
        assert_eq!(
            (at(1_000_000, 0), at(1_000_000, 0), at(1_000_005, 5)),
            (1_000_000, 1_000_000, 1_000_005)
        );
        // Ten minutes back: the first read detects it, and then the time passes at half speed.
        assert_eq!(
            (at(400_005, 5), at(400_011, 11), at(401_005, 1005)),
            (1_000_005, 1_000_008, 1_000_505)
        );
        // Further back, and forward again but not past the latest returned time.
        assert_eq!((at(0, 2005), at(900_000, 3005)), (1_001_005, 1_001_505));
        // If the clock is ahead again, its time is used, even after a pause that the monotonic
        // clock does not count.
        assert_eq!(
            (
                at(2_000_000, 3005),
                at(1_999_000, 3105),
                at(1_999_100, 3205)
            ),
            (2_000_000, 2_000_000, 2_000_050)
        );
    }

    #[test]
    fn the_steady_clock_catches_up_after_the_clock_was_set_back() {
        let (steady, begun) = (Steady::new(), Instant::now());
        let at = |clock_millis: i64, passed: u64| {
            steady.at(clock_millis, || begun + Duration::from_millis(passed))
        };
        const HOUR: i64 = 3_600_000;
        assert_eq!(at(100 * HOUR, 0), 100 * HOUR);
        // Set back by an hour at 0, and read every ten seconds.
        let mut before = 100 * HOUR;
        let clock_millis = |passed: u64| 99 * HOUR + passed.cast_signed();
        for passed in (0..3 * 3_600_000).step_by(10_000) {
            let now = at(clock_millis(passed), passed);
            assert!(
                now >= before && now - before <= 10_000,
                "{before}, then {now}"
            );
            before = now;
            if passed > 2 * 3_600_000 {
                assert_eq!(now, clock_millis(passed), "it agrees after two hours");
            }
        }
    }

    #[test]
    fn the_steady_clock_never_decreases_for_concurrent_readers() {
        let steady = Steady::new();
        std::thread::scope(|scope| {
            for turn in 0..4_i64 {
                let steady = &steady;
                scope.spawn(move || {
                    let mut before = i64::MIN;
                    for n in 0..2000_i64 {
                        // A clock that jumps back and forth.
                        let now = steady.at((n * 7919 + turn) % 1000, Instant::now);
                        assert!(now >= before, "{now} after {before}");
                        before = now;
                    }
                });
            }
        });
    }
}
