//! The rate of attempts of an endpoint: a token bucket in its record, so that the limit applies to
//! all processes together.

use linchpin::Timestamp;

/// One attempt, in thousandths.
const ONE: i64 = 1_000;

/// A token bucket. Its capacity is the number of attempts that are allowed in one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    per_second: i64,
    /// Allowed attempts, in thousandths, at `at`.
    allowance: i64,
    at: Timestamp,
}

impl Bucket {
    /// The bucket of a record; a full one if it was never used.
    pub(crate) fn new(
        per_second: i64,
        allowance: i64,
        at: Option<Timestamp>,
        now: Timestamp,
    ) -> Self {
        let per_second = per_second.max(1);
        match at {
            Some(at) => Self {
                per_second,
                allowance,
                at,
            }
            .refilled(now),
            None => Self {
                per_second,
                allowance: per_second * ONE,
                at: now,
            },
        }
    }

    fn refilled(self, now: Timestamp) -> Self {
        // If the clock was set back, nothing is added.
        let passed = now.millis().saturating_sub(self.at.millis()).max(0);
        let gained = passed.saturating_mul(self.per_second);
        Self {
            allowance: self
                .allowance
                .saturating_add(gained)
                .min(self.per_second * ONE),
            at: now,
            ..self
        }
    }

    /// Takes one attempt, if the rate allows it.
    pub(crate) fn take(&mut self, now: Timestamp) -> bool {
        *self = self.refilled(now);
        let allowed = self.allowance >= ONE;
        if allowed {
            self.allowance -= ONE;
        }
        allowed
    }

    /// The time at which the rate allows the next attempt.
    pub(crate) fn free_at(&self) -> Timestamp {
        let missing = (ONE - self.allowance).max(0);
        let millis = (missing + self.per_second - 1) / self.per_second;
        Timestamp::from_millis(self.at.millis().saturating_add(millis))
    }

    /// The values for the record.
    pub(crate) fn stored(&self) -> (i64, Timestamp) {
        (self.allowance, self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn the_rate_limit_applies_to_every_second_after_the_first_burst() {
        let mut bucket = Bucket::new(5, 0, None, at(0));
        let mut sent = Vec::new();
        for now in 0..3_000 {
            if bucket.take(at(now)) {
                sent.push(now);
            }
        }
        assert_eq!(sent.iter().filter(|now| **now == 4).count(), 1);
        assert_eq!(sent.len(), 5 + 14, "{sent:?}");
        assert!(!bucket.take(at(2_999)));
        assert_eq!(bucket.free_at(), at(3_000));
    }

    #[test]
    fn a_stored_rate_bucket_continues() {
        let mut bucket = Bucket::new(5, 0, None, at(0));
        while bucket.take(at(0)) {}
        let (allowance, stored) = bucket.stored();
        let mut again = Bucket::new(5, allowance, Some(stored), at(100));
        assert!(!again.take(at(100)));
        assert!(again.take(at(200)));
        assert!(
            !again.take(at(-5_000)),
            "a clock that is set back adds nothing"
        );
    }
}
