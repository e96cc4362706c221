//! Connections to checked addresses, with verified certificates.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Host;

use crate::error::{Failure, Phase, Refusal, SetupError};
use crate::settings::{Roots, Settings};
use crate::target::Target;

/// The maximum number of addresses of a name that are tried.
const MAX_ADDRESSES_TRIED: usize = 4;

/// An open connection.
pub(crate) enum Link {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Link {
    /// The address of the server.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        let tcp = match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0,
        };
        tcp.peer_addr().ok()
    }
}

/// The TLS settings: no client certificate, no session resumption, HTTP/1.1.
///
/// # Errors
/// If a root certificate of the settings cannot be read, or if the system has none.
pub(crate) fn tls(roots: &Roots) -> Result<Arc<ClientConfig>, SetupError> {
    let mut store = RootCertStore::empty();
    match roots {
        Roots::System => {
            // Some systems have a few certificates that cannot be read; they are ignored.
            let found = rustls_native_certs::load_native_certs().certs;
            let (read, _) = store.add_parsable_certificates(found);
            if read == 0 {
                return Err(SetupError::NoRoots);
            }
        }
        Roots::Only(all) => {
            for der in all {
                store
                    .add(CertificateDer::from(der.clone()))
                    .map_err(|e| SetupError::Root(e.to_string()))?;
            }
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| SetupError::Tls(e.to_string()))?
        .with_root_certificates(store)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// Returns all addresses of the host, after it has checked each of them.
///
/// # Errors
/// If the name is not resolved in time, or if one of its addresses is refused.
pub(crate) async fn addresses(
    target: &Target,
    settings: &Settings,
    end: Option<Instant>,
) -> Result<Vec<SocketAddr>, Failure> {
    if let Some(address) = target.address() {
        return if settings.admits(address) {
            Ok(vec![address])
        } else {
            Err(Refusal::Address.into())
        };
    }
    let Host::Domain(name) = &target.host else {
        return Err(Failure::Unresolved);
    };
    let limit = settings.resolve_timeout;
    let end = within(limit, end);
    let found: Vec<IpAddr> = timeout_at(end, settings.resolver.resolve(name))
        .await
        .map_err(|_| Failure::Timeout(limit, Phase::Resolve))?
        .map_err(|_| Failure::Unresolved)?;
    if found.is_empty() {
        return Err(Failure::Unresolved);
    }
    let mut all = Vec::with_capacity(found.len());
    for ip in found {
        let address = SocketAddr::new(ip, target.port);
        if !settings.admits(address) {
            return Err(Refusal::Address.into());
        }
        if !all.contains(&address) {
            all.push(address);
        }
    }
    Ok(all)
}

/// Opens a connection to one of the checked addresses.
///
/// # Errors
/// If no address accepts a connection in time, or if the certificate is not valid for the host.
pub(crate) async fn open(
    target: &Target,
    addresses: &[SocketAddr],
    (settings, tls): (&Settings, &Arc<ClientConfig>),
    end: Instant,
) -> Result<Link, Failure> {
    let limit = settings.connect_timeout;
    let end = within(limit, Some(end));
    let timed_out = |_| Failure::Timeout(limit, Phase::Connect);
    let tcp = timeout_at(end, connect_to_any(addresses))
        .await
        .map_err(timed_out)??;
    // The operating system could have redirected the connection.
    let peer = tcp.peer_addr().map_err(|_| Failure::Unreachable)?;
    if !addresses.contains(&peer) {
        return Err(Refusal::Address.into());
    }
    // The request is one write, which Nagle's algorithm would only delay. A failure to disable the
    // algorithm does no harm.
    let _ = tcp.set_nodelay(true);
    if !target.tls {
        return Ok(Link::Plain(tcp));
    }
    let name = match &target.host {
        Host::Domain(name) => {
            ServerName::try_from(name.clone()).map_err(|_| Failure::Tls("no host name".into()))?
        }
        Host::Ipv4(address) => ServerName::from(IpAddr::V4(*address)),
        Host::Ipv6(address) => ServerName::from(IpAddr::V6(*address)),
    };
    let handshake = TlsConnector::from(Arc::clone(tls)).connect(name, tcp);
    let stream = timeout_at(end, handshake)
        .await
        .map_err(timed_out)?
        .map_err(|e| Failure::Tls(e.to_string()))?;
    Ok(Link::Tls(Box::new(stream)))
}

/// Tries the addresses in order; returns the first connection.
async fn connect_to_any(addresses: &[SocketAddr]) -> Result<TcpStream, Failure> {
    for &address in addresses.iter().take(MAX_ADDRESSES_TRIED) {
        if let Ok(stream) = TcpStream::connect(address).await {
            return Ok(stream);
        }
    }
    Err(Failure::Unreachable)
}

/// The end of a phase: after its own limit, but not later than the end of the attempt.
fn within(limit: Duration, end: Option<Instant>) -> Instant {
    let own = Instant::now() + limit;
    end.map_or(own, |end| end.min(own))
}
