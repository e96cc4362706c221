//! The error body of HTTP, and the framework's error as an axum response.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::multipart::MultipartError;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;

use crate::json::write_str;
use crate::{Code, Error, Problem};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const BEARER: HeaderValue = HeaderValue::from_static("Bearer");
/// Capacity for the headers of almost every response, allocated once. More headers double the
/// allocation.
const HEADERS: usize = 6;

/// A response with a JSON body.
pub fn json(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let mut headers = HeaderMap::with_capacity(HEADERS);
    headers.insert(CONTENT_TYPE, JSON);
    *response.headers_mut() = headers;
    response
}

/// The response for an error.
pub fn error(error: &Error, request_id: &str) -> Response<Body> {
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

/// The error body: `{ "error", "code", "requestId", "details" }`.
pub fn error_body(error: &Error, request_id: &str) -> Vec<u8> {
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
            out.extend_from_slice(if i == 0 {
                b",\"details\":[{\"path\":"
            } else {
                b",{\"path\":"
            });
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

/// An error that a handler of the app returned. The error lacks the request id, so the surrounding
/// layer writes the body.
#[derive(Clone)]
pub struct Raised(pub Arc<Error>);

impl IntoResponse for Error {
    /// The standard error body. Inside an application, the surrounding layer adds the request id
    /// and logs the cause with it.
    fn into_response(self) -> Response<Body> {
        let mut response = error(&self, "");
        response.extensions_mut().insert(Raised(Arc::new(self)));
        response
    }
}

impl From<MultipartError> for Error {
    /// A malformed body is `validation_failed`, and a body that is too large is `body_too_large`,
    /// so that `?` gives the same errors as extractors.
    fn from(error: MultipartError) -> Self {
        match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Self::too_large(None),
            // This code reads only the body of the request, so the client caused the error.
            _ => Self::invalid(Problem::new("", "type", error.body_text())),
        }
    }
}
