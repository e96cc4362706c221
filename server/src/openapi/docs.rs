//! Serves the OpenAPI document and a page that shows it.
//!
//! The page is Swagger UI, embedded in compressed form. It loads nothing from another host, and its
//! content security policy forbids such requests.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use sha2::{Digest, Sha256};

/// Only scripts, styles and requests of this host; no framing of the page. Images may be `data:`
/// URLs, because the styles contain some.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The file names contain the version, so clients can cache them forever.
const FOREVER: &str = "public, max-age=31536000, immutable";

/// `GET /openapi.json`: the document, with an `ETag`.
pub fn openapi_router(document: String) -> Router {
    let digest = Sha256::digest(document.as_bytes());
    let hex = digest
        .iter()
        .take(16)
        .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    let tag: Arc<str> = format!("\"{hex}\"").into();
    let document = Bytes::from(document);
    let answer = move |headers: HeaderMap| {
        let (document, tag) = (document.clone(), Arc::clone(&tag));
        async move { Ok::<_, Infallible>(openapi(document, &tag, &headers)) }
    };
    Router::new().route("/openapi.json", get(answer))
}

fn openapi(document: Bytes, tag: &str, headers: &HeaderMap) -> Response {
    let known = headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','));
    let common = [
        (ETAG, tag),
        (CACHE_CONTROL, "no-cache"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    let common = common.map(|(name, value)| (name, value.to_owned()));
    if known
        .map(str::trim)
        .any(|known| known == tag || known == "*")
    {
        return (StatusCode::NOT_MODIFIED, common).into_response();
    }
    (common, [(CONTENT_TYPE, "application/json")], document).into_response()
}

/// `GET /docs`: an interactive page for `/openapi.json`, which must be mounted at the same level.
///
/// It works below any prefix, without network access, under a strict content security policy.
pub fn docs_router() -> Router {
    Router::new()
        .route("/docs", get(page))
        .route(
            "/docs/start.js",
            get(|| async {
                asset(
                    "text/javascript; charset=utf-8",
                    "no-cache",
                    None,
                    include_bytes!("assets/start.js"),
                )
            }),
        )
        .route(
            "/docs/swagger-ui-5.35.0.js",
            get(|| async {
                asset(
                    "text/javascript; charset=utf-8",
                    FOREVER,
                    Some("gzip"),
                    include_bytes!("assets/swagger-ui-5.35.0.js.gz"),
                )
            }),
        )
        .route(
            "/docs/swagger-ui-5.35.0.css",
            get(|| async {
                asset(
                    "text/css; charset=utf-8",
                    FOREVER,
                    Some("gzip"),
                    include_bytes!("assets/swagger-ui-5.35.0.css.gz"),
                )
            }),
        )
}

/// All paths of [`openapi_router`] and [`docs_router`].
pub const PATHS: [&str; 5] = [
    "/openapi.json",
    "/docs",
    "/docs/start.js",
    "/docs/swagger-ui-5.35.0.js",
    "/docs/swagger-ui-5.35.0.css",
];

async fn page() -> Response {
    let mut response = asset(
        "text/html; charset=utf-8",
        "no-cache",
        None,
        include_bytes!("assets/page.html"),
    );
    response
        .headers_mut()
        .insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

/// A file of the page. Compressed files are always sent compressed, because every browser supports
/// gzip.
fn asset(
    kind: &'static str,
    cache: &'static str,
    encoding: Option<&'static str>,
    content: &'static [u8],
) -> Response {
    let mut response = Response::new(Body::from(content));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if let Some(encoding) = encoding {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    }
    response
}
