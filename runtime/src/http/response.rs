//! Answers: records, pages, errors.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;

use super::request_id::RequestId;
use super::serve::NO_STORE;
use crate::json::{write_page, write_str};
use crate::{Code, Error};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Answers are what they say, whatever they look like to a browser.
pub(super) const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const BEARER: HeaderValue = HeaderValue::from_static("Bearer");
/// What tells a caller who is served as anonymous that the credential of the request cannot be used.
const INVALID_TOKEN: HeaderValue = HeaderValue::from_static("Bearer error=\"invalid_token\"");
/// Room for the headers of nearly every answer, allocated once; more would double what is allocated.
const HEADERS: usize = 6;

/// An answer without a body.
pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// An answer of JSON bytes.
pub(super) fn json(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let mut headers = HeaderMap::with_capacity(HEADERS);
    headers.insert(CONTENT_TYPE, JSON);
    *response.headers_mut() = headers;
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
    // Digits in quotes are a header value always.
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// The answer to a call that failed.
pub(super) fn error(error: &Error, request_id: &str) -> Response<Body> {
    let code = error.code();
    let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(status, error_body(error, request_id));
    let headers = response.headers_mut();
    if let Some(seconds) = error.retry_after_seconds() {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if matches!(code, Code::Unauthorized) {
        headers.insert(WWW_AUTHENTICATE, BEARER);
    }
    response
}

/// Tells a caller who is served as anonymous that the credential of the request cannot be used. A 401 is left as it is: its code says
/// whether another credential helps.
pub(super) fn invalid_credential(response: &mut Response<Body>) {
    if response.status() != StatusCode::UNAUTHORIZED {
        let headers = response.headers_mut();
        headers.entry(WWW_AUTHENTICATE).or_insert(INVALID_TOKEN);
        // Whatever the route says of caching: this answer is of one caller.
        headers.insert(CACHE_CONTROL, NO_STORE);
    }
}

pub(super) fn error_body(error: &Error, request_id: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(160);
    out.extend_from_slice(b"{\"error\":");
    let text = match error.code() {
        Code::Internal => "Internal error",
        _ => error.message(),
    };
    write_str(text, &mut out);
    out.extend_from_slice(b",\"code\":");
    write_str(error.code().as_str(), &mut out);
    out.extend_from_slice(b",\"requestId\":");
    write_str(request_id, &mut out);
    if !error.details().is_empty() && !matches!(error.code(), Code::Internal) {
        let mut details: Vec<_> = error.details().iter().collect();
        details.sort();
        for (i, problem) in details.into_iter().enumerate() {
            out.extend_from_slice(if i == 0 { b",\"details\":[{\"path\":" } else { b",{\"path\":" });
            write_str(&problem.path, &mut out);
            out.extend_from_slice(b",\"code\":");
            write_str(problem.code, &mut out);
            out.extend_from_slice(b",\"message\":");
            write_str(&problem.message, &mut out);
            out.push(b'}');
        }
        out.push(b']');
    }
    out.push(b'}');
    out
}

/// An answer that was made from an error, outside of any request: with its id, and the error.
pub(super) fn raised(mut response: Response<Body>, id: &RequestId) -> (Response<Body>, Option<Arc<Error>>) {
    let Some(Raised(raised)) = response.extensions_mut().remove::<Raised>() else { return (response, None) };
    let (mut parts, _) = response.into_parts();
    let said = error(&raised, id.as_str()).into_body();
    parts.headers.remove(CONTENT_LENGTH);
    (Response::from_parts(parts, said), Some(raised))
}

/// The answer to `HEAD`: the headers of the answer to `GET`, its length included, and no body.
pub(super) fn without_body(response: Response<Body>) -> Response<Body> {
    use axum::body::HttpBody;
    let (mut parts, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact()
        && !parts.headers.contains_key(CONTENT_LENGTH)
        && !matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
    {
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(parts, Body::empty())
}

/// An error that a handler of the user returned. It knows no request id; the layer around it does, and writes the body.
#[derive(Clone)]
pub(super) struct Raised(pub(super) Arc<Error>);

impl IntoResponse for Error {
    /// The contract's error body. Inside an application the request id is filled in, and the cause logged under it.
    fn into_response(self) -> Response<Body> {
        let mut response = error(&self, "");
        response.extensions_mut().insert(Raised(Arc::new(self)));
        response
    }
}
