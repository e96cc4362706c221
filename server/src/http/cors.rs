//! Cross-origin requests (CORS): the origins whose pages may read responses.

use axum::http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ALLOW, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};

const EXPOSED: HeaderValue =
    HeaderValue::from_static("etag, location, retry-after, www-authenticate, x-request-id");
/// The time for which a browser may cache the response to a preflight: ten minutes, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The origins whose pages may read responses. Without it, no response has CORS headers, and
/// browsers refuse to show responses to pages of other origins.
#[derive(Clone, Debug, Default)]
pub struct Cors {
    /// Exact origins, such as `https://app.example.com`. There is no wildcard.
    pub origins: Vec<String>,
    /// Whether requests may carry cookies.
    pub credentials: bool,
}

/// The CORS headers of the response to one request.
pub(super) struct Grant {
    /// The page's origin; `None` if no list contains it, or if the request has no `Origin` header.
    origin: Option<HeaderValue>,
    credentials: bool,
    /// Whether the request is a preflight.
    preflight: bool,
    /// The headers that the preflight asks for.
    requested_headers: Option<HeaderValue>,
}

impl Cors {
    /// Returns the problem of a text that is not an origin in the form that browsers send; `None`
    /// if it is one. The form must be exact, because origins are compared byte for byte. In the
    /// error message, the returned text follows the name of the setting.
    pub(crate) fn refuses(origin: &str) -> Option<String> {
        match url::Url::parse(origin) {
            _ if origin == "*" => {
                Some("must name origins: `*` would let every web page read responses".to_owned())
            }
            Ok(url)
                if matches!(url.scheme(), "http" | "https")
                    && url.origin().ascii_serialization() == origin =>
            {
                None
            }
            Ok(url) if matches!(url.scheme(), "http" | "https") => Some(format!(
                "must be an origin such as `{}`, found `{origin}`",
                url.origin().ascii_serialization()
            )),
            _ => Some(format!(
                "must be an origin such as `https://app.example.com`, found `{origin}`"
            )),
        }
    }

    fn holds(&self, origin: &HeaderValue) -> bool {
        self.origins
            .iter()
            .any(|allowed| origin.as_bytes() == allowed.as_bytes())
    }
}

/// Whether pages of `origin` may send requests with a user's credential: `origin` is the host of
/// the request itself, or a list contains it. With a cookie as the credential, only lists with
/// credentials count.
pub fn allows_origin(lists: &[Cors], origin: &str, host: Option<&str>, by_cookie: bool) -> bool {
    let mut lists = lists.iter().filter(|list| list.credentials || !by_cookie);
    if lists.any(|list| list.origins.iter().any(|listed| listed == origin)) {
        return true;
    }
    // TLS ends at a proxy, so the scheme of the request is not known here.
    let authority = origin.strip_prefix("https://");
    let authority = authority.or_else(|| origin.strip_prefix("http://"));
    authority.zip(host).is_some_and(|(authority, host)| {
        !authority.is_empty() && authority.eq_ignore_ascii_case(host)
    })
}

/// The permissions that these lists give to a request; `None` if there are no lists.
pub(super) fn grant(lists: &[Cors], method: &Method, headers: &HeaderMap) -> Option<Grant> {
    if lists.is_empty() {
        return None;
    }
    let origin = headers
        .get(ORIGIN)
        .filter(|origin| lists.iter().any(|list| list.holds(origin)));
    Some(Grant {
        origin: origin.cloned(),
        credentials: origin.is_some_and(|origin| {
            lists
                .iter()
                .any(|list| list.credentials && list.holds(origin))
        }),
        preflight: method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD),
        requested_headers: headers.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned(),
    })
}

impl Grant {
    /// Writes the headers into the response.
    pub(super) fn apply(self, status: StatusCode, headers: &mut HeaderMap) {
        // Every response depends on the origin, so a cache must not return it to a page of another
        // origin.
        headers.append(VARY, HeaderValue::from_static("origin"));
        let Some(origin) = self.origin else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        if self.credentials {
            headers.insert(
                ACCESS_CONTROL_ALLOW_CREDENTIALS,
                HeaderValue::from_static("true"),
            );
        }
        if !self.preflight {
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        } else if status == StatusCode::NO_CONTENT {
            if let Some(methods) = headers.get(ALLOW).cloned() {
                headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
            }
            if let Some(requested_headers) = self.requested_headers {
                headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, requested_headers);
            }
            headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        }
    }
}
