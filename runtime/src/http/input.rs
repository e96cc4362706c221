//! Bodies as inputs: content type, then syntax, then members.

use axum::http::HeaderMap;

use super::body;
use crate::entity::EntityDesc;
use crate::resource::Draft;
use crate::validate::{Body, read_object};
use crate::{Error, Problem, Result};

/// The members of a body. No bytes at all are an object without members, whatever their declared type.
///
/// # Errors
/// `unsupported_media_type`, `malformed_json`, `validation_failed` for JSON that is not an object.
pub(super) fn object<'b>(headers: &HeaderMap, bytes: &'b [u8]) -> Result<Body<'b>> {
    if !bytes.is_empty() {
        body::check_type(headers)?;
    }
    read_object(bytes)
}

/// Checks that a body is declared as JSON, if there is one.
///
/// # Errors
/// `unsupported_media_type`.
pub(super) fn declared(headers: &HeaderMap, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() { Ok(()) } else { body::check_type(headers) }
}

/// Checks that a route without input was sent none: no body, or `{}`.
///
/// # Errors
/// As [`object`]; `validation_failed` with every member as `unknown_field`.
pub(super) fn nothing(headers: &HeaderMap, bytes: &[u8]) -> Result<()> {
    let object = object(headers, bytes)?;
    if object.is_empty() {
        return Ok(());
    }
    let names = object.members().iter().map(|(name, _)| name.to_string());
    Err(Error::validation(names.map(|name| Problem::new(name, "unknown_field", "is not a field")).collect()))
}

/// Refuses members other than the `allowed` fields, as if the entity had no others.
pub(super) fn narrow(desc: &EntityDesc, body: &Body<'_>, allowed: &[usize], draft: &mut Draft) {
    for (name, _) in body.members() {
        let field = desc.field_by_wire(name);
        if field.is_some_and(|i| allowed.contains(&i)) {
            continue;
        }
        if let Some(value) = field.and_then(|i| draft.values.get_mut(i)) {
            *value = None;
        }
        let inside = |path: &str| path.strip_prefix(&**name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.']));
        draft.problems.retain(|problem| !inside(&problem.path));
        draft.problems.push(Problem::new(name.as_ref(), "unknown_field", "is not a field"));
    }
}
