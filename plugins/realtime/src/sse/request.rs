//! Decides whether a request becomes a stream of events, and where the stream starts.

use linchpin::axum::http::HeaderMap;
use linchpin::axum::http::header::{CACHE_CONTROL, HeaderName, HeaderValue, ORIGIN};
use linchpin::{Code, Error, Result};

use super::accept::admits_event_stream;
use crate::connection::{Door, Identity, Without, check_kept};
use crate::protocol::Position;

/// A request for a stream.
#[derive(Clone, Copy, Debug)]
pub struct SseRequest<'a> {
    /// The query parameter `lastEventId`, for clients without `EventSource`.
    pub last_event_id: Option<&'a str>,
    /// The headers.
    pub headers: &'a HeaderMap,
}

/// Where a stream starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resume {
    /// At the top: the client was not there before.
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
    /// Where the stream starts.
    pub resume: Resume,
}

/// Checks a request. The first check that fails is the answer:
///
/// | Check | Answer |
/// |---|---|
/// | the node takes connections | 503 `unavailable` |
/// | `Accept` admits `text/event-stream` | 406 `not_acceptable` |
/// | the headers that the connection keeps have at most 8 KiB: credentials and headers about the request do not count | 431 `headers_too_large` |
/// | with a cookie as the credential, an `Origin` is allowed; without one, the page is not of another site (`Sec-Fetch-Site`) | 403 `origin_not_allowed` |
/// | the credential is good, or not required | 401 `unauthorized` |
/// | not too many connections | 429 `rate_limited` |
///
/// # Errors
/// The answer.
pub async fn check(request: SseRequest<'_>, door: &dyn Door) -> Result<Opened> {
    let headers = request.headers;
    if let Some(seconds) = door.closed() {
        let error = Error::new(Code::Unavailable, "The server takes no connection now");
        return Err(error.retry_after(seconds));
    }
    if !admits_event_stream(headers) {
        return Err(Error::new(
            Code::Other(406, "not_acceptable"),
            "This path answers `text/event-stream` only",
        ));
    }
    check_kept(headers)?;
    let by_cookie = door.by_cookie(headers);
    let origins = headers.get_all(ORIGIN).iter();
    let foreign = |origin: &HeaderValue| {
        let origin = origin.to_str();
        !origin.is_ok_and(|origin| door.admits_origin(origin))
    };
    // A page of another site can send the cookie without `Origin`, as for an image.
    let is_cross_site = || {
        !headers.contains_key(ORIGIN)
            && headers
                .get("sec-fetch-site")
                .is_some_and(|site| site.as_bytes() == b"cross-site")
    };
    if by_cookie == Some(true) && (origins.into_iter().any(foreign) || is_cross_site()) {
        return Err(Error::new(
            Code::Other(403, "origin_not_allowed"),
            "Pages of this origin may not connect",
        ));
    }
    let identity = match by_cookie {
        Some(_) => Some(
            door.identify(headers)
                .await?
                .ok_or_else(Error::unauthorized)?,
        ),
        None if door.without() == Without::Anonymous => None,
        None => return Err(Error::unauthorized()),
    };
    door.count(identity.as_ref()).await?;
    Ok(Opened {
        identity,
        resume: resume(headers, request.last_event_id),
    })
}

/// The media type of the response.
pub const MEDIA_TYPE: &str = "text/event-stream; charset=utf-8";

/// The further headers of the response. A proxy must neither store, compress nor collect the stream.
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

/// The header wins over the parameter, which clients without `EventSource` use.
fn resume(headers: &HeaderMap, parameter: Option<&str>) -> Resume {
    let mut values = headers.get_all("last-event-id").iter();
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
