//! Refuses requests that a proxy could read differently from this server: those without exactly one
//! valid host, and those with a transfer coding other than `chunked`.

use std::net::Ipv6Addr;

use axum::body::{Body, HttpBody};
use axum::http::header::{HOST, TRANSFER_ENCODING, X_CONTENT_TYPE_OPTIONS};
use axum::http::{Request, Response, Version};

use super::request_id::{self, RequestId};
use super::response;
use crate::{Error, Problem};

/// The `path` of problems with the host.
const HOST_PROBLEM_PATH: &str = "header:Host";

/// The response to a request that a proxy may read differently: without a host, with several hosts
/// or an invalid one, or with a transfer coding other than chunked. `None` if the request is fine.
pub(crate) fn refused<B: HttpBody>(request: &Request<B>) -> Option<Response<Body>> {
    let problem = host(request).or_else(|| coding(request))?;
    let id = RequestId::of(request.headers());
    let mut answer = response::error(&Error::invalid(problem), id.as_str());
    let headers = answer.headers_mut();
    headers.insert(request_id::HEADER, id.header());
    headers.insert(X_CONTENT_TYPE_OPTIONS, response::NOSNIFF);
    Some(answer)
}

fn host<B>(request: &Request<B>) -> Option<Problem> {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if is_host(host.as_bytes()) => None,
        (Some(_), None) => Some(Problem::new(
            HOST_PROBLEM_PATH,
            "format",
            "must be a host, optionally with a port",
        )),
        (None, _) if request.version() < Version::HTTP_11 => None,
        (None, _) => Some(Problem::new(HOST_PROBLEM_PATH, "required", "is required")),
        (Some(_), Some(_)) => Some(Problem::new(
            HOST_PROBLEM_PATH,
            "duplicate",
            "must be given once",
        )),
    }
}

/// Whether the text is a name or an IP address, optionally with a port. IPv6 addresses are in
/// brackets. Names may contain the characters of DNS names, `_`, `~` and percent-encoded bytes, but
/// no delimiters.
fn is_host(text: &[u8]) -> bool {
    let end = match text.first() {
        None => return false,
        Some(b'[') => {
            let Some(end) = text.iter().position(|b| *b == b']') else {
                return false;
            };
            let address = std::str::from_utf8(&text[1..end]);
            if !address.is_ok_and(|address| address.parse::<Ipv6Addr>().is_ok()) {
                return false;
            }
            end + 1
        }
        Some(_) => {
            let end = text.iter().position(|b| *b == b':').unwrap_or(text.len());
            if end == 0 || !is_name(&text[..end]) {
                return false;
            }
            end
        }
    };
    match text[end..].split_first() {
        None | Some((b':', [])) => true,
        Some((b':', port)) => {
            port.iter().all(u8::is_ascii_digit)
                && std::str::from_utf8(port).is_ok_and(|port| port.parse::<u16>().is_ok())
        }
        Some(_) => false,
    }
}

fn is_name(mut text: &[u8]) -> bool {
    while let Some((byte, rest)) = text.split_first() {
        text = match (byte, rest) {
            (b'%', [a, b, rest @ ..]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => rest,
            (b'-' | b'.' | b'_' | b'~', _) => rest,
            (byte, _) if byte.is_ascii_alphanumeric() => rest,
            _ => return false,
        };
    }
    true
}

/// Refuses transfer codings other than `chunked`. The HTTP library decodes only chunks. With
/// another coding, the server would read compressed bytes, or other bytes than a proxy reads.
fn coding<B: HttpBody>(request: &Request<B>) -> Option<Problem> {
    // Only an empty body is at its end before it is read. A chunked body never is.
    if request.body().is_end_stream() {
        return None;
    }
    let mut codings = request.headers().get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => None,
        (Some(one), None) if one.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") => None,
        _ => Some(Problem::new(
            "header:Transfer-Encoding",
            "enum",
            "must be exactly `chunked`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(version: Version, hosts: &[&str]) -> Option<u16> {
        let mut request = Request::builder().version(version).uri("/posts");
        for host in hosts {
            request = request.header(HOST, *host);
        }
        refused(&request.body(Body::empty()).unwrap_or_default()).map(|r| r.status().as_u16())
    }

    #[test]
    fn a_request_needs_exactly_one_host() {
        assert_eq!(status(Version::HTTP_11, &["a"]), None);
        assert_eq!(status(Version::HTTP_11, &[]), Some(400));
        assert_eq!(status(Version::HTTP_11, &["a", "a"]), Some(400));
        assert_eq!(status(Version::HTTP_10, &[]), None);
        assert_eq!(status(Version::HTTP_10, &["a", "b"]), Some(400));
    }
}
