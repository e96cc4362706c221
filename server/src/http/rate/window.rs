//! Sliding windows in memory.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};

use parking_lot::Mutex;

use super::{RateKey, RateReply, RateStore, RateVerdict};
use crate::Timestamp;
use crate::http::RateLimit;

/// The maximum number of stored callers in all shards. A caller needs about 100 bytes, and 24 to 48
/// bytes for each of its stored moments. A caller has at most about [`MAX_MOMENTS`] moments.
const MAX_CALLERS: usize = 1 << 16;
/// The number of shards, each with its own lock, so that threads seldom wait for each other.
const SHARDS: usize = 16;
/// The maximum number of moments stored per caller. If the limit is at most this number of calls,
/// the window is exact. If it is higher, all calls within 1/256 of the window count as one moment,
/// at the time of the last call: a caller may wait longer by that time, but never exceeds the
/// limit.
const MAX_MOMENTS: u64 = 256;
/// The number of callers that are compared when one must be removed.
const SAMPLE: usize = 32;
/// The interval at which a full shard is searched for expired windows, in milliseconds.
const SEARCH_INTERVAL: i64 = 1000;

/// Counts calls in this process. Other processes count their own.
///
/// The number of stored callers is limited: if there are too many, callers with few calls are
/// removed.
pub struct RatesInProcess {
    /// Two keys of 64 bits. Names are stored as hashes, so that long names need no more memory.
    hashers: [RandomState; 2],
    shards: Box<[Mutex<Shard>]>,
    callers_per_shard: usize,
}

#[derive(Default)]
struct Shard {
    windows: HashMap<(u64, u64), Window>,
    /// The time of the last search for expired windows.
    searched: i64,
}

/// The calls of one caller.
#[derive(Debug, Default)]
struct Window {
    moments: VecDeque<Moment>,
    calls: u32,
    /// The length of the window, in milliseconds.
    length: i64,
}

/// Calls that count as one, at the time of the last of them.
#[derive(Debug)]
struct Moment {
    first: i64,
    last: i64,
    calls: u32,
}

impl Default for RatesInProcess {
    fn default() -> Self {
        Self::bounded(MAX_CALLERS)
    }
}

impl fmt::Debug for RatesInProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RatesInProcess")
            .field("callers", &self.callers())
            .finish_non_exhaustive()
    }
}

impl RatesInProcess {
    /// Stores about this number of callers.
    pub fn bounded(callers: usize) -> Self {
        Self {
            hashers: [RandomState::new(), RandomState::new()],
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            callers_per_shard: (callers / SHARDS).max(1),
        }
    }

    fn callers(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.lock().windows.len())
            .sum()
    }

    fn verdict(&self, key: &impl Hash, limit: RateLimit, now: i64) -> RateVerdict {
        let hash = (self.hashers[0].hash_one(key), self.hashers[1].hash_one(key));
        // The remainder is below the number of shards.
        let shard = usize::try_from(hash.0 % SHARDS as u64).unwrap_or_default();
        let mut shard = self.shards[shard].lock();
        if shard.windows.len() >= self.callers_per_shard && !shard.windows.contains_key(&hash) {
            shard.make_room(self.callers_per_shard, now);
        }
        shard.windows.entry(hash).or_default().count(limit, now)
    }
}

impl RateStore for RatesInProcess {
    fn count(&self, key: &RateKey<'_>, limit: RateLimit, now: Timestamp) -> RateReply {
        RateReply::Ready(Ok(self.verdict(key, limit, now.millis())))
    }
}

impl Shard {
    fn make_room(&mut self, max_callers: usize, now: i64) {
        if now.saturating_sub(self.searched).saturating_abs() >= SEARCH_INTERVAL {
            self.searched = now;
            self.windows.retain(|_, window| window.calls_at(now) > 0);
        }
        while self.windows.len() >= max_callers {
            // The caller with the fewest calls is removed, because its count matters least. So a
            // flood of new callers removes its own entries.
            let victim = self
                .windows
                .iter()
                .take(SAMPLE)
                .min_by_key(|(_, w)| (w.calls, w.moments.back().map(|m| m.last)));
            let Some(victim) = victim.map(|(hash, _)| *hash) else {
                return;
            };
            self.windows.remove(&victim);
        }
    }
}

impl Window {
    fn count(&mut self, limit: RateLimit, now: i64) -> RateVerdict {
        self.length = i64::try_from(limit.window).unwrap_or(i64::MAX);
        // Removes moments in the future: after the clock was set back, callers would wait for them.
        while self.moments.back().is_some_and(|m| m.first > now) {
            self.calls -= self.moments.pop_back().map_or(0, |m| m.calls);
        }
        self.forget(now);
        if self.calls >= limit.max {
            let wait = self.moments.front().map_or(0, |oldest| {
                oldest.last.saturating_add(self.length).saturating_sub(now)
            });
            return RateVerdict::Refused(u64::try_from(wait).unwrap_or(0));
        }
        self.calls += 1;
        let step = if u64::from(limit.max) > MAX_MOMENTS {
            self.length / 256
        } else {
            -1
        };
        match self.moments.back_mut() {
            Some(last) if now.saturating_sub(last.first) <= step => {
                (last.last, last.calls) = (now, last.calls + 1);
            }
            _ => self.moments.push_back(Moment {
                first: now,
                last: now,
                calls: 1,
            }),
        }
        RateVerdict::Admitted
    }

    fn forget(&mut self, now: i64) {
        while self.moments.front().is_some_and(|m| self.is_over(m, now)) {
            self.calls -= self.moments.pop_front().map_or(0, |m| m.calls);
        }
    }

    fn is_over(&self, moment: &Moment, now: i64) -> bool {
        moment.last.saturating_add(self.length) <= now
    }

    fn calls_at(&mut self, now: i64) -> u32 {
        self.forget(now);
        self.calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: RateLimit = RateLimit::new(3, 1000);

    #[test]
    fn the_rate_window_slides() {
        let rates = RatesInProcess::default();
        let at = |now| rates.verdict(&"a", THREE, now);
        assert_eq!([at(0), at(900), at(950)], [RateVerdict::Admitted; 3]);
        assert_eq!(
            at(990),
            RateVerdict::Refused(10),
            "the caller waits until the first call is one second old"
        );
        assert_eq!(
            at(999),
            RateVerdict::Refused(1),
            "refused calls do not count"
        );
        assert_eq!(at(1000), RateVerdict::Admitted);
        // A counter per calendar second would start again here and admit three calls.
        assert_eq!(at(1001), RateVerdict::Refused(899));
        assert_eq!(
            rates.verdict(&"b", THREE, 1001),
            RateVerdict::Admitted,
            "other callers are counted separately"
        );
        assert_eq!(at(-50_000), RateVerdict::Admitted, "the clock was set back");
    }

    #[test]
    fn no_window_ever_holds_more_than_the_limit() {
        let limit = RateLimit::new(1000, 10_000);
        let rates = RatesInProcess::default();
        let mut admitted: VecDeque<i64> = VecDeque::new();
        let (mut seed, mut now, mut total) = (7_u64, 0_i64, 0);
        while now < 60_000 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            now += i64::try_from(seed >> 62).unwrap();
            if rates.verdict(&0, limit, now) == RateVerdict::Admitted {
                admitted.push_back(now);
                total += 1;
            }
            while admitted.front().is_some_and(|first| first + 10_000 <= now) {
                admitted.pop_front();
            }
            assert!(admitted.len() <= 1000, "{} at {now}", admitted.len());
        }
        assert!(total > 5800, "only {total} of 6000 were admitted");
        let moments = rates
            .shards
            .iter()
            .flat_map(|s| {
                s.lock()
                    .windows
                    .values()
                    .map(|w| w.moments.len())
                    .collect::<Vec<_>>()
            })
            .max();
        assert!(moments.unwrap() <= 300, "{moments:?} moments");
    }

    #[test]
    fn many_callers_need_limited_memory_and_reset_no_counter() {
        let rates = RatesInProcess::bounded(1600);
        for _ in 0..3 {
            assert_eq!(rates.verdict(&"loud", THREE, 0), RateVerdict::Admitted);
        }
        for name in 0..100_000 {
            rates.verdict(&name, THREE, 1);
        }
        assert!(rates.callers() <= 1600, "{}", rates.callers());
        assert!(matches!(
            rates.verdict(&"loud", THREE, 2),
            RateVerdict::Refused(_)
        ));
        // Callers whose windows have expired are removed.
        rates.verdict(&"new", THREE, 5000);
        for name in 0..100_000 {
            rates.verdict(&name, THREE, 5000);
        }
        assert!(rates.callers() <= 1600);
    }
}
