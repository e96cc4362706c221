//! Counters and durations of messages, for the recorder of the crate `metrics`. Labels never name a
//! user, a browser or a message.

use std::time::Duration;

use linchpin::FieldEnum;
use metrics::{counter, histogram};

use crate::sender::{Attempt, Outcome};

/// Counts an attempt whose result was written.
pub(crate) fn attempted(attempt: Attempt) {
    let (result, reason) = match attempt.outcome {
        Outcome::Sent => ("sent", ""),
        Outcome::Dead(reason) => ("dead", reason.as_str()),
        Outcome::Again(_) => ("again", ""),
        Outcome::Held(_) => ("held", ""),
        Outcome::Postponed(_) => ("postponed", ""),
    };
    counter!("linchpin_push_attempts_total", "result" => result, "reason" => reason).increment(1);
}

/// Records the duration of a request to a push service, with or without a response.
pub(crate) fn requested(took: Duration) {
    histogram!("linchpin_push_request_seconds").record(took);
}
