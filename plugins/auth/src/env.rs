//! Time and randomness. No other module reads the clock or the random source, so tests can replace
//! both.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use linchpin::{Result, Timestamp};

/// A source of time.
pub trait Clock: Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Timestamp;

    /// Returns the time for which a background task sleeps between two polls. The default is
    /// `interval`.
    ///
    /// A clock of tests returns a shorter time: its `now` changes while no real time passes. Other
    /// clocks use the default.
    #[doc(hidden)]
    fn pause(&self, interval: Duration) -> Duration {
        interval
    }
}

/// A cryptographically secure source of random bytes.
pub trait SecureRng: Send + Sync + 'static {
    /// Fills the whole slice with random bytes.
    ///
    /// # Errors
    /// `unavailable` if the random source fails. The caller must stop then.
    fn fill(&self, bytes: &mut [u8]) -> Result<()>;
}

/// The clock and the random source of the plugin.
#[derive(Clone)]
pub struct Env {
    /// The source of all times.
    pub clock: Arc<dyn Clock>,
    /// The source of all secrets.
    pub rng: Arc<dyn SecureRng>,
}

impl Env {
    /// The system's clock and randomness.
    pub fn system() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            rng: Arc::new(SystemRng),
        }
    }

    /// Returns random bytes.
    ///
    /// # Errors
    /// As [`SecureRng::fill`].
    pub fn random<const N: usize>(&self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.rng.fill(&mut bytes)?;
        Ok(bytes)
    }
}

impl Default for Env {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").finish_non_exhaustive()
    }
}

struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::system_now()
    }
}

/// A clock that never goes back. If the clock that it reads is set back, it returns its latest
/// time, so expired and used tokens stay invalid.
pub(crate) struct MonotonicClock {
    clock: Arc<dyn Clock>,
    /// The latest time that it returned, in milliseconds.
    latest: AtomicI64,
}

impl MonotonicClock {
    pub(crate) fn over(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            latest: AtomicI64::new(i64::MIN),
        }
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Timestamp {
        let reading = self.clock.now();
        let latest = self.latest.load(Ordering::Relaxed);
        if reading.millis() > latest {
            self.latest.fetch_max(reading.millis(), Ordering::Relaxed);
            return reading;
        }
        Timestamp::from_millis(latest)
    }

    fn pause(&self, interval: Duration) -> Duration {
        self.clock.pause(interval)
    }
}

struct SystemRng;

impl SecureRng for SystemRng {
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        getrandom::fill(bytes).map_err(linchpin::Error::unavailable)
    }
}

#[cfg(feature = "test-util")]
pub use fake::{FakeClock, SeededRng};

#[cfg(feature = "test-util")]
mod fake {
    use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
    use std::time::Duration;

    use linchpin::{Result, Timestamp};
    use sha2::{Digest, Sha256};

    use super::{Clock, SecureRng};

    /// A clock whose time changes only when a test changes it.
    #[derive(Debug)]
    pub struct FakeClock(AtomicI64);

    impl FakeClock {
        /// A clock at this time.
        pub fn at(instant: Timestamp) -> Self {
            Self(AtomicI64::new(instant.millis()))
        }

        /// Advances the clock.
        pub fn advance(&self, by: Duration) {
            let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
            self.0.fetch_add(millis, Ordering::SeqCst);
        }

        /// Sets the clock to another time, which may be earlier.
        pub fn set(&self, instant: Timestamp) {
            self.0.store(instant.millis(), Ordering::SeqCst);
        }
    }

    impl Clock for FakeClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(self.0.load(Ordering::SeqCst))
        }

        /// At most 50 ms, so that a test that advances the clock does not wait for the real
        /// interval.
        fn pause(&self, interval: Duration) -> Duration {
            interval.min(Duration::from_millis(50))
        }
    }

    /// A random source that returns the same bytes for the same seed.
    #[derive(Debug)]
    pub struct SeededRng {
        seed: u64,
        block: AtomicU64,
    }

    impl SeededRng {
        /// A random source with this seed.
        pub const fn new(seed: u64) -> Self {
            Self {
                seed,
                block: AtomicU64::new(0),
            }
        }
    }

    impl SecureRng for SeededRng {
        fn fill(&self, bytes: &mut [u8]) -> Result<()> {
            for chunk in bytes.chunks_mut(32) {
                let block = self.block.fetch_add(1, Ordering::SeqCst);
                let digest = Sha256::new()
                    .chain_update(self.seed.to_be_bytes())
                    .chain_update(block.to_be_bytes())
                    .finalize();
                chunk.copy_from_slice(&digest[..chunk.len()]);
            }
            Ok(())
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn seeded_randomness_is_reproducible_and_blocks_differ() {
            let draw = |rng: &SeededRng| {
                let mut bytes = [0; 48];
                rng.fill(&mut bytes).map(|()| bytes)
            };
            let (a, b) = (SeededRng::new(1), SeededRng::new(1));
            let first = draw(&a).unwrap();
            assert_eq!(first, draw(&b).unwrap());
            assert_ne!(first, draw(&a).unwrap());
            assert_ne!(first, draw(&SeededRng::new(2)).unwrap());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn randomness_differs() {
        let env = Env::system();
        assert_ne!(env.random::<32>().unwrap(), env.random::<32>().unwrap());
    }
}
