//! Counters and durations of deliveries, for the recorder of the crate `metrics`. Labels never name
//! an endpoint, a tenant or a message.

use std::time::Duration;

use linchpin::FieldEnum;
use metrics::{counter, histogram};

use crate::delivery::Next;
use crate::entity::{DisabledReason, ErrorKind, Trigger};

/// The reason for the failure of an attempt, if it failed, and its duration.
type Ended = (Option<ErrorKind>, Duration);

/// Counts a finished attempt after its result was written.
pub(crate) fn attempted((failure, took): Ended, trigger: Trigger, next: Next) {
    let result = failure.map_or("success", FieldEnum::as_str);
    counter!(
        "linchpin_webhooks_attempts_total",
        "result" => result,
        "trigger" => trigger.as_str(),
    )
    .increment(1);
    histogram!("linchpin_webhooks_attempt_seconds").record(took);
    counter!(
        "linchpin_webhooks_deliveries_total",
        "status" => next.status.as_str(),
        "reason" => next.reason.map_or("", FieldEnum::as_str),
    )
    .increment(1);
}

/// Counts an attempt that ended after its lease.
pub(crate) fn too_late(trigger: Trigger) {
    counter!(
        "linchpin_webhooks_attempts_total",
        "result" => "lease_lost",
        "trigger" => trigger.as_str(),
    )
    .increment(1);
}

/// Counts a disabled endpoint.
pub(crate) fn disabled(reason: DisabledReason) {
    counter!("linchpin_webhooks_endpoints_disabled_total", "reason" => reason.as_str())
        .increment(1);
}
