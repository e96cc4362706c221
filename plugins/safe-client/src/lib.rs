//! An HTTP client for addresses that strangers name.
//!
//! A webhook or a push subscription names the address to which the server sends a request. Without
//! care, such an address leads into the network of the server: to a database, to the metadata of a
//! cloud, to the server itself. A [`SafeClient`] refuses these addresses:
//!
//! 1. It parses the URL by the rules of browsers, so that `0x7f.1` and full-width digits are what
//!    they are, and refuses names of private networks, user information and unusual ports.
//! 2. It resolves the name once and checks every answer. One forbidden answer refuses all of them.
//! 3. It connects to an address that it has just checked, and compares the peer of the open
//!    connection. The name is not resolved a second time.
//! 4. It follows no redirect, reads no proxy from the environment, keeps no cookie and never uses a
//!    connection twice.
//! 5. It bounds the time of every phase, the headers, and the part of the body that it reads.
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
