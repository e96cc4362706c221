//! Idempotency of a route in the document.

use serde_json::{Map, Value as Json, json};

use crate::http::{Endpoint, idempotency};

/// Whether a route accepts an idempotency key.
pub(super) fn accepts_key(endpoint: &Endpoint) -> bool {
    endpoint.policy.idempotency.is_some() && idempotency::applies(endpoint)
}

/// The header of the idempotency key.
pub(super) fn parameter(endpoint: &Endpoint) -> Option<Json> {
    let policy = endpoint
        .policy
        .idempotency
        .filter(|_| accepts_key(endpoint))?;
    Some(json!({
        "name": "Idempotency-Key", "in": "header", "required": policy.required,
        "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" },
        "description": "Several calls with the same key have one effect; a repetition gets the response of the first call.",
    }))
}

/// Adds the header of repeated responses.
pub(super) fn describe(endpoint: &Endpoint, responses: &mut Map<String, Json>) {
    let is_success = |status: &str| status.starts_with('2') || status == "default";
    for (_, response) in responses
        .iter_mut()
        .filter(|(status, _)| accepts_key(endpoint) && is_success(status))
    {
        response["headers"]["Idempotency-Replayed"] = json!({ "schema": { "const": "true" }, "description": "The response of an earlier call with the same key." });
    }
}
