//! The client.

use std::sync::Arc;

use rustls::ClientConfig;
use tokio::time::Instant;

use crate::connect;
use crate::error::{Failure, SetupError};
use crate::exchange::{Outgoing, Reply, exchange};
use crate::settings::Settings;
use crate::target::Target;

/// Sends requests to URLs from untrusted sources. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SafeClient(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Settings,
    tls: Arc<ClientConfig>,
}

/// The host and the origin of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The host in the form in which it is resolved: in lower case, and international names in
    /// ASCII (Punycode).
    pub host: String,
    /// Scheme, host, and the port if it is not the default port.
    pub origin: String,
}

impl SafeClient {
    /// Creates a client.
    ///
    /// # Errors
    /// If the root certificates cannot be read.
    pub fn new(settings: Settings) -> Result<Self, SetupError> {
        let tls = connect::tls(&settings.roots)?;
        Ok(Self(Arc::new(Inner { settings, tls })))
    }

    /// Checks a URL in the same way as [`send`](Self::send) does before it connects. The addresses
    /// of a name can change, so `send` checks them again.
    ///
    /// # Errors
    /// [`Failure::Refused`] with the reason; [`Failure::Unresolved`] or [`Failure::Timeout`] if the
    /// name cannot be resolved.
    ///
    /// ```
    /// use linchpin_safe_client::{Failure, Refusal, SafeClient, Settings};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let settings = Settings { roots: linchpin_safe_client::Roots::Only(Vec::new()), ..Settings::default() };
    /// let client = SafeClient::new(settings)?;
    /// let refused = client.check("https://0x7f.1/hook").await;
    /// assert!(matches!(refused, Err(Failure::Refused(Refusal::Address))));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check(&self, url: &str) -> Result<(), Failure> {
        let settings = &self.0.settings;
        let target = Target::parse(url, settings.allow_http)?;
        connect::addresses(&target, settings, None).await?;
        Ok(())
    }

    /// Reads a URL without resolving its host.
    ///
    /// ```
    /// # use linchpin_safe_client::{SafeClient, Settings};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = SafeClient::new(Settings::default())?;
    /// let located = client.locate("https://Push.Example.com:8443/a?b")?;
    /// assert_eq!(located.host, "push.example.com");
    /// assert_eq!(located.origin, "https://push.example.com:8443");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Failure::Refused`] if the text of the URL is already refused.
    pub fn locate(&self, url: &str) -> Result<Located, Failure> {
        let target = Target::parse(url, self.0.settings.allow_http)?;
        let scheme = if target.tls { "https" } else { "http" };
        Ok(Located {
            host: target.host.to_string(),
            origin: format!("{scheme}://{}", target.authority),
        })
    }

    /// Sends a request and reads its response. Every call resolves the name, checks its addresses
    /// and opens a new connection.
    ///
    /// # Errors
    /// [`Failure::Refused`] if nothing may be sent to the URL; the failures of name resolution,
    /// connection and protocol; [`Failure::Timeout`] if the head of the response does not arrive in
    /// time. A body that takes longer is cut off without an error.
    pub async fn send(&self, request: Outgoing) -> Result<Reply, Failure> {
        let settings = &self.0.settings;
        let end = Instant::now() + request.timeout;
        let target = Target::parse(&request.url, settings.allow_http)?;
        let addresses = connect::addresses(&target, settings, Some(end)).await?;
        let link = connect::open(&target, &addresses, (settings, &self.0.tls), end).await?;
        exchange(link, (&target, request, &settings.user_agent), end).await
    }
}
