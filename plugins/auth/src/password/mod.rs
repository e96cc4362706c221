//! Passwords: what one must be, how it is kept, and how it is tried.

mod apart;
mod breach;
mod common;
mod hash;
mod policy;
mod predictable;
#[cfg(feature = "breach-check")]
mod range;

pub(crate) use breach::Breaches;
pub use breach::{BreachChecker, BreachOnError};
pub use hash::Argon2Cost;
pub(crate) use hash::{Hasher, SALT};
pub(crate) use policy::{Password, Policy};
#[cfg(feature = "breach-check")]
pub use range::RangeChecker;

/// Checks hashes that another program made. They are replaced at the first right password.
pub trait LegacyVerifier: Send + Sync + 'static {
    /// Whether a stored hash is of the kind it knows.
    fn recognises(&self, stored: &str) -> bool;

    /// Whether the password is right. It runs on a thread that may block.
    fn verify(&self, password: &str, stored: &str) -> bool;
}

/// What came of trying a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is the one; `rehashed` is to be stored when the present hash is of an older kind.
    Right {
        /// The hash under the present parameters.
        rehashed: Option<String>,
    },
    /// It is not, or there is none.
    Wrong,
}
