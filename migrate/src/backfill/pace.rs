//! The speed of a backfill: the sizes of batches, and the pauses between them.

use std::time::Duration;

/// The maximum number of rows of a batch.
pub(super) const MAX_BATCH: u64 = 10_000;
/// The maximum number of rows of a batch with pauses between batches. A running batch delays
/// requests, so many short batches delay fewer requests than a few long ones.
const MAX_BATCH_WITH_PAUSES: u64 = 1_000;

/// The speed of a backfill.
#[derive(Clone, Debug, PartialEq)]
pub struct Pace {
    /// The number of rows of the first batch, 1 to 10,000. Later batches adapt to `target`. They
    /// grow to at most 10,000 rows without pauses; with pauses, to at most 1,000 or this number,
    /// whichever is greater. Default: 1,000.
    pub batch: u64,
    /// The share of time that batches take; the rest is pauses. More than 0 and at most 1. Default:
    /// 0.5.
    pub duty: f64,
    /// The maximum number of rows per second. `None` is no limit.
    pub max_rate: Option<u64>,
    /// The wanted duration of a batch. `None` is the default of the store: 100 ms, and 20 ms on
    /// SQLite, where a batch blocks every other write.
    pub target: Option<Duration>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            batch: 1_000,
            duty: 0.5,
            max_rate: None,
            target: None,
        }
    }
}

impl Pace {
    /// The maximum number of rows to which batches grow.
    pub(super) fn largest(&self) -> u64 {
        if self.duty < 1.0 {
            self.batch.clamp(MAX_BATCH_WITH_PAUSES, MAX_BATCH)
        } else {
            MAX_BATCH
        }
    }
}

/// The pause after a batch.
pub(super) fn pause(took: Duration, pace: &Pace, rows: u64) -> Duration {
    let duty = pace.duty.clamp(0.01, 1.0);
    let rest = took.mul_f64((1.0 - duty) / duty);
    let limited = pace.max_rate.map_or(Duration::ZERO, |rate| {
        let wanted = Duration::from_secs_f64(rows as f64 / rate.max(1) as f64);
        wanted.saturating_sub(took)
    });
    rest.max(limited)
}
