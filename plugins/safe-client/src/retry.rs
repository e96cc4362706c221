//! The header `Retry-After`.

use std::time::{Duration, UNIX_EPOCH};

/// Returns the wait of a `Retry-After` value: seconds, or a date, which is compared with `now` in
/// milliseconds since 1970. `None` if the value is neither. The wait has no maximum; callers limit
/// it.
///
/// ```
/// use std::time::Duration;
/// use linchpin_safe_client::retry_after;
///
/// assert_eq!(retry_after("120", 0), Some(Duration::from_secs(120)));
/// assert_eq!(retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 0), Some(Duration::from_secs(60)));
/// assert_eq!(retry_after("soon", 0), None);
/// ```
pub fn retry_after(value: &str, now: i64) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    if !value.is_empty() && value.bytes().all(|digit| digit.is_ascii_digit()) {
        return Some(Duration::MAX);
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let until = until.duration_since(UNIX_EPOCH).ok()?;
    let now = Duration::from_millis(u64::try_from(now).ok()?);
    Some(until.saturating_sub(now))
}
