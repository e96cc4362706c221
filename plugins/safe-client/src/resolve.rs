//! The resolution of names.

use std::future::Future;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::pin::Pin;

use tokio::sync::Semaphore;

/// The addresses of a name, when they are there.
pub type Answers<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Resolves the names of hosts. The client asks once for each request, and checks every answer.
///
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
///
/// use linchpin_safe_client::{Answers, Resolve};
///
/// /// Every name is this machine, as a test needs it.
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
    /// The name has no address, or no name server answers.
    fn resolve<'a>(&'a self, host: &'a str) -> Answers<'a>;
}

/// Questions to the operating system at the same time. Each has a thread until it is answered, also
/// if the name server of a stranger never answers; other work needs threads, too.
static PLACES: Semaphore = Semaphore::const_new(64);

/// Resolves names as the operating system does, at most 64 at the same time.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> Answers<'a> {
        Box::pin(async move {
            let place = PLACES.acquire().await.map_err(io::Error::other)?;
            let host = host.to_owned();
            // The thread asks on when nobody waits for it any more, so it keeps the place.
            let asked = tokio::task::spawn_blocking(move || {
                let _place = place;
                // The port is not part of the question; the function wants one.
                let found = (host.as_str(), 0).to_socket_addrs()?;
                Ok(found.map(|address| address.ip()).collect())
            });
            asked.await.map_err(io::Error::other)?
        })
    }
}
