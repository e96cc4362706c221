//! Whether a password is known from a breach. Only five characters of its SHA-1 ever leave the process.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use linchpin::{BoxFuture, Error, Result};
use sha1::{Digest, Sha1};
use zeroize::Zeroizing;

use super::policy::{FIELD, Password};
use crate::error::{PASSWORD_BREACHED, refuse_field};

/// How long a check may take.
const LIMIT: Duration = Duration::from_secs(3);

/// Most bytes of an answer that are read: a real one has about 40 KiB.
const MOST: usize = 1 << 20;

/// Knows passwords that were in breaches.
pub trait BreachChecker: Send + Sync + 'static {
    /// Whether a password with this SHA-1, in capital hexadecimals, is known. Only the prefix of five characters may leave the
    /// process.
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
        let Some(checker) = &self.checker else { return Ok(()) };
        let sha1 = hexadecimal(&Sha1::digest(password.expose()));
        let (prefix, suffix) = sha1.split_at(5);
        let seen = tokio::time::timeout(LIMIT, checker.is_breached(prefix, suffix)).await;
        match seen.unwrap_or_else(|_| Err(Error::unavailable("the breach check took longer than three seconds"))) {
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
        f.debug_struct("Breaches").field("checker", &self.checker.is_some()).field("on_error", &self.on_error).finish()
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

/// Asks a server that speaks the range protocol of Have I Been Pwned.
#[derive(Clone, Debug)]
pub struct RangeChecker {
    client: reqwest::Client,
    base: String,
}

impl RangeChecker {
    /// Asks the public server.
    ///
    /// # Errors
    /// When no TLS can be had.
    pub fn public() -> Result<Self> {
        Self::at("https://api.pwnedpasswords.com/range/")
    }

    /// Asks a server of one's own; the prefix is put behind this address.
    ///
    /// # Errors
    /// When no TLS can be had.
    pub fn at(base: impl Into<String>) -> Result<Self> {
        let client = reqwest::Client::builder().timeout(LIMIT).redirect(reqwest::redirect::Policy::none()).build();
        Ok(Self { client: client.map_err(Error::internal)?, base: base.into() })
    }

    async fn ask(&self, prefix: &str, suffix: &str) -> Result<bool> {
        let url = format!("{}{prefix}", self.base);
        // With padding, the size of the answer does not tell the prefix to who watches the line.
        let request = self.client.get(url).header("Add-Padding", "true").header("User-Agent", "linchpin-auth");
        let mut answer = request.send().await.map_err(Error::unavailable)?;
        if answer.status() != reqwest::StatusCode::OK {
            return Err(Error::unavailable(format!("the breach check answered {}", answer.status())));
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(Error::unavailable)? {
            body.extend_from_slice(&chunk);
            if body.len() > MOST {
                return Err(Error::unavailable("the answer of the breach check is too long"));
            }
        }
        let body = std::str::from_utf8(&body).map_err(Error::unavailable)?;
        listed(body, suffix).ok_or_else(|| Error::unavailable("the answer of the breach check cannot be read"))
    }
}

impl BreachChecker for RangeChecker {
    fn is_breached<'a>(&'a self, prefix: &'a str, suffix: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.ask(prefix, suffix))
    }
}

/// Whether an answer lists a suffix as seen; nothing when it is no answer. Lines are `SUFFIX:COUNT`; those with count 0 are padding.
fn listed(body: &str, suffix: &str) -> Option<bool> {
    let mut seen = false;
    for line in body.lines().filter(|line| !line.trim().is_empty()) {
        let (known, count) = line.split_once(':')?;
        let count: u64 = count.trim().parse().ok()?;
        seen |= count > 0 && known.trim().eq_ignore_ascii_case(suffix);
    }
    Some(seen)
}

#[cfg(test)]
mod tests;
