//! The URL of a request.

use std::net::{IpAddr, SocketAddr};

use http::Uri;
use url::{Host, Url};

use crate::error::Refusal;

/// The maximum length of a URL, in bytes.
const MAX_URL_BYTES: usize = 2_048;
/// The last labels of names of private networks.
const PRIVATE_LABELS: [&str; 3] = ["localhost", "local", "internal"];

/// A URL whose text is checked; the addresses of its host are not checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) tls: bool,
    pub(crate) host: Host<String>,
    pub(crate) port: u16,
    /// The value of the header `host`.
    pub(crate) authority: String,
    /// The path with the query.
    pub(crate) path: Uri,
}

impl Target {
    /// Reads a URL by the rules of browsers.
    ///
    /// # Errors
    /// The reason why the URL is refused.
    pub(crate) fn parse(text: &str, allow_http: bool) -> Result<Self, Refusal> {
        if text.len() > MAX_URL_BYTES {
            return Err(Refusal::TooLong);
        }
        // The parser would remove these characters, although they are not valid in a URL.
        if text.bytes().any(|b| b.is_ascii_control()) || text.trim() != text {
            return Err(Refusal::Unreadable);
        }
        let url = Url::parse(text).map_err(|_| Refusal::Unreadable)?;
        let tls = match url.scheme() {
            "https" => true,
            "http" if allow_http => false,
            _ => return Err(Refusal::Scheme),
        };
        // The parser also accepts `http:host` and `https:\\host`, as browsers do.
        let scheme = url.scheme().len();
        if !text.is_char_boundary(scheme + 3) || &text[scheme..scheme + 3] != "://" {
            return Err(Refusal::Unreadable);
        }
        // The parsed URL does not show an empty user name.
        let authority = text[scheme + 3..].split(['/', '\\', '?', '#']).next();
        if authority.is_some_and(|text| text.contains('@')) {
            return Err(Refusal::UserInformation);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::UserInformation);
        }
        if url.fragment().is_some() {
            return Err(Refusal::Fragment);
        }
        let host = match url.host() {
            Some(Host::Domain(name)) => Host::Domain(public_name(name)?),
            Some(Host::Ipv4(address)) => Host::Ipv4(address),
            Some(Host::Ipv6(address)) => Host::Ipv6(address),
            None => return Err(Refusal::Unreadable),
        };
        let port = url.port_or_known_default().ok_or(Refusal::Port)?;
        if !matches!(port, 80 | 443 | 1024..) {
            return Err(Refusal::Port);
        }
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_string(),
        };
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let path = path.parse().map_err(|_| Refusal::Unreadable)?;
        Ok(Self {
            tls,
            host,
            port,
            authority,
            path,
        })
    }

    /// The address, if the host is an IP address.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let ip = match &self.host {
            Host::Domain(_) => return None,
            Host::Ipv4(address) => IpAddr::V4(*address),
            Host::Ipv6(address) => IpAddr::V6(*address),
        };
        Some(SocketAddr::new(ip, self.port))
    }
}

/// Returns a name without the dot at its end, if it can be the name of a public host.
fn public_name(name: &str) -> Result<String, Refusal> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let labels = name.split('.');
    let well_formed = labels.clone().all(|label| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    });
    let last = labels.clone().next_back().unwrap_or_default();
    if !well_formed || labels.count() < 2 || name.len() > 253 || PRIVATE_LABELS.contains(&last) {
        return Err(Refusal::Host);
    }
    Ok(name.to_owned())
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
