//! Password hashes: Argon2id on separate threads, with a bounded number at the same time.
//!
//! A check takes the same time for an account with a password, for one without, and for no account:
//! one Argon2id computation with the current parameters. A stored hash of another form is checked
//! in addition.

use std::sync::Arc;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};
use linchpin::{Error, Result};
use tokio::sync::Semaphore;

use super::low_priority::LowPriority;
use super::policy::Password;
use super::{LegacyVerifier, Verdict};
use crate::env::SecureRng;

/// Length of a salt in bytes.
pub(crate) const SALT_BYTES: usize = 16;

/// Number of checks that may wait for a free thread. Further ones get 503.
const QUEUE: usize = 64;

/// Maximum cost of a stored hash. A hash with a higher cost is not computed: an imported record
/// could contain any cost.
const MAX_KIB: u32 = 1 << 20;
const MAX_PASSES: u32 = 32;

/// The cost of an Argon2id hash: `password.argon2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argon2Cost {
    /// Memory in KiB.
    pub m: u32,
    /// Passes.
    pub t: u32,
    /// Lanes.
    pub p: u32,
}

impl Default for Argon2Cost {
    fn default() -> Self {
        Self {
            m: 64 * 1024,
            t: 2,
            p: 1,
        }
    }
}

impl Argon2Cost {
    /// The cheapest cost that the library computes, for tests that are not about cost or time.
    ///
    /// It is the only accepted cost below the minimum. It needs the feature `test-util` and can be
    /// set only from code: in a file or an environment variable, this cost is a start-up error.
    #[cfg(feature = "test-util")]
    pub const OF_TESTS: Self = Self { m: 8, t: 1, p: 1 };

    /// Converts the cost to parameters of the library.
    ///
    /// # Errors
    /// The reason if the cost is not allowed.
    pub(crate) fn params(self) -> Result<Params, String> {
        #[cfg(feature = "test-util")]
        if self == Self::OF_TESTS {
            return Params::new(self.m, self.t, self.p, Some(32)).map_err(|e| e.to_string());
        }
        if self.m < 19_456 || u64::from(self.m) * u64::from(self.t) < 38_912 {
            return Err("must have m >= 19456 (in KiB) and m * t >= 38912".into());
        }
        if self.m > MAX_KIB || self.t > MAX_PASSES {
            return Err(format!("must have m <= {MAX_KIB} and t <= {MAX_PASSES}"));
        }
        Params::new(self.m, self.t, self.p, Some(32)).map_err(|e| e.to_string())
    }
}

/// Computes and checks password hashes.
#[derive(Clone)]
pub(crate) struct Hasher(Arc<Inner>);

struct Inner {
    params: Params,
    rng: Arc<dyn SecureRng>,
    legacy: Vec<Arc<dyn LegacyVerifier>>,
    /// The hash that is computed for an account that does not exist or has no password.
    dummy: String,
    /// Permits of hashes that are computed now.
    running: Arc<Semaphore>,
    /// Permits of hashes that are computed now or wait.
    admitted: Arc<Semaphore>,
    low_priority: LowPriority,
    /// Number of checks against an Argon2id hash.
    #[cfg(test)]
    argon2_checks: std::sync::atomic::AtomicUsize,
}

impl Hasher {
    /// At most `at_once` hashes are computed at the same time.
    ///
    /// # Errors
    /// If the random source fails.
    pub(crate) fn new(
        params: Params,
        at_once: usize,
        rng: Arc<dyn SecureRng>,
        legacy: Vec<Arc<dyn LegacyVerifier>>,
    ) -> Result<Self> {
        let mut random_password = [0; 32];
        rng.fill(&mut random_password)?;
        let dummy = hash_with_random_salt(&params, &*rng, &random_password)?;
        Ok(Self(Arc::new(Inner {
            params,
            rng,
            legacy,
            dummy,
            running: Arc::new(Semaphore::new(at_once)),
            admitted: Arc::new(Semaphore::new(at_once + QUEUE)),
            low_priority: LowPriority::new(at_once),
            #[cfg(test)]
            argon2_checks: std::sync::atomic::AtomicUsize::new(0),
        })))
    }

    /// Returns the hash of a new password as a PHC string.
    ///
    /// # Errors
    /// 503 if too many checks are waiting.
    pub(crate) async fn hash(&self, password: Password) -> Result<String> {
        self.run(move |inner| inner.hashed(&password)).await
    }

    /// Like [`Hasher::hash`], with a given salt, so that equal passwords have equal hashes.
    ///
    /// # Errors
    /// 503 if too many checks are waiting.
    pub(crate) async fn hash_with(
        &self,
        password: Password,
        salt: [u8; SALT_BYTES],
    ) -> Result<String> {
        self.run(move |inner| hash_with_salt(&inner.params, &salt, password.expose().as_bytes()))
            .await
    }

    /// Checks a password. `stored` is `None` for an account that does not exist or has no password.
    ///
    /// # Errors
    /// 503 if too many checks are waiting.
    pub(crate) async fn verify(
        &self,
        password: Password,
        stored: Option<String>,
    ) -> Result<Verdict> {
        self.run(move |inner| inner.verify(&password, stored.as_deref()))
            .await
    }

    /// Whether passwords can be checked against a hash.
    pub(crate) fn can_read(&self, stored: &str) -> bool {
        let legacy = self.0.legacy.iter().any(|legacy| legacy.recognises(stored));
        let argon2 = || {
            PasswordHash::new(stored).is_ok_and(|hash| {
                Algorithm::new(hash.algorithm.as_str()).is_ok() && hash.hash.is_some()
            })
        };
        legacy || argon2()
    }

    /// Whether a password matches any of these former hashes. All are checked with one permit.
    ///
    /// # Errors
    /// 503 if too many checks are waiting.
    pub(crate) async fn is_one_of(&self, password: Password, earlier: Vec<String>) -> Result<bool> {
        self.run(move |inner| {
            for stored in &earlier {
                if inner.matches(&password, stored)? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
        .await
    }

    /// Runs work on a low-priority thread. The work holds the permits, so they are not released
    /// before it is done, even if the caller is gone.
    async fn run<T: Send + 'static>(
        &self,
        work: impl Fn(&Inner) -> Result<T> + Send + Sync + 'static,
    ) -> Result<T> {
        let admitted = self
            .0
            .admitted
            .clone()
            .try_acquire_owned()
            .map_err(|_| Error::unavailable("too many passwords are waiting to be hashed"))?;
        let running = self
            .0
            .running
            .clone()
            .acquire_owned()
            .await
            .map_err(Error::internal)?;
        let inner = self.0.clone();
        let task = tokio::spawn(async move {
            let _permits = (admitted, running);
            let low_priority = inner.low_priority.clone();
            low_priority.run(move || work(&inner)).await?
        });
        task.await.map_err(Error::internal)?
    }
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hasher")
            .field("params", &self.0.params)
            .finish_non_exhaustive()
    }
}

impl Inner {
    fn verify(&self, password: &Password, stored: Option<&str>) -> Result<Verdict> {
        let Some(stored) = stored else {
            // The result is known; the computation keeps the time equal.
            self.matches(password, &self.dummy)?;
            return Ok(Verdict::Wrong);
        };
        if self.is_current(stored) && !self.legacy.iter().any(|legacy| legacy.recognises(stored)) {
            return Ok(if self.matches(password, stored)? {
                Verdict::Right { rehashed: None }
            } else {
                Verdict::Wrong
            });
        }
        // The new hash is computed in parallel, for a wrong password too, so that the time does not
        // show whether one is needed.
        let (right, new_hash) = std::thread::scope(|scope| {
            let new_hash =
                std::thread::Builder::new().spawn_scoped(scope, || self.hashed(password));
            (
                self.matches(password, stored),
                new_hash.map(std::thread::ScopedJoinHandle::join),
            )
        });
        let new_hash = new_hash.map_err(|_| {
            Error::unavailable("the system cannot start a thread for a password hash")
        })?;
        let new_hash =
            new_hash.map_err(|_| Error::internal("a password could not be hashed"))??;
        Ok(if right? {
            Verdict::Right {
                rehashed: Some(new_hash),
            }
        } else {
            Verdict::Wrong
        })
    }

    fn hashed(&self, password: &Password) -> Result<String> {
        hash_with_random_salt(&self.params, &*self.rng, password.expose().as_bytes())
    }

    /// Whether a password matches a hash, of this plugin or imported.
    fn matches(&self, password: &Password, stored: &str) -> Result<bool> {
        if let Some(legacy) = self.legacy.iter().find(|legacy| legacy.recognises(stored)) {
            return Ok(legacy.verify(password.expose(), stored));
        }
        let unreadable = || {
            Error::internal(
                "a stored password hash is neither Argon2 nor known to a legacy verifier",
            )
        };
        let hash = PasswordHash::new(stored).map_err(|_| unreadable())?;
        let params = Params::try_from(&hash).map_err(|_| unreadable())?;
        if params.m_cost() > MAX_KIB || params.t_cost() > MAX_PASSES {
            return Err(Error::internal(
                "the cost of a stored password hash exceeds the maximum",
            ));
        }
        #[cfg(test)]
        self.argon2_checks
            .fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        match Argon2::default().verify_password(password.expose().as_bytes(), &hash) {
            Ok(()) => Ok(true),
            Err(argon2::password_hash::Error::PasswordInvalid) => Ok(false),
            Err(_) => Err(unreadable()),
        }
    }

    fn is_current(&self, stored: &str) -> bool {
        PasswordHash::new(stored).is_ok_and(|hash| {
            hash.algorithm.as_str() == Algorithm::Argon2id.as_ref()
                && Params::try_from(&hash).is_ok_and(|p| {
                    (p.m_cost(), p.t_cost(), p.p_cost())
                        == (
                            self.params.m_cost(),
                            self.params.t_cost(),
                            self.params.p_cost(),
                        )
                })
        })
    }
}

fn hash_with_random_salt(params: &Params, rng: &dyn SecureRng, password: &[u8]) -> Result<String> {
    let mut salt = [0; SALT_BYTES];
    rng.fill(&mut salt)?;
    hash_with_salt(params, &salt, password)
}

fn hash_with_salt(params: &Params, salt: &[u8; SALT_BYTES], password: &[u8]) -> Result<String> {
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params.clone());
    let hash = argon2
        .hash_password_with_salt(password, salt)
        .map_err(|e| Error::internal(e.to_string()))?;
    Ok(hash.to_string())
}

#[cfg(test)]
mod tests;
