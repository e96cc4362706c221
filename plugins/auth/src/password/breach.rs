//! The breach check of passwords. Only the first five characters of a password's SHA-1 leave the
//! process.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use linchpin::{BoxFuture, Error, Result};
use sha1::{Digest, Sha1};
use zeroize::Zeroizing;

use super::policy::{FIELD, Password};
use crate::error::{PASSWORD_BREACHED, refuse_field};

/// Timeout of a check.
pub(super) const TIMEOUT: Duration = Duration::from_secs(3);

/// Checks whether passwords are known from data breaches.
pub trait BreachChecker: Send + Sync + 'static {
    /// Whether a password with this SHA-1 (upper-case hexadecimal digits) is known. Only the prefix
    /// of five characters may leave the process.
    fn is_breached<'a>(&'a self, prefix: &'a str, suffix: &'a str) -> BoxFuture<'a, Result<bool>>;
}

/// What happens if the check fails: `password.breachOnError`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreachOnError {
    /// The password is accepted, and the failure is logged.
    #[default]
    Allow,
    /// 503 `unavailable`.
    Refuse,
}

/// The breach check of new passwords.
#[derive(Clone, Default)]
pub(crate) struct Breaches {
    pub(crate) checker: Option<Arc<dyn BreachChecker>>,
    pub(crate) on_error: BreachOnError,
}

impl Breaches {
    /// Checks a new password.
    ///
    /// # Errors
    /// 400 `password_breached`; 503 if the check fails and `breachOnError` is `refuse`.
    pub(crate) async fn check(&self, password: &Password) -> Result<()> {
        let Some(checker) = &self.checker else {
            return Ok(());
        };
        let sha1 = hexadecimal(&Sha1::digest(password.expose()));
        let (prefix, suffix) = sha1.split_at(5);
        let result = tokio::time::timeout(TIMEOUT, checker.is_breached(prefix, suffix)).await;
        match result.unwrap_or_else(|_| {
            Err(Error::unavailable(
                "the breach check took longer than three seconds",
            ))
        }) {
            Ok(false) => Ok(()),
            Ok(true) => Err(refuse_field(PASSWORD_BREACHED, FIELD)),
            Err(error) if self.on_error == BreachOnError::Refuse => Err(Error::unavailable(error)),
            Err(error) => {
                tracing::warn!(error = ?error, "the breach check failed; the password is accepted");
                Ok(())
            }
        }
    }
}

impl std::fmt::Debug for Breaches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Breaches")
            .field("checker", &self.checker.is_some())
            .field("on_error", &self.on_error)
            .finish()
    }
}

fn hexadecimal(bytes: &[u8]) -> Zeroizing<String> {
    let mut out = Zeroizing::new(String::with_capacity(bytes.len() * 2));
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(*out, "{byte:02X}");
    }
    out
}
