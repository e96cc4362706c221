//! The settings of a client.

use std::fmt;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ipnet::IpNet;

use crate::addresses::is_public;
use crate::resolve::{Resolve, SystemResolver};

/// The trusted root certificates.
#[derive(Debug, Clone, Default)]
pub enum Roots {
    /// The root certificates of the operating system.
    #[default]
    System,
    /// Only these certificates, DER-encoded.
    Only(Vec<Vec<u8>>),
}

/// The settings of a [`SafeClient`](crate::SafeClient).
#[derive(Clone)]
pub struct Settings {
    /// Whether `http://` is allowed in addition to `https://`; `false` by default.
    pub allow_http: bool,
    /// Networks that are allowed although they are not public; none by default. For tests, and for
    /// receivers in a private network.
    pub allow: Vec<IpNet>,
    /// The address on which the app listens. It is set after the app has started. Requests to it
    /// are refused even in an allowed network.
    pub own: Arc<OnceLock<SocketAddr>>,
    /// Resolves names; the operating system by default.
    pub resolver: Arc<dyn Resolve>,
    /// The root certificates; those of the operating system by default.
    pub roots: Roots,
    /// How long the resolution of a name may take; 5 s by default.
    pub resolve_timeout: Duration,
    /// How long a connection and the TLS handshake may take; 5 s by default.
    pub connect_timeout: Duration,
    /// The header `user-agent`.
    pub user_agent: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            allow_http: false,
            allow: Vec::new(),
            own: Arc::default(),
            resolver: Arc::new(SystemResolver),
            roots: Roots::System,
            resolve_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(5),
            user_agent: concat!("Linchpin/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

impl Settings {
    /// Whether requests may be sent to an address.
    pub(crate) fn admits(&self, address: SocketAddr) -> bool {
        let ip = address.ip();
        let listens = |own: &SocketAddr| {
            own.port() == address.port()
                && (own.ip() == ip || (own.ip().is_unspecified() && is_of_this_machine(ip)))
        };
        if self.own.get().is_some_and(listens) {
            return false;
        }
        is_public(ip) || self.allow.iter().any(|network| network.contains(&ip))
    }
}

/// Whether an address belongs to this machine: a socket can be bound to it.
fn is_of_this_machine(ip: IpAddr) -> bool {
    ip.is_loopback() || ip.is_unspecified() || UdpSocket::bind((ip, 0)).is_ok()
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("allow_http", &self.allow_http)
            .field("allow", &self.allow)
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}
