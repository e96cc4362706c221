//! Rate limits: counters of frames and calls over time.

use std::net::IpAddr;
use std::time::Duration;

use linchpin::http::{Caller, RateKey, RateLimit, RateReply, RateStore, RateVerdict, one_client};
use linchpin::{Actor, Code, Error, Result, Timestamp};
use tokio::time::Instant;

/// A token bucket: `burst` frames at once, and `per_second` on average.
#[derive(Debug)]
pub struct TokenBucket {
    /// The number of tokens at `at`.
    tokens: f64,
    at: Instant,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub fn new(burst: u32, now: Instant) -> Self {
        Self {
            tokens: f64::from(burst),
            at: now,
        }
    }

    /// Whether the bucket is full again, because no token was taken for long enough.
    pub fn is_full(&mut self, per_second: f64, burst: u32, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + since * per_second).min(f64::from(burst));
        self.at = now;
        self.tokens >= f64::from(burst)
    }

    /// Takes a token. Returns `false` if there is none.
    pub fn take(&mut self, per_second: f64, burst: u32, now: Instant) -> bool {
        self.is_full(per_second, burst, now);
        let has = self.tokens >= 1.0;
        if has {
            self.tokens -= 1.0;
        }
        has
    }
}

/// Counts faults. The connection ends after `most` faults within `span`.
///
/// It counts in slots of a tenth of the span, so that a connection needs only a few bytes for any
/// limit. A fault counts for nine to ten tenths of the span.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    slots: [u16; SLOTS],
    /// The slot of the latest fault, counted from `start`.
    latest: u64,
    start: Option<Instant>,
}

const SLOTS: usize = 10;

impl Faults {
    /// Counts a fault. Returns whether it is the `most`-th within `span`.
    pub(crate) fn add(&mut self, most: u32, span: Duration, now: Instant) -> bool {
        let start = *self.start.get_or_insert(now);
        let width = span / SLOTS as u32;
        let slot = now.saturating_duration_since(start).as_nanos() / width.as_nanos().max(1);
        let slot = u64::try_from(slot).unwrap_or(u64::MAX);
        for passed in (self.latest + 1..=slot).take(SLOTS) {
            self.slots[(passed % SLOTS as u64) as usize] = 0;
        }
        if slot >= self.latest + SLOTS as u64 {
            self.slots = [0; SLOTS];
        }
        self.latest = slot;
        let at = &mut self.slots[(slot % SLOTS as u64) as usize];
        *at = at.saturating_add(1);
        self.slots.iter().map(|n| u32::from(*n)).sum::<u32>() >= most
    }
}

/// Counts a call under a rate limit of the app, and refuses the call if the limit is reached.
///
/// # Errors
/// `rate_limited` with `error_text` and the seconds to wait; `unavailable` if the store of the
/// counters cannot be reached and the limit does not fail open.
pub(crate) async fn take_call(
    rates: &dyn RateStore,
    key: RateKey<'_>,
    limit: RateLimit,
    now: Timestamp,
    error_text: &'static str,
) -> Result<()> {
    let counted = match rates.count(&key, limit, now) {
        RateReply::Ready(verdict) => verdict,
        RateReply::Later(verdict) => verdict.await,
    };
    match counted {
        Ok(RateVerdict::Admitted) => Ok(()),
        Ok(RateVerdict::Refused(wait)) => {
            let seconds = u32::try_from(wait.div_ceil(1000)).unwrap_or(u32::MAX);
            Err(Error::new(Code::RateLimited, error_text).retry_after(seconds.max(1)))
        }
        Err(error) if limit.fail_open => {
            tracing::warn!(%error, "the rate limit store cannot be reached; the call is allowed");
            Ok(())
        }
        Err(error) => Err(Error::unavailable(error)),
    }
}

/// Returns the key under which calls are counted: the actor's id, or the address if the actor has
/// no id or the limit is per address.
pub(crate) fn key_of<'a>(
    route: &'a str,
    actor: Option<&'a Actor>,
    address: Option<IpAddr>,
    limit: RateLimit,
) -> RateKey<'a> {
    let id = actor.and_then(|actor| actor.id.as_deref());
    RateKey {
        route,
        tenant: actor.and_then(|actor| actor.tenant_id.as_deref()),
        caller: match (id.filter(|_| !limit.by_address), address) {
            (Some(id), _) => Caller::Actor(id),
            (None, Some(address)) => Caller::Address(one_client(address)),
            (None, None) => Caller::Unknown,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_bucket_refills_up_to_its_burst() {
        let mut bucket = TokenBucket::new(400, Instant::now());
        let mut taken = |wait: u64, n: usize| {
            let now = Instant::now() + Duration::from_millis(wait);
            (0..n).filter(|_| bucket.take(20.0, 400, now)).count()
        };
        assert_eq!(taken(0, 500), 400);
        assert_eq!(taken(49, 1), 0);
        assert_eq!(taken(50, 2), 1);
        assert_eq!(taken(1_050, 100), 20);
        assert_eq!(taken(3_600_000, 500), 400);
    }

    #[tokio::test(start_paused = true)]
    async fn faults_are_counted_within_their_span() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let minute = Duration::from_mins(1);
        let mut faults = Faults::default();
        assert!((0..9).all(|i| !faults.add(10, minute, at(i))));
        assert!(faults.add(10, minute, at(59)));
        let mut faults = Faults::default();
        // One fault every 7 s: never ten within a minute.
        assert!((0..100).all(|i| !faults.add(10, minute, at(i * 7))));
        let mut faults = Faults::default();
        assert!((0..9).all(|_| !faults.add(10, minute, at(0))));
        assert!(!faults.add(10, minute, at(66)));
        assert!((0..8).all(|_| !faults.add(10, minute, at(67))));
        assert!(faults.add(10, minute, at(68)));
        assert!(!faults.add(10, minute, at(1_000_000)));
    }
}
