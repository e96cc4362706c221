//! Members of a response that are sent only once: no later read returns them, and nothing stores
//! them.
//!
//! Code of the app sets them while it runs. They are added to the response after everything that
//! stores the response: a replay under an idempotency key does not contain them.

use axum::body::Body;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderName, Response};
use http_body_util::BodyExt;

use super::serve::NO_STORE;
use crate::cx::Once;
use crate::{Error, Result};

/// The response header of a replayed response.
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The response with the one-time members.
///
/// # Errors
/// `internal` if a one-time member was not set, or if the response is not a JSON object.
pub(super) async fn reveal(once: &Once, response: Response<Body>) -> Result<Response<Body>> {
    if !response.status().is_success() || response.headers().contains_key(REPLAYED) {
        return Ok(response);
    }
    let (mut parts, body) = response.into_parts();
    let record = body.collect().await.map_err(Error::internal)?.to_bytes();
    let members = once.take()?;
    let mut added = Vec::with_capacity(128);
    crate::json::write_object(members, &mut added);
    let merged = match (record.strip_suffix(b"}"), added.strip_prefix(b"{")) {
        (Some(b"{"), _) => added,
        (Some(record), Some(added)) => [record, b",", added].concat(),
        _ => {
            return Err(Error::internal(
                "`output_once` needs a response that is one record",
            ));
        }
    };
    parts.headers.insert(CACHE_CONTROL, NO_STORE);
    Ok(Response::from_parts(parts, Body::from(merged)))
}
