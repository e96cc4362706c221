//! Idempotency of a route in the document.

use serde_json::{Map, Value as Json, json};

use crate::http::{Endpoint, idempotency};

/// Whether a route accepts an idempotency key.
pub(super) fn repeats(endpoint: &Endpoint) -> bool {
    endpoint.policy.idempotency.is_some() && idempotency::applies(endpoint)
}

/// The header of the idempotency key.
pub(super) fn parameter(endpoint: &Endpoint) -> Option<Json> {
    let policy = endpoint.policy.idempotency.filter(|_| repeats(endpoint))?;
    Some(json!({
        "name": "Idempotency-Key", "in": "header", "required": policy.required,
        "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" },
        "description": "The same call under the same key has one effect: a repetition is given the first answer again.",
    }))
}

/// Adds the header of repeated responses.
pub(super) fn describe(endpoint: &Endpoint, responses: &mut Map<String, Json>) {
    let answered = |status: &str| status.starts_with('2') || status == "default";
    for (_, response) in responses
        .iter_mut()
        .filter(|(status, _)| repeats(endpoint) && answered(status))
    {
        response["headers"]["Idempotency-Replayed"] = json!({ "schema": { "const": "true" }, "description": "The answer of an earlier call under the same key." });
    }
}
