//! Passwords: rules, hashes and checks.

mod breach;
mod common;
mod hash;
mod low_priority;
mod policy;
mod predictable;
#[cfg(feature = "breach-check")]
mod range;

pub(crate) use breach::Breaches;
pub use breach::{BreachChecker, BreachOnError};
pub use hash::Argon2Cost;
pub(crate) use hash::{Hasher, SALT_BYTES};
pub(crate) use policy::{Password, Policy};
#[cfg(feature = "breach-check")]
pub use range::RangeChecker;

/// Verifies imported hashes. Each is replaced at the first correct password.
pub trait LegacyVerifier: Send + Sync + 'static {
    /// Whether a stored hash has the form of this verifier.
    fn recognises(&self, stored: &str) -> bool;

    /// Whether the password is correct. It runs on a thread that may block.
    fn verify(&self, password: &str, stored: &str) -> bool;
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The password is correct. `rehashed` replaces a stored hash of an older form.
    Right {
        /// The hash with the current parameters.
        rehashed: Option<String>,
    },
    /// The password is wrong, or the account has none.
    Wrong,
}
