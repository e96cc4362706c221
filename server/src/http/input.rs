//! Reads bodies as inputs: content type, then syntax, then members.

use std::collections::HashSet;

use axum::http::HeaderMap;

use super::body;
use crate::entity::EntityDesc;
use crate::resource::Draft;
use crate::validate::{Body, MAX_PROBLEMS, read_object};
use crate::{Error, Problem, Result};

const UNKNOWN: &str = "unknown_field";

/// The members of a body. An empty body is an object without members, whatever its content type.
///
/// # Errors
/// `unsupported_media_type`, `malformed_json`, `validation_failed` for JSON that is not an object.
pub(super) fn object<'b>(headers: &HeaderMap, bytes: &'b [u8]) -> Result<Body<'b>> {
    if !bytes.is_empty() {
        body::check_type(headers)?;
    }
    read_object(bytes)
}

/// Checks the content type of a body that is not empty.
///
/// # Errors
/// `unsupported_media_type`.
pub(super) fn check_content_type(headers: &HeaderMap, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() {
        Ok(())
    } else {
        body::check_type(headers)
    }
}

/// Checks that the body of a route without input is empty or `{}`.
///
/// # Errors
/// As [`object`]; `validation_failed` with every member as `unknown_field`.
pub(super) fn nothing(headers: &HeaderMap, bytes: &[u8]) -> Result<()> {
    let object = object(headers, bytes)?;
    if object.is_empty() {
        return Ok(());
    }
    let members = object.members().iter().take(MAX_PROBLEMS);
    Err(Error::validation(
        members.map(|(name, _)| unknown(name)).collect(),
    ))
}

/// Refuses members other than the `allowed` fields, as if the entity had no others.
///
/// Members that are not fields of the entity are refused already.
pub(super) fn refuse_other_members(
    desc: &EntityDesc,
    body: &Body<'_>,
    allowed: &[usize],
    draft: &mut Draft,
) {
    let refused: Vec<usize> = (0..desc.fields.len())
        .filter(|i| !allowed.contains(i) && body.get(desc.fields[*i].wire).is_some())
        .collect();
    if refused.is_empty() {
        return;
    }
    for field in &refused {
        draft.values[*field] = None;
    }
    // Problems inside a refused member are dropped. The name of a member may look like a position
    // in another member: `tags[0]`.
    let is_refused = |name: &str| refused.iter().any(|i| desc.fields[*i].wire == name);
    let names_like_positions: HashSet<&str> = body
        .members()
        .iter()
        .map(|(name, _)| &**name)
        .filter(|name| name.contains(['[', '.']))
        .collect();
    draft.problems.retain(|problem| {
        let (path, code) = (problem.path.as_str(), problem.code);
        let outer = path.find(['[', '.']).map_or(path, |end| &path[..end]);
        !is_refused(outer) || (code == UNKNOWN && names_like_positions.contains(path))
    });
    draft
        .problems
        .truncate(MAX_PROBLEMS.saturating_sub(refused.len()));
    draft
        .problems
        .extend(refused.iter().map(|i| unknown(desc.fields[*i].wire)));
}

fn unknown(name: &str) -> Problem {
    Problem::new(name, UNKNOWN, "is not a field")
}
