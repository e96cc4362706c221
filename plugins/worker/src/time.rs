//! The times of attempts.

use std::time::Duration;

use linchpin::Timestamp;

/// Returns the time after a duration.
///
/// ```
/// use std::time::Duration;
/// use linchpin::Timestamp;
///
/// let at = linchpin_worker::later(Timestamp::from_millis(5), Duration::from_secs(1));
/// assert_eq!(at, Timestamp::from_millis(1_005));
/// ```
pub fn later(at: Timestamp, by: Duration) -> Timestamp {
    let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(at.millis().saturating_add(by))
}

/// Returns a number from 0 to 1 that depends on the work and on the number of the attempt. A source
/// uses it as jitter of a pause, so that work that failed at the same time is not retried at the
/// same time.
///
/// ```
/// let part = linchpin_worker::spread("a delivery", 1);
/// assert!((0.0..1.0).contains(&part));
/// assert_eq!(part, linchpin_worker::spread("a delivery", 1));
/// ```
pub fn spread(work: &str, attempt: i64) -> f64 {
    let bytes = work.bytes().chain(attempt.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 40) as f64 / (1_u64 << 24) as f64
}
