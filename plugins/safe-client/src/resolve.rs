//! The resolution of names.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;

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

/// Resolves names as the operating system does.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> Answers<'a> {
        Box::pin(async move {
            // The port is not part of the question; the function wants one.
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}
