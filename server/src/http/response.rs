//! Responses: records, pages, errors.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Response, StatusCode};

pub(super) use linchpin_core::response::{Raised, error, error_body, json};

use super::request_id::RequestId;
use super::serve::NO_STORE;
use crate::Error;
use crate::json::write_page;

/// Browsers must not guess another content type.
pub(super) const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
/// The challenge to a caller who is treated as anonymous because the credential is invalid.
const INVALID_TOKEN: HeaderValue = HeaderValue::from_static("Bearer error=\"invalid_token\"");

/// A response without a body.
pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// The envelope of a page around records that are JSON already.
pub(super) fn page(items: &[u8], next_cursor: Option<&str>) -> Vec<u8> {
    let mut out = Vec::with_capacity(items.len() + next_cursor.map_or(0, str::len) + 64);
    write_page(items, next_cursor, &mut out);
    out
}

/// `405` or `204` (for `OPTIONS`) with the methods a path has.
pub(super) fn allow(mut response: Response<Body>, allow: &HeaderValue) -> Response<Body> {
    response.headers_mut().insert(ALLOW, allow.clone());
    response
}

/// The entity tag of a version.
pub(super) fn etag(version: i64) -> HeaderValue {
    let mut text = String::with_capacity(22);
    text.push('"');
    text.push_str(itoa::Buffer::new().format(version));
    text.push('"');
    // Digits in quotes are always a valid header value.
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// Adds a header for a caller who is treated as anonymous: the credential of the request is
/// invalid. A 401 stays unchanged: its code shows whether another credential helps.
pub(super) fn invalid_credential(response: &mut Response<Body>) {
    if response.status() != StatusCode::UNAUTHORIZED {
        let headers = response.headers_mut();
        headers.entry(WWW_AUTHENTICATE).or_insert(INVALID_TOKEN);
        // Even if the route allows caching, this response is for one caller and must not be cached.
        headers.insert(CACHE_CONTROL, NO_STORE);
    }
}

/// Rebuilds a response that a handler created from an error, so that it contains the request id.
/// Also returns the error, for the log. Other responses stay unchanged.
pub(super) fn raised(
    mut response: Response<Body>,
    id: &RequestId,
) -> (Response<Body>, Option<Arc<Error>>) {
    let Some(Raised(raised)) = response.extensions_mut().remove::<Raised>() else {
        return (response, None);
    };
    let (mut parts, _) = response.into_parts();
    let body = error(&raised, id.as_str()).into_body();
    parts.headers.remove(CONTENT_LENGTH);
    (Response::from_parts(parts, body), Some(raised))
}

/// The response to `HEAD`: the headers of the response to `GET`, including its length, and no body.
pub(super) fn without_body(response: Response<Body>) -> Response<Body> {
    use axum::body::HttpBody;
    let (mut parts, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact()
        && !parts.headers.contains_key(CONTENT_LENGTH)
        && !matches!(
            parts.status,
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        )
    {
        parts
            .headers
            .insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(parts, Body::empty())
}
