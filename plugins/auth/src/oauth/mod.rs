//! Sign-in by providers: OAuth 2 with PKCE, and OpenID Connect. All of it but the stored links
//! needs the feature `providers`.
//!
//! `preset` knows the providers and makes settings into one; `connection` keeps what is known of
//! each; `wire` sends requests to them; `discovery` reads an issuer's metadata; `grant` builds the
//! authorization request and redeems the code; `id_token` and `profile` read who signed in. The
//! accounts that follow from it are in `flow::oauth`.

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

/// Why a provider could not say who somebody is. In words of ours: nothing that a provider sends is
/// ever repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Failure(pub(crate) &'static str);

/// Who a provider says somebody is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The issuer, or the id of a provider that has none.
    pub(crate) issuer: String,
    /// Its name for them, which never changes.
    pub(crate) subject: String,
    /// The address, as it is written there.
    pub(crate) email: Option<String>,
    /// Whether the provider says that it is theirs.
    pub(crate) vouched: bool,
}

/// Whether an address is under TLS; of this machine, it may be without.
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
