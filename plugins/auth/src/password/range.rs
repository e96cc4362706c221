//! The range protocol of Have I Been Pwned over HTTPS.

use linchpin::{BoxFuture, Error, Result};

use super::breach::{BreachChecker, TIMEOUT};

/// Maximum size of a response in bytes; typical ones have 40 KiB.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// A breach checker that uses the range protocol of Have I Been Pwned.
#[derive(Clone, Debug)]
pub struct RangeChecker {
    client: reqwest::Client,
    base: String,
}

impl RangeChecker {
    /// Uses the public server.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub fn public() -> Result<Self> {
        Self::at("https://api.pwnedpasswords.com/range/")
    }

    /// Uses another server. The prefix is appended to this address.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub fn at(base: impl Into<String>) -> Result<Self> {
        let client = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build();
        Ok(Self {
            client: client.map_err(Error::internal)?,
            base: base.into(),
        })
    }

    async fn request_range(&self, prefix: &str, suffix: &str) -> Result<bool> {
        let url = format!("{}{prefix}", self.base);
        // With padding, the size of the response does not show the prefix to observers of the
        // connection.
        let request = self
            .client
            .get(url)
            .header("Add-Padding", "true")
            .header("User-Agent", "linchpin-auth");
        let mut answer = request.send().await.map_err(Error::unavailable)?;
        if answer.status() != reqwest::StatusCode::OK {
            return Err(Error::unavailable(format!(
                "the server of the breach check returned {}",
                answer.status()
            )));
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(Error::unavailable)? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_RESPONSE_BYTES {
                return Err(Error::unavailable(
                    "the response of the breach check is too long",
                ));
            }
        }
        let body = std::str::from_utf8(&body).map_err(Error::unavailable)?;
        listed(body, suffix)
            .ok_or_else(|| Error::unavailable("the response of the breach check is malformed"))
    }
}

impl BreachChecker for RangeChecker {
    fn is_breached<'a>(&'a self, prefix: &'a str, suffix: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.request_range(prefix, suffix))
    }
}

/// Whether a response lists a suffix as known; `None` if the response is malformed. Lines are
/// `SUFFIX:COUNT`; those with count 0 are padding.
fn listed(body: &str, suffix: &str) -> Option<bool> {
    let mut is_listed = false;
    for line in body.lines().filter(|line| !line.trim().is_empty()) {
        let (known, count) = line.split_once(':')?;
        let count: u64 = count.trim().parse().ok()?;
        is_listed |= count > 0 && known.trim().eq_ignore_ascii_case(suffix);
    }
    Some(is_listed)
}

#[cfg(test)]
mod tests;
