//! The speed of a backfill: the sizes of batches, and the pauses between them.

use std::time::Duration;

/// The maximum number of rows of a batch.
pub(super) const LARGEST: u64 = 10_000;
/// The number of rows up to which batches grow if there are pauses between them. While a batch
/// runs, requests wait longer, so many short batches delay fewer of them than a few long ones.
const LARGEST_BETWEEN_PAUSES: u64 = 1_000;

/// The speed of a backfill.
#[derive(Clone, Debug, PartialEq)]
pub struct Pace {
    /// The number of rows of the first batch, 1 to 10,000. Later ones adapt to `target`, and grow to
    /// at most 10,000 rows without pauses, with them to at most 1,000 or this number.
    pub batch: u64,
    /// The share of time that batches take; the rest are pauses. Over 0, at most 1.
    pub duty: f64,
    /// The maximum number of rows per second.
    pub max_rate: Option<u64>,
    /// How long a batch should take. `None` is the time that suits the store: 100 ms, on SQLite
    /// 20 ms, because a batch there blocks every other write.
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
    /// The number of rows up to which batches grow.
    pub(super) fn largest(&self) -> u64 {
        if self.duty < 1.0 {
            self.batch.clamp(LARGEST_BETWEEN_PAUSES, LARGEST)
        } else {
            LARGEST
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
