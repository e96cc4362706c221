//! The rules on counters that need only the declaration.

use quote::ToTokens;
use syn::ext::IdentExt;

use super::{Summary, counting_condition};
use crate::diagnostics::Diagnostics;
use crate::entity::check::kind_text;
use crate::entity::grants::{TRANSACTION, without};
use crate::entity::{EntityModel, Kind};
use crate::expr::MAX_INTEGER;
use crate::options;

/// The error codes of the framework that a counter cannot use, because each of them has a fixed
/// status. `conflict` and `collection_full` are not in the list: a counter may use them.
const TAKEN: [&str; 22] = [
    "malformed_json",
    "validation_failed",
    "unknown_parameter",
    "invalid_cursor",
    "invalid_transition",
    "unauthorized",
    "forbidden",
    "not_found",
    "method_not_allowed",
    "idempotency_conflict",
    "idempotency_in_progress",
    "precondition_failed",
    "precondition_required",
    "body_too_large",
    "uri_too_long",
    "headers_too_large",
    "unsupported_media_type",
    "rate_limited",
    "internal",
    "unavailable",
    "schema_pending",
    "timeout",
];

/// Checks the counters of an entity.
pub(crate) fn check(model: &EntityModel, d: &mut Diagnostics) {
    for (at, summary) in model.summaries.iter().enumerate() {
        let (target, field) = (
            summary
                .target
                .to_token_stream()
                .to_string()
                .replace(' ', ""),
            summary.field.unraw().to_string(),
        );
        let same = |other: &Summary| {
            other.target.to_token_stream().to_string()
                == summary.target.to_token_stream().to_string()
        };
        if model.summaries[..at]
            .iter()
            .any(|other| same(other) && other.field.unraw() == summary.field.unraw())
        {
            d.error(
                &summary.field,
                format!("`{target}.{field}` is the target of two counters"),
            )
            .help("use one field for each counter");
        }
        check_key(model, summary, d);
        if let Some(when) = &summary.when {
            counting_condition(model, when, d);
        }
        check_min(summary, d);
        for store in model.lacking(TRANSACTION) {
            d.error(
                &summary.word,
                format!(
                    "{} needs a transactional store, which `{}` is not",
                    summary.word, store.name
                ),
            )
            .help(without(store, TRANSACTION, "are transactional"));
        }
    }
}

fn check_key(model: &EntityModel, summary: &Summary, d: &mut Diagnostics) {
    let field = &model.fields[summary.by];
    let (key, name) = (&summary.key, &field.name);
    if !matches!(
        field.kind,
        Kind::String | Kind::Uuid | Kind::Integer | Kind::Other
    ) {
        d.error(
            key,
            format!(
                "`{name}` is {}, ids are string or integer",
                kind_text(field)
            ),
        )
        .help("use the field with the key of the other record");
    } else if field.generated {
        d.error(key, format!("`{name}` is the version counter, not a key"))
            .help("use the field with the key of the other record");
    }
}

fn check_min(summary: &Summary, d: &mut Diagnostics) {
    if let Some(min) = &summary.min {
        match options::as_int(min) {
            Some(Ok(n)) if (0..=MAX_INTEGER).contains(&n) => {}
            _ => {
                d.error(
                    min,
                    format!("min must be a whole number within 0..={MAX_INTEGER}"),
                )
                .help("`min = 1`");
            }
        }
    }
    let Some(code) = &summary.code else { return };
    let text = code.value();
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if summary.min.is_none() {
        d.error(code, "`code` needs `min`")
            .help("`min = 1, code = \"last_one\"`");
    } else if !text.starts_with(|c: char| c.is_ascii_lowercase()) || !text.chars().all(letters) {
        d.error(code, format!("`{text}` is not a valid error code"))
            .help("lower-case letters, digits and `_`, a letter first: `code = \"last_one\"`");
    } else if TAKEN.contains(&text.as_str()) {
        d.error(
            code,
            format!("`{text}` is an error code of the framework; choose another"),
        )
        .help("another code, as in `code = \"last_one\"`");
    }
}
