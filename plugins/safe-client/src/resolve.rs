//! The resolution of names.

use std::future::Future;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::pin::Pin;

use tokio::sync::Semaphore;

/// A future with the addresses of a name.
pub type Answers<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Resolves the names of hosts. The client calls it once per request, and checks every address.
///
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
///
/// use linchpin_safe_client::{Answers, Resolve};
///
/// /// Resolves every name to this machine, for tests.
/// struct ThisMachine;
///
/// impl Resolve for ThisMachine {
///     fn resolve<'a>(&'a self, _: &'a str) -> Answers<'a> {
///         Box::pin(async { Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]) })
///     }
/// }
/// ```
pub trait Resolve: Send + Sync {
    /// The addresses of `host`, a name in lower case without a port.
    ///
    /// # Errors
    /// If the name has no address, or if no name server responds.
    fn resolve<'a>(&'a self, host: &'a str) -> Answers<'a>;
}

/// Limits concurrent queries to the operating system. Each query occupies a thread until it ends,
/// even if an untrusted name server never responds; other work needs threads, too.
static QUERY_PERMITS: Semaphore = Semaphore::const_new(64);

/// Resolves names as the operating system does, at most 64 at the same time.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> Answers<'a> {
        Box::pin(async move {
            let permit = QUERY_PERMITS.acquire().await.map_err(io::Error::other)?;
            let host = host.to_owned();
            // The thread continues even if the caller stops waiting, so the thread keeps the
            // permit.
            let resolved = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                // The function requires a port, which does not affect the resolution.
                let found = (host.as_str(), 0).to_socket_addrs()?;
                Ok(found.map(|address| address.ip()).collect())
            });
            resolved.await.map_err(io::Error::other)?
        })
    }
}
