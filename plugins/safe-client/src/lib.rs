//! An HTTP client for URLs from untrusted sources.
//!
//! A webhook or a push subscription contains a URL to which the server sends a request. Without
//! protection, such a URL can lead into the network of the server: to a database, to the metadata
//! service of a cloud, to the server itself. This attack is called server-side request forgery
//! (SSRF). A [`SafeClient`] prevents it:
//!
//! 1. It parses the URL by the rules of browsers, so that `0x7f.1` and full-width digits are
//!    recognized as addresses. It refuses names of private networks, user information and unusual
//!    ports.
//! 2. It resolves the name once and checks every address. If one address is not public, it refuses
//!    the URL.
//! 3. It connects to an address that it has just checked, and compares it with the peer address of
//!    the open connection. It does not resolve the name a second time.
//! 4. It follows no redirect, reads no proxy from the environment, stores no cookie and never
//!    reuses a connection.
//! 5. It limits the time of every phase, the size of the headers, and the part of the body that it
//!    reads.
//!
//! ```no_run
//! use linchpin_safe_client::{Outgoing, SafeClient, Settings};
//!
//! # async fn send() -> Result<(), Box<dyn std::error::Error>> {
//! let client = SafeClient::new(Settings::default())?;
//! let request = Outgoing::post("https://example.com/hook", r#"{"type":"ping"}"#);
//! let reply = client.send(request).await?;
//! assert!(reply.status.is_success());
//! # Ok(())
//! # }
//! ```

mod addresses;
mod client;
mod connect;
mod error;
mod exchange;
mod resolve;
mod retry;
mod settings;
mod target;

pub use addresses::is_public;
pub use client::{Located, SafeClient};
pub use error::{Failure, Phase, Refusal, SetupError};
pub use exchange::{Outgoing, Reply};
pub use ipnet::IpNet;
pub use resolve::{Answers, Resolve, SystemResolver};
pub use retry::retry_after;
pub use settings::{Roots, Settings};
