//! Decides whether a request becomes a stream of events, and where the stream starts.

use linchpin::axum::http::HeaderMap;
use linchpin::axum::http::header::{CACHE_CONTROL, HeaderName, HeaderValue, ORIGIN};
use linchpin::{Code, Error, Result};

use super::accept::admits_event_stream;
use crate::connection::{HandshakeChecks, Identity, MissingCredential, check_kept_headers};
use crate::protocol::Position;

/// A request for a stream.
#[derive(Clone, Copy, Debug)]
pub struct SseRequest<'a> {
    /// The query parameter `lastEventId`, for clients without `EventSource`.
    pub last_event_id: Option<&'a str>,
    /// The headers.
    pub headers: &'a HeaderMap,
}

/// The position at which a stream starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resume {
    /// At the top, because the client sent no position.
    Top,
    /// After this position, if the stream still has it.
    After(Position),
    /// At the top, with `linchpin:reset` as the first event: the position cannot be read.
    Lost,
}

/// A request that becomes a stream.
#[derive(Debug)]
pub struct Opened {
    /// The caller; `None` for an anonymous one.
    pub identity: Option<Identity>,
    /// The position at which the stream starts.
    pub resume: Resume,
}

/// Checks a request in the order of this table. The first check that fails gives the answer:
///
/// | Check | Answer |
/// |---|---|
/// | the node accepts connections | 503 `unavailable` |
/// | `Accept` admits `text/event-stream` | 406 `not_acceptable` |
/// | the headers that the connection keeps have at most 8 KiB, without credentials and headers about the request | 431 `headers_too_large` |
/// | with a cookie: `Origin`, or else `Sec-Fetch-Site`, is allowed | 403 `origin_not_allowed` |
/// | the credential is good, or not required | 401 `unauthorized` |
/// | the caller has not opened too many streams | 429 `rate_limited` |
///
/// # Errors
/// The answer.
pub async fn check(request: SseRequest<'_>, checks: &dyn HandshakeChecks) -> Result<Opened> {
    let headers = request.headers;
    if let Some(seconds) = checks.retry_after_if_closed() {
        let error = Error::new(
            Code::Unavailable,
            "The server does not accept connections now",
        );
        return Err(error.retry_after(seconds));
    }
    if !admits_event_stream(headers) {
        return Err(Error::new(
            Code::Other(406, "not_acceptable"),
            "This path returns only `text/event-stream`",
        ));
    }
    check_kept_headers(headers)?;
    let credential_is_cookie = checks.credential_is_cookie(headers);
    let origins = headers.get_all(ORIGIN).iter();
    let foreign = |origin: &HeaderValue| {
        let origin = origin.to_str();
        !origin.is_ok_and(|origin| checks.admits_origin(origin))
    };
    // A page of another site can send the cookie without `Origin`, for example when it loads an
    // image.
    let is_cross_site = || {
        !headers.contains_key(ORIGIN)
            && headers
                .get("sec-fetch-site")
                .is_some_and(|site| site.as_bytes() == b"cross-site")
    };
    if credential_is_cookie == Some(true) && (origins.into_iter().any(foreign) || is_cross_site()) {
        return Err(Error::new(
            Code::Other(403, "origin_not_allowed"),
            "Pages of this origin may not connect",
        ));
    }
    let identity = match credential_is_cookie {
        Some(_) => Some(
            checks
                .identify(headers)
                .await?
                .ok_or_else(Error::unauthorized)?,
        ),
        None if checks.on_missing_credential() == MissingCredential::Anonymous => None,
        None => return Err(Error::unauthorized()),
    };
    checks.count(identity.as_ref()).await?;
    Ok(Opened {
        identity,
        resume: resume(headers, request.last_event_id),
    })
}

/// The media type of the response.
pub const MEDIA_TYPE: &str = "text/event-stream; charset=utf-8";

/// The further headers of the response. They prevent a proxy from storing, compressing or buffering
/// the stream.
pub fn response_headers() -> [(HeaderName, HeaderValue); 2] {
    [
        (
            CACHE_CONTROL,
            HeaderValue::from_static("no-store, no-transform"),
        ),
        (
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        ),
    ]
}

/// Reads the position of the client. The header `Last-Event-ID` overrides the query parameter,
/// which clients without `EventSource` use.
fn resume(headers: &HeaderMap, parameter: Option<&str>) -> Resume {
    let mut values = headers.get_all("last-event-id").iter();
    // `?` is not a valid position.
    let id = match (values.next(), values.next()) {
        (None, _) => parameter,
        (Some(one), None) => Some(one.to_str().unwrap_or("?")),
        (Some(_), Some(_)) => Some("?"),
    };
    match id {
        None | Some("") => Resume::Top,
        Some(id) => Position::parse(id).map_or(Resume::Lost, Resume::After),
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
