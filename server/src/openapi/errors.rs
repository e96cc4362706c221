//! The error body, the response headers, and the possible errors of a route.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json, json};

use super::{Components, Security, names, reference, requirements, security};
use crate::Code;
use crate::entity::{DefaultDesc, FieldDesc, ScopeFrom};
use crate::http::{Action, Endpoint, Transport, UPGRADE_REQUIRED, contents_of};
use crate::operation::{Answer, Method, Place};

/// The codes that can occur in `details`, except `unknown_parameter`.
const PROBLEMS: [&str; 26] = [
    "check",
    "current",
    "duplicate",
    "duplicate_item",
    "empty",
    "enum",
    "expected",
    "format",
    "immutable",
    "max_items",
    "max_length",
    "min_items",
    "min_length",
    "not_allowed",
    "null_not_allowed",
    "pattern",
    "range",
    "read_only",
    "reference",
    "referenced",
    "required",
    "reserved",
    "too_many",
    "type",
    "unique",
    "unknown_field",
];

pub(super) fn error_schema() -> Json {
    json!({
        "type": "object",
        "description": "Why a request was refused. `code` is stable; `error` is text for people and may change.",
        "required": ["error", "code", "requestId"],
        "properties": {
            "error": { "type": "string" },
            "code": { "type": "string", "pattern": "^[a-z][a-z0-9_]*$" },
            "requestId": { "type": "string", "description": "Also in the header `x-request-id`; quote it when you report a fault." },
            "details": { "type": "array", "items": reference("schemas", "Problem"), "description": "All problems, ordered by path." },
        },
    })
}

pub(super) fn problem_schema() -> Json {
    let mut codes: Vec<&str> = PROBLEMS.to_vec();
    codes.push("unknown_parameter");
    json!({
        "type": "object",
        "description": "One thing that is wrong with a request.",
        "required": ["path", "code", "message"],
        "properties": {
            "path": { "type": "string", "description": "`title`, `tags[2]`, `query:limit`, `header:If-Match`; empty for the whole body." },
            "code": { "type": "string", "examples": codes },
            "message": { "type": "string" },
        },
    })
}

/// Response headers, as components.
pub(super) fn headers() -> Json {
    let text =
        |description: &str| json!({ "schema": { "type": "string" }, "description": description });
    json!({
        "RequestId": {
            "schema": { "type": "string", "minLength": 8, "maxLength": 128, "pattern": "^[A-Za-z0-9._-]+$" },
            "description": "The request's id: the one sent in `x-request-id`, or a fresh one.",
            "required": true,
        },
        "ETag": text("The record's version, for `If-Match` and `If-None-Match`."),
        "Location": text("The path of the new record."),
        "RetryAfter": { "schema": { "type": "integer", "minimum": 1 }, "description": "Seconds to wait before another attempt." },
        "WWWAuthenticate": text("How to authenticate."),
    })
}

/// The headers of a response: `x-request-id` always, and these (wire name, component).
pub(super) fn header_map(more: &[(&str, &str)]) -> Json {
    let mut out = Map::from_iter([("x-request-id".to_owned(), reference("headers", "RequestId"))]);
    out.extend(
        more.iter()
            .map(|(wire, component)| ((*wire).to_owned(), reference("headers", component))),
    );
    Json::Object(out)
}

/// Adds the responses for all errors of a route. `bodiless` omits their bodies, for HEAD.
pub(super) fn add(
    (endpoint, security): (&Endpoint, &[Security]),
    bodiless: bool,
    responses: &mut Map<String, Json>,
    components: &mut Components,
) {
    let mut by_status: BTreeMap<u16, BTreeSet<&'static str>> = BTreeMap::new();
    for code in codes(endpoint)
        .into_iter()
        .chain(security::refusals(endpoint, security))
    {
        by_status
            .entry(code.status())
            .or_default()
            .insert(code.as_str());
    }
    for (status, codes) in by_status {
        let response = if bodiless {
            json!({ "description": description(status), "headers": response_headers(status, &codes) })
        } else {
            let words: Vec<String> = codes.iter().map(|code| names::pascal(code)).collect();
            let name = words.join("Or");
            components
                .responses
                .entry(name.clone())
                .or_insert_with(|| response(status, &codes));
            reference("responses", &name)
        };
        responses.insert(status.to_string(), response);
    }
}

fn response(status: u16, codes: &BTreeSet<&'static str>) -> Json {
    let narrowed = json!({ "properties": { "code": { "enum": codes } } });
    json!({
        "description": description(status),
        "headers": response_headers(status, codes),
        "content": { "application/json": { "schema": { "allOf": [reference("schemas", "Error"), narrowed] } } },
    })
}

fn response_headers(status: u16, codes: &BTreeSet<&'static str>) -> Json {
    match status {
        426 => {
            let mut headers = header_map(&[]);
            headers["Upgrade"] =
                json!({ "schema": { "type": "string" }, "description": "The protocol." });
            headers
        }
        409 if codes.contains(Code::IdempotencyInProgress.as_str()) => {
            header_map(&[("Retry-After", "RetryAfter")])
        }
        401 => header_map(&[("WWW-Authenticate", "WWWAuthenticate")]),
        429 | 503 => header_map(&[("Retry-After", "RetryAfter")]),
        _ => header_map(&[]),
    }
}

fn description(status: u16) -> &'static str {
    match status {
        400 => "The request is not valid.",
        401 => "No valid identity.",
        403 => "The caller may not do this.",
        404 => "There is no such record, or the caller may not see it.",
        409 => "The request conflicts with what is stored.",
        412 => "The record has another version.",
        413 => "The body is too large.",
        414 => "The query string is too long.",
        415 => "The body is not `application/json`.",
        426 => "The path accepts only requests to change to another protocol.",
        428 => "`If-Match` is required.",
        429 => "Too many requests.",
        431 => "The headers are too long.",
        503 => "The service is not available right now.",
        504 => "The request took too long.",
        _ => "Something went wrong in the service.",
    }
}

/// All error codes of a route.
fn codes(endpoint: &Endpoint) -> Vec<Code> {
    // Every request body is read, even if only to refuse its members.
    let mut out = vec![
        Code::BodyTooLarge,
        Code::Internal,
        Code::Timeout,
        Code::UriTooLong,
    ];
    requirements::codes(endpoint, &mut out);
    if super::repeat::accepts_key(endpoint) {
        out.extend([
            Code::IdempotencyConflict,
            Code::IdempotencyInProgress,
            Code::ValidationFailed,
            Code::Unavailable,
        ]);
    }
    if let Action::Extra(spec) = endpoint.action {
        if contents_of(&spec).body.is_some_and(|body| {
            matches!(
                body.media,
                "application/json" | "application/x-www-form-urlencoded"
            )
        }) {
            out.extend([
                Code::MalformedJson,
                Code::ValidationFailed,
                Code::UnsupportedMediaType,
            ]);
        }
        return out;
    }
    if let Action::Plugin(desc) = endpoint.action {
        out.extend_from_slice(desc.errors);
        // All plugin routes validate the query. On most of them, the check of the caller's
        // credential can fail with `unavailable`.
        out.extend([
            Code::ValidationFailed,
            Code::UnknownParameter,
            Code::Unavailable,
        ]);
        out.extend(
            desc.body
                .iter()
                .flat_map(|_| [Code::MalformedJson, Code::UnsupportedMediaType]),
        );
        out.extend(desc.form.then_some(Code::UnsupportedMediaType));
        out.extend(desc.raw.then_some(Code::MalformedJson));
        out.extend(matches!(desc.transport, Transport::Upgrade(_)).then_some(UPGRADE_REQUIRED));
        return out;
    }
    out.extend([
        Code::MalformedJson,
        Code::ValidationFailed,
        Code::UnknownParameter,
        Code::UnsupportedMediaType,
        Code::Unavailable,
    ]);
    if let Some(table) = endpoint
        .table
        .as_ref()
        .filter(|table| table.is_restricted())
    {
        let by_caller = table.desc.tenant.is_some()
            || table
                .desc
                .scope
                .iter()
                .any(|s| matches!(s.from, ScopeFrom::Ctx(_)));
        let created = matches!(endpoint.action, Action::Create)
            && table
                .desc
                .fields
                .iter()
                .any(|f| matches!(f.default, DefaultDesc::Ctx(_)));
        if by_caller || created {
            out.extend([Code::Unauthorized, Code::Forbidden]);
        }
        if table.desc.parent_path.is_some() {
            out.push(Code::NotFound);
        }
    }
    if !crate::http::context::needed(endpoint).is_empty() {
        // The errors for a context value that is null for this caller.
        out.extend([Code::Unauthorized, Code::Forbidden]);
    }
    super::related::codes(endpoint, &mut out);
    let versioned = endpoint.table.as_ref().and_then(|t| t.desc.version);
    match endpoint.action {
        Action::Create => out.push(Code::Conflict),
        Action::List => out.push(Code::InvalidCursor),
        Action::Get => out.push(Code::NotFound),
        Action::Update | Action::Delete => {
            out.extend([Code::NotFound, Code::Conflict]);
            if let Some(version) = versioned {
                out.push(Code::PreconditionFailed);
                out.extend(
                    version
                        .required_on_write
                        .then_some(Code::PreconditionRequired),
                );
            }
        }
        Action::Operation(spec, _) => {
            out.extend_from_slice(spec.kind.errors());
            // A record that other records refer to may be protected from deletion.
            let removes = spec.kind.facts().changes.may_delete();
            out.extend(
                endpoint
                    .table
                    .as_ref()
                    .filter(|table| removes && table.deletion_may_be_refused())
                    .map(|_| Code::Conflict),
            );
            if spec.params.iter().any(|p| p.place == Place::Id) {
                out.push(Code::NotFound);
            }
            if versioned.is_some() && takes_if_match(endpoint) {
                out.push(Code::PreconditionFailed);
            }
            if spec.kind.returns() == Answer::Page {
                out.push(Code::InvalidCursor);
            }
        }
        Action::Extra(_) | Action::Plugin(_) => {}
    }
    out
}

/// Whether an operation writes one record, so that `If-Match` applies.
pub(super) fn takes_if_match(endpoint: &Endpoint) -> bool {
    let Action::Operation(spec, _) = endpoint.action else {
        return false;
    };
    endpoint.method != Method::Get && spec.kind.by_id()
}

/// The field that gives a parameter its type.
pub(super) fn field_of(endpoint: &Endpoint, position: usize) -> Option<&'static FieldDesc> {
    endpoint.table.as_ref()?.desc.fields.get(position)
}
