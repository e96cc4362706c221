//! The effects of an attempt on its delivery and on its endpoint.

use std::time::Duration;

use linchpin::Timestamp;
pub(crate) use linchpin_worker::later;
use linchpin_worker::spread;

use super::attempt::Attempt;
use crate::entity::{
    DeliveryReason, DeliveryStatus, DisabledReason, EndpointStatus, ErrorKind, WebhookDelivery,
    WebhookEndpoint,
};
use crate::plugin::WebhooksConfig;

/// An endpoint is disabled after this number of failures, if it has also failed for
/// `disable_after`.
const MAX_FAILURES: i64 = 10;
/// An endpoint is disabled after this number of consecutive attempts to a forbidden address.
const MAX_BLOCKED: i64 = 3;

/// The next state of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) status: DeliveryStatus,
    pub(crate) reason: Option<DeliveryReason>,
    pub(crate) retry_at: Option<Timestamp>,
}

/// The next state of a delivery after attempt `number`.
pub(crate) fn next(
    config: &WebhooksConfig,
    delivery: &WebhookDelivery,
    attempt: &Attempt,
    number: i64,
    now: Timestamp,
) -> Next {
    let ended = |status, reason| Next {
        status,
        reason,
        retry_at: None,
    };
    if attempt.is_success() {
        return ended(DeliveryStatus::Delivered, None);
    }
    let dead = |reason| ended(DeliveryStatus::Dead, Some(reason));
    if attempt.status == Some(410) {
        return dead(DeliveryReason::Gone);
    }
    if attempt.aborts {
        return dead(DeliveryReason::Aborted);
    }
    if attempt.kind() == Some(ErrorKind::BlockedAddress) {
        return dead(DeliveryReason::BlockedAddress);
    }
    if delivery.is_test || number >= delivery.max_attempts {
        return dead(DeliveryReason::Exhausted);
    }
    let Some(pause) = pause_after(&config.schedule, number, &delivery.id) else {
        return dead(DeliveryReason::Exhausted);
    };
    let pause = pause.max(attempt.hold.unwrap_or_default());
    Next {
        status: DeliveryStatus::Failed,
        reason: None,
        retry_at: Some(later(now, pause)),
    }
}

/// The pause after attempt `number`, lengthened by up to 20 %. The added part depends on the
/// delivery and the number, so that deliveries that failed together are not repeated together.
pub(crate) fn pause_after(schedule: &[Duration], number: i64, delivery: &str) -> Option<Duration> {
    let at = usize::try_from(number - 1).ok()?;
    let pause = *schedule.get(at)?;
    Some(pause.mul_f64(1.0 + 0.2 * spread(delivery, number)))
}

/// Updates the failure counters of an endpoint after an attempt. Returns the reason if the endpoint
/// must be disabled.
///
/// For a replay, `counts` is false. A replay changes no counters, because a manager may repeat one
/// failing delivery many times. The header `retry-after` and the status 410 still have their
/// effects.
pub(crate) fn count_attempt(
    config: &WebhooksConfig,
    endpoint: &mut WebhookEndpoint,
    (attempt, counts): (&Attempt, bool),
    now: Timestamp,
) -> Option<DisabledReason> {
    if let Some(hold) = attempt.hold {
        let until = later(now, hold);
        endpoint.held_until = Some(endpoint.held_until.map_or(until, |known| known.max(until)));
    }
    if !counts {
        let gone = attempt.status == Some(410) && endpoint.status == EndpointStatus::Active;
        return gone.then_some(DisabledReason::Gone);
    }
    if attempt.is_success() {
        endpoint.last_success_at = Some(now);
        endpoint.failing_since = None;
        endpoint.consecutive_failures = 0;
        endpoint.blocked_in_a_row = 0;
        return None;
    }
    endpoint.last_failure_at = Some(now);
    endpoint.consecutive_failures = endpoint.consecutive_failures.saturating_add(1);
    let since = *endpoint.failing_since.get_or_insert(now);
    if attempt.kind() == Some(ErrorKind::BlockedAddress) {
        endpoint.blocked_in_a_row += 1;
    } else {
        endpoint.blocked_in_a_row = 0;
    }
    if endpoint.status != EndpointStatus::Active {
        return None;
    }
    if attempt.status == Some(410) {
        return Some(DisabledReason::Gone);
    }
    if endpoint.blocked_in_a_row >= MAX_BLOCKED {
        return Some(DisabledReason::BlockedAddress);
    }
    let failing = now.millis().saturating_sub(since.millis());
    let failing_long = failing >= millis(config.disable_after);
    (failing_long && endpoint.consecutive_failures >= MAX_FAILURES)
        .then_some(DisabledReason::Failing)
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_follow_the_schedule_and_are_at_most_a_fifth_longer() {
        let schedule = WebhooksConfig::default().schedule;
        let mut parts = Vec::new();
        for delivery in 0..200 {
            for (at, pause) in schedule.iter().enumerate() {
                let number = i64::try_from(at).unwrap() + 1;
                let found = pause_after(&schedule, number, &delivery.to_string()).unwrap();
                assert!(
                    found >= *pause && found <= pause.mul_f64(1.2),
                    "{pause:?} {found:?}"
                );
                parts.push(found.as_secs_f64() / pause.as_secs_f64());
            }
        }
        let mean = parts.iter().sum::<f64>() / parts.len() as f64;
        assert!((1.08..1.12).contains(&mean), "{mean}");
        assert_eq!(pause_after(&schedule, 8, "x"), None);
    }
}
