//! The headers that are kept for the life of a connection.

use linchpin::axum::http::{HeaderMap, HeaderName, HeaderValue};
use linchpin::{Code, Error, Result};

/// 431 for a request whose kept headers are too long.
pub(crate) const HEADERS_TOO_LARGE: Code = Code::Other(431, "headers_too_large");

/// The maximum size of the kept names and values, in bytes. The server accepts 64 KiB of
/// headers for each request. If each of 20 000 connections kept as much, they would hold over
/// 1 GiB.
const MAX_KEPT: usize = 8 << 10;

/// Headers that are not kept, because no later check reads them: credentials, and headers about the
/// handshake, the transport, conditional requests or the display of a page.
const NOT_KEPT: [&str; 26] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "x-user-token",
    "accept-encoding",
    "cache-control",
    "connection",
    "content-length",
    "content-type",
    "dnt",
    "expect",
    "idempotency-key",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-event-id",
    "pragma",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "upgrade-insecure-requests",
    "x-request-id",
];

fn is_kept(name: &HeaderName) -> bool {
    let name = name.as_str();
    !NOT_KEPT.contains(&name) && !name.starts_with("sec-")
}

/// Refuses a request whose kept headers are too long.
///
/// # Errors
/// 431 `headers_too_large`.
pub(crate) fn check_kept_headers(headers: &HeaderMap) -> Result<()> {
    let kept = headers.iter().filter(|(name, _)| is_kept(name));
    let bytes: usize = kept
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    if bytes <= MAX_KEPT {
        return Ok(());
    }
    Err(Error::new(
        HEADERS_TOO_LARGE,
        "The headers are too long for a long-lived connection (at most 8 KiB)",
    ))
}

/// Returns the headers that providers of context values and middleware may read later.
///
/// Names and values are copied. The originals share one buffer with the whole request, and would
/// keep that buffer in memory.
pub(crate) fn kept_headers(headers: &HeaderMap) -> HeaderMap {
    // A map without a given capacity allocates eight slots. Most connections have fewer headers.
    let mut all = HeaderMap::with_capacity(headers.keys().filter(|name| is_kept(name)).count());
    for (name, value) in headers.iter().filter(|(name, _)| is_kept(name)) {
        let name = HeaderName::from_bytes(name.as_str().as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_bytes())) {
            all.append(name, value);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, usize)]) -> HeaderMap {
        let value = |length| HeaderValue::from_str(&"x".repeat(length)).unwrap();
        let all = all.iter();
        all.map(|(name, length)| (HeaderName::from_static(name), value(*length)))
            .collect()
    }

    #[test]
    fn a_connection_keeps_few_bytes_and_no_credential() {
        let long = headers(&[
            ("cookie", 60_000),
            ("authorization", 5_000),
            ("sec-websocket-protocol", 5_000),
            ("if-none-match", 5_000),
            ("x-trace", MAX_KEPT - 7),
        ]);
        assert!(check_kept_headers(&long).is_ok(), "at the limit");
        let names: Vec<String> = kept_headers(&long)
            .keys()
            .map(ToString::to_string)
            .collect();
        assert_eq!(names, ["x-trace"]);
        let longer = headers(&[("x-trace", MAX_KEPT - 6)]);
        let refused = check_kept_headers(&longer).unwrap_err();
        assert_eq!(refused.code(), Code::Other(431, "headers_too_large"));
    }
}
