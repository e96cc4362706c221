//! Cross-origin requests: which pages of other origins may read answers.

use axum::http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ALLOW, ORIGIN,
    VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};

const EXPOSED: HeaderValue = HeaderValue::from_static("etag, location, retry-after, x-request-id");
/// For how long a browser may remember a preflight: ten minutes, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The origins whose pages may read answers. Without it, no answer names an origin, and browsers keep other pages out.
#[derive(Clone, Debug, Default)]
pub struct Cors {
    /// Exact origins, such as `https://app.example.com`. There is no wildcard.
    pub origins: Vec<String>,
    /// Whether requests may carry cookies.
    pub credentials: bool,
}

/// What the answer to one request says about it.
pub(super) struct Grant {
    /// The page's origin; `None` when it is not allowed, or the request is not from another page.
    origin: Option<HeaderValue>,
    credentials: bool,
    /// Whether this is the question before the request.
    preflight: bool,
    /// The headers that question names.
    asked: Option<HeaderValue>,
}

impl Cors {
    pub(super) fn grant(&self, method: &Method, headers: &HeaderMap) -> Grant {
        let origin = headers.get(ORIGIN).filter(|o| self.origins.iter().any(|allowed| o.as_bytes() == allowed.as_bytes()));
        let preflight = method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        Grant {
            origin: origin.cloned(),
            credentials: self.credentials,
            preflight,
            asked: headers.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned(),
        }
    }
}

impl Grant {
    /// Writes it into the answer.
    pub(super) fn apply(self, status: StatusCode, headers: &mut HeaderMap) {
        // Whatever is answered depends on the origin; a cache must not hand it to another one.
        headers.append(VARY, HeaderValue::from_static("origin"));
        let Some(origin) = self.origin else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        if self.credentials {
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
        if !self.preflight {
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        } else if status == StatusCode::NO_CONTENT {
            if let Some(methods) = headers.get(ALLOW).cloned() {
                headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
            }
            if let Some(asked) = self.asked {
                headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked);
            }
            headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        }
    }
}
