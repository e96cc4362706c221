//! Sign-in with providers: OAuth 2 with PKCE, and OpenID Connect. Everything except the stored
//! links needs the feature `providers`.
//!
//! `preset` knows the providers and resolves their settings; `connection` caches their metadata;
//! `wire` sends requests to them; `discovery` reads an issuer's metadata; `grant` builds the
//! authorization request and exchanges the code; `id_token` and `profile` read the identity.
//! `flow::oauth` finds or creates the account.

#[cfg(not(feature = "providers"))]
mod absent;
#[cfg(feature = "providers")]
mod connection;
#[cfg(feature = "providers")]
mod discovery;
pub(crate) mod entity;
#[cfg(feature = "providers")]
mod grant;
#[cfg(feature = "providers")]
mod id_token;
#[cfg(feature = "providers")]
pub(crate) mod preset;
#[cfg(feature = "providers")]
mod profile;
#[cfg(feature = "providers")]
mod wire;

use url::{Host, Url};

#[cfg(not(feature = "providers"))]
pub(crate) use absent::{Oauth, Provider};
#[cfg(feature = "providers")]
pub(crate) use connection::{Answer, ClientProof, Connection, Dialect, Kind, Oauth, Provider};
#[cfg(feature = "providers")]
pub(crate) use grant::{Authorization, proves};

/// The reason why there is no identity. The texts are from this plugin; nothing that a provider
/// sends is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Failure(pub(crate) &'static str);

/// An identity at a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The issuer, or the id of a provider without one.
    pub(crate) issuer: String,
    /// The issuer's id of the user, which never changes.
    pub(crate) subject: String,
    /// The email address in the provider's spelling.
    pub(crate) email: Option<String>,
    /// Whether the provider reports the address as verified.
    pub(crate) email_verified: bool,
}

/// Whether a URL uses TLS. With `loopback`, a URL of this machine is accepted without TLS too.
pub(crate) fn is_safe(url: &Url, loopback: bool) -> bool {
    url.has_host()
        && (url.scheme() == "https" || url.scheme() == "http" && loopback && is_loopback(url))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
