//! Connections: to addresses that were checked, with certificates that are verified.

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

/// The most addresses of a name that are tried.
const MOST_TRIED: usize = 4;

/// An open connection.
pub(crate) enum Link {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Link {
    /// The other end.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        let tcp = match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0,
        };
        tcp.peer_addr().ok()
    }
}

/// The settings of TLS: no client certificate, no resumption across hosts, HTTP/1.1.
///
/// # Errors
/// A root certificate cannot be read, or there is none.
pub(crate) fn tls(roots: &Roots) -> Result<Arc<ClientConfig>, SetupError> {
    let mut store = RootCertStore::empty();
    match roots {
        Roots::System => {
            // Certificates that cannot be read are those of others; some hosts have a few.
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

/// The addresses to which a request may go: all of its host, each of them checked.
///
/// # Errors
/// The name is not resolved in time, or one of its addresses is refused.
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
/// None of them accepts one in time, or the certificate is not that of the host.
pub(crate) async fn open(
    target: &Target,
    addresses: &[SocketAddr],
    (settings, tls): (&Settings, &Arc<ClientConfig>),
    end: Instant,
) -> Result<Link, Failure> {
    let limit = settings.connect_timeout;
    let end = within(limit, Some(end));
    let late = |_| Failure::Timeout(limit, Phase::Connect);
    let tcp = timeout_at(end, any_of(addresses)).await.map_err(late)??;
    // The system could have sent the connection elsewhere.
    let peer = tcp.peer_addr().map_err(|_| Failure::Unreachable)?;
    if !addresses.contains(&peer) {
        return Err(Refusal::Address.into());
    }
    // The request is one write; waiting for more only delays it. A failure changes nothing else.
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
    let shaken = TlsConnector::from(Arc::clone(tls)).connect(name, tcp);
    let stream = timeout_at(end, shaken)
        .await
        .map_err(late)?
        .map_err(|e| Failure::Tls(e.to_string()))?;
    Ok(Link::Tls(Box::new(stream)))
}

/// Connects to the first address that accepts, one after the other.
async fn any_of(addresses: &[SocketAddr]) -> Result<TcpStream, Failure> {
    for &address in addresses.iter().take(MOST_TRIED) {
        if let Ok(stream) = TcpStream::connect(address).await {
            return Ok(stream);
        }
    }
    Err(Failure::Unreachable)
}

/// The end of a phase: after its own limit, or with the whole attempt.
fn within(limit: Duration, end: Option<Instant>) -> Instant {
    let own = Instant::now() + limit;
    end.map_or(own, |end| end.min(own))
}
