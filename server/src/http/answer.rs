//! Converts the outcome of a call into the response.

use axum::body::Body;
use axum::http::header::ETAG;
use axum::http::{HeaderMap, Method, Response, StatusCode};

use super::mounted::Target;
use super::{precondition, response};
use crate::operation::Answer;
use crate::resource::{Outcome, Table};
use crate::store::Rows;
use crate::{Error, Result, Value};

/// The shape of a response, and the request that it answers.
pub(super) struct Shape<'a> {
    pub(super) answer: Answer,
    pub(super) method: &'a Method,
    pub(super) headers: &'a HeaderMap,
}

/// The response of a successful call.
///
/// # Errors
/// `not_found` if the requested record does not exist; `internal` if an override returned an
/// outcome of another kind than the route declares.
pub(super) fn answer(
    target: &Target,
    outcome: Outcome,
    shape: &Shape<'_>,
) -> Result<Response<Body>> {
    match (outcome, shape.answer) {
        (Outcome::Record(rows), Answer::Record | Answer::RecordOrNull) => {
            record(target, rows, shape)
        }
        (Outcome::Page { rows, next_cursor }, Answer::Page) => {
            let page = response::page(&json(target, rows), next_cursor.as_deref());
            Ok(response::json(StatusCode::OK, page))
        }
        (Outcome::Numbers { json, .. }, Answer::Numbers) => {
            Ok(response::json(StatusCode::OK, json))
        }
        (Outcome::Numbers { json, .. }, Answer::Groups) => {
            Ok(response::json(StatusCode::OK, array(json)))
        }
        (Outcome::List(rows), Answer::Derived) => {
            Ok(response::json(StatusCode::OK, array(rows.json)))
        }
        (Outcome::List(rows), Answer::List | Answer::Records) => {
            Ok(response::json(StatusCode::OK, array(json(target, rows))))
        }
        (Outcome::Boolean(exists), Answer::Exists) => {
            Ok(match (exists, shape.method == Method::HEAD) {
                (false, true) => response::empty(StatusCode::NOT_FOUND),
                (true, _) => response::json(StatusCode::OK, b"{\"exists\":true}".to_vec()),
                (false, false) => response::json(StatusCode::OK, b"{\"exists\":false}".to_vec()),
            })
        }
        (Outcome::Boolean(value), Answer::Boolean) => Ok(response::json(
            StatusCode::OK,
            value.to_string().into_bytes(),
        )),
        (Outcome::Count(n), Answer::Count) => {
            Ok(response::json(StatusCode::OK, n.to_string().into_bytes()))
        }
        (
            Outcome::Json(text),
            Answer::Value | Answer::Items { .. } | Answer::Item { created: false, .. },
        ) => Ok(response::json(StatusCode::OK, text)),
        (Outcome::Json(text), Answer::Item { created: true, .. }) => {
            Ok(response::json(StatusCode::CREATED, text))
        }
        (Outcome::Nothing, Answer::Nothing) => Ok(response::empty(StatusCode::NO_CONTENT)),
        (Outcome::Upserted(rows), Answer::Upserted { wrapped: false }) => {
            record(target, rows, shape)
        }
        (Outcome::Upserted(rows), Answer::Upserted { wrapped: true }) => Ok(upserted(target, rows)),
        (outcome, expected) => Err(Error::internal(format!(
            "the route must return {expected:?}, but its function returned {outcome:?}"
        ))),
    }
}

/// A JSON array of the items.
fn array(items: Vec<u8>) -> Vec<u8> {
    [b"[", items.as_slice(), b"]"].concat()
}

/// `{ "entity": .., "created": .. }`
fn upserted(target: &Target, rows: Rows) -> Response<Body> {
    let (created, version) = (rows.created, rows.version);
    let mut out = b"{\"entity\":".to_vec();
    out.extend_from_slice(&json(target, rows));
    out.extend_from_slice(if created {
        b",\"created\":true}"
    } else {
        b",\"created\":false}"
    });
    let mut response = response::json(StatusCode::OK, out);
    if let Some(version) = version {
        response
            .headers_mut()
            .insert(ETAG, super::response::etag(version));
    }
    response
}

fn record(target: &Target, rows: Rows, shape: &Shape<'_>) -> Result<Response<Body>> {
    if rows.count == 0 {
        return match shape.answer {
            Answer::RecordOrNull => Ok(response::json(StatusCode::OK, b"null".to_vec())),
            _ => Err(Error::not_found()),
        };
    }
    let Some(version) = rows.version else {
        return Ok(response::json(StatusCode::OK, json(target, rows)));
    };
    let tag = response::etag(version);
    let reads = matches!(*shape.method, Method::GET | Method::HEAD);
    // If the entity has counters, they change without a new version. So an equal version does not
    // prove that the client's copy is current.
    let mut response =
        if reads && !target.table.has_counters() && precondition::none_match(shape.headers, &tag) {
            response::empty(StatusCode::NOT_MODIFIED)
        } else {
            response::json(StatusCode::OK, json(target, rows))
        };
    response.headers_mut().insert(ETAG, tag);
    Ok(response)
}

/// Records as JSON. Records that an override returned as values are converted here, without the
/// fields that responses must not contain.
fn json(target: &Target, rows: Rows) -> Vec<u8> {
    if rows.records.is_empty() {
        return rows.json;
    }
    let mut out = Vec::with_capacity(512);
    for (i, record) in rows.records.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        target.projection.write(&**record, &mut out);
    }
    out
}

/// The key of the record an override created.
pub(super) fn id_of(table: &Table, outcome: &Outcome) -> Option<Value> {
    let Outcome::Record(rows) = outcome else {
        return None;
    };
    if let Some(record) = rows.records.first() {
        return record.get(table.desc.primary).cloned();
    }
    let record: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&rows.json).ok()?;
    record
        .get(table.desc.primary_field().wire)?
        .as_str()
        .map(|id| Value::Text(id.to_owned()))
}
