//! Whether a password is known from a breach. Only five characters of its SHA-1 ever leave the
//! process.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use linchpin::{BoxFuture, Error, Result};
use sha1::{Digest, Sha1};
use zeroize::Zeroizing;

use super::policy::{FIELD, Password};
use crate::error::{PASSWORD_BREACHED, refuse_field};

/// How long a check may take.
pub(super) const LIMIT: Duration = Duration::from_secs(3);

/// Knows passwords that were in breaches.
pub trait BreachChecker: Send + Sync + 'static {
    /// Whether a password with this SHA-1, in capital hexadecimals, is known. Only the prefix of
    /// five characters may leave the process.
    fn is_breached<'a>(&'a self, prefix: &'a str, suffix: &'a str) -> BoxFuture<'a, Result<bool>>;
}

/// What happens when the check cannot be made: `password.breachOnError`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BreachOnError {
    /// The password passes; the failure is logged.
    #[default]
    Allow,
    /// 503 `unavailable`.
    Refuse,
}

/// The check that new passwords go through.
#[derive(Clone, Default)]
pub(crate) struct Breaches {
    pub(crate) checker: Option<Arc<dyn BreachChecker>>,
    pub(crate) on_error: BreachOnError,
}

impl Breaches {
    /// Lets a password pass that is not known.
    ///
    /// # Errors
    /// 400 `password_breached`; 503 when it cannot be told and that is to be refused.
    pub(crate) async fn check(&self, password: &Password) -> Result<()> {
        let Some(checker) = &self.checker else {
            return Ok(());
        };
        let sha1 = hexadecimal(&Sha1::digest(password.expose()));
        let (prefix, suffix) = sha1.split_at(5);
        let seen = tokio::time::timeout(LIMIT, checker.is_breached(prefix, suffix)).await;
        match seen.unwrap_or_else(|_| {
            Err(Error::unavailable(
                "the breach check took longer than three seconds",
            ))
        }) {
            Ok(false) => Ok(()),
            Ok(true) => Err(refuse_field(PASSWORD_BREACHED, FIELD)),
            Err(error) if self.on_error == BreachOnError::Refuse => Err(Error::unavailable(error)),
            Err(error) => {
                tracing::warn!(error = ?error, "breach check failed; the password passes");
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
