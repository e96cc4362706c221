//! What a call answers once: members that no later read gives, and that nothing keeps.
//!
//! Code of the user says them while it runs. They join the answer on its way out, behind everything
//! that writes something down: a repetition under an idempotency key finds the answer as it was
//! before.

use axum::body::Body;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderName, Response};
use http_body_util::BodyExt;

use super::serve::NO_STORE;
use crate::cx::Once;
use crate::{Error, Result};

/// That an answer has been given before.
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The answer with what was said.
///
/// # Errors
/// `internal` when something was not.
pub(super) async fn reveal(once: &Once, response: Response<Body>) -> Result<Response<Body>> {
    if !response.status().is_success() || response.headers().contains_key(REPLAYED) {
        return Ok(response);
    }
    let (mut parts, body) = response.into_parts();
    let record = body.collect().await.map_err(Error::internal)?.to_bytes();
    let members = once.take()?;
    let mut added = Vec::with_capacity(128);
    crate::json::write_object(members, &mut added);
    let whole = match (record.strip_suffix(b"}"), added.strip_prefix(b"{")) {
        (Some(b"{"), _) => added,
        (Some(record), Some(added)) => [record, b",", added].concat(),
        _ => {
            return Err(Error::internal(
                "what is given once needs an answer that is one record",
            ));
        }
    };
    parts.headers.insert(CACHE_CONTROL, NO_STORE);
    Ok(Response::from_parts(parts, Body::from(whole)))
}
