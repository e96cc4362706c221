//! Counts and times of the delivery of events, for the recorder of the crate `metrics`. Without a
//! recorder they have almost no overhead.

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::Timestamp;

/// The metrics of a consumer.
pub(super) struct Meter {
    /// Events that the consumer took.
    delivered: Counter,
    /// Attempts that failed.
    failures: Counter,
    /// Events that were parked after the last attempt.
    parked: Counter,
    /// Events that were lost before they were delivered.
    lost: Counter,
    /// The time from the event to its delivery.
    delay: Histogram,
    /// The age of the oldest event that waits.
    oldest: Gauge,
}

impl Meter {
    pub(super) fn new(consumer: &str) -> Self {
        let of = |name: &'static str| counter!(name, "consumer" => consumer.to_owned());
        Self {
            delivered: of("linchpin_events_delivered_total"),
            failures: of("linchpin_events_failures_total"),
            parked: of("linchpin_events_parked_total"),
            lost: of("linchpin_events_lost_total"),
            delay: histogram!(
                "linchpin_events_delay_seconds",
                "consumer" => consumer.to_owned()
            ),
            oldest: gauge!(
                "linchpin_events_oldest_seconds",
                "consumer" => consumer.to_owned()
            ),
        }
    }

    pub(super) fn delivered(&self, at: impl ExactSizeIterator<Item = Timestamp>, now: Timestamp) {
        self.delivered.increment(at.len() as u64);
        for at in at {
            self.delay.record(seconds(at, now));
        }
    }

    pub(super) fn failed(&self) {
        self.failures.increment(1);
    }

    pub(super) fn parked(&self) {
        self.parked.increment(1);
    }

    pub(super) fn lost(&self, count: u64) {
        self.lost.increment(count);
    }

    /// Sets the time of the oldest waiting event; `None` if no event waits.
    pub(super) fn oldest(&self, at: Option<Timestamp>, now: Timestamp) {
        self.oldest.set(at.map_or(0.0, |at| seconds(at, now)));
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    let millis = to.millis().saturating_sub(from.millis()).max(0);
    // Exact for times below 285,000 years.
    #[expect(clippy::cast_precision_loss)]
    let millis = millis as f64;
    millis / 1_000.0
}
