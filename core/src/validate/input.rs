//! Request bodies: bytes to an object, and an object to a draft or to call parameters.

use std::borrow::Cow;

use super::path::Path;
use super::read::Reader;
use super::rules::json_holds_nul;
use super::scalar::{HOLDS_NUL, IS_NULL, NOT_LIST, NOT_OBJECT, list_value};
use super::tree::Json;
use crate::entity::{EntityDesc, FieldDesc, Flags, Kind, Rules, canonical};
use crate::operation::{ParamSpec, Place, Whole};
use crate::validate::Draft;
use crate::{Error, Problem, Result, Timestamp, Value};

/// The members of a body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body<'a> {
    members: Vec<(Cow<'a, str>, Json<'a>)>,
}

/// The purpose of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Creates a record.
    Create,
    /// Changes a record.
    Update,
}

impl<'a> Body<'a> {
    /// Whether the body has no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the members, in order.
    pub fn members(&self) -> &[(Cow<'a, str>, Json<'a>)] {
        &self.members
    }

    /// Returns a member by name.
    pub fn get(&self, name: &str) -> Option<&Json<'a>> {
        self.members
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
    }
}

/// Parses the body of a request. An empty body counts as `{}`.
///
/// # Errors
/// `malformed_json` (see [`Json::parse`]); `validation_failed` with code `type` at the empty path
/// if the body is not an object.
pub fn read_object(bytes: &[u8]) -> Result<Body<'_>> {
    if bytes.is_empty() {
        return Ok(Body::default());
    }
    match Json::parse(bytes)? {
        Json::Object(members) => Ok(Body { members }),
        _ => Err(Error::invalid(NOT_OBJECT.at(""))),
    }
}

/// Reads the members of a create or update body into a draft.
///
/// The draft contains the valid members, and a problem for each member that is unknown, not
/// writable here, or of the wrong type. The `Table` of the server checks the rules on values, nulls
/// and missing fields later, because typed input needs these checks too. `now` is the time of the
/// call, for `now` defaults inside items.
pub fn read_draft(
    entity: &'static EntityDesc,
    body: &Body<'_>,
    mode: Mode,
    now: Timestamp,
) -> Draft {
    let mut draft = Draft::new(entity);
    let mut reader = Reader {
        problems: &mut draft.problems,
        now,
    };
    for (key, json) in &body.members {
        let path = Path::Root(key);
        let field = entity
            .field_by_wire(key)
            .filter(|i| !entity.fields[*i].flags.has(Flags::PRIVATE));
        let Some(index) = field else {
            let writable = |f: &&FieldDesc| !f.flags.has(Flags::PRIVATE) && !f.server_owned();
            report_unknown(key, reader.problems, || {
                entity.fields.iter().filter(writable).map(|f| f.wire)
            });
            continue;
        };
        let field = &entity.fields[index];
        if field.server_owned() || (mode == Mode::Update && field.flags.has(Flags::PRIMARY)) {
            path.report(reader.problems, "read_only", "cannot be written");
        } else if mode == Mode::Update && field.flags.has(Flags::IMMUTABLE) {
            path.report(reader.problems, "immutable", "cannot be changed");
        } else {
            draft.values[index] = reader.value(field, json, path);
        }
    }
    draft
}

/// Reports an unknown member, with a similar known name. Only names of at most 64 bytes are
/// compared, and only for the first 8 problems, because a comparison costs the product of both
/// lengths.
fn report_unknown<'k, K: IntoIterator<Item = &'k str>>(
    key: &str,
    problems: &mut Vec<Problem>,
    known: impl FnOnce() -> K,
) {
    let hint = if problems.len() < 8 && key.len() <= 64 {
        crate::suggest::did_you_mean(key, known())
    } else {
        String::new()
    };
    Path::Root(key).report(problems, "unknown_field", format!("is not a field{hint}"));
}

/// Reads the call parameters in the body. Every other member is a problem.
///
/// The result has one entry per declared parameter. Parameters outside the body and omitted ones
/// are `None`. Null counts as given if the parameter is nullable. Pushes `unknown_field`,
/// `required`, `null_not_allowed` and the problems of types.
pub fn read_param_members(
    entity: &'static EntityDesc,
    params: &[ParamSpec],
    body: &Body<'_>,
    now: Timestamp,
    problems: &mut Vec<Problem>,
) -> Vec<Option<Value>> {
    let in_body = |p: &&ParamSpec| p.place == Place::Body;
    for (key, _) in &body.members {
        if !params.iter().filter(in_body).any(|p| p.name == key) {
            report_unknown(key, problems, || {
                params.iter().filter(in_body).map(|p| p.name)
            });
        }
    }
    let mut read = |param: &ParamSpec| -> Option<Value> {
        let path = Path::Root(param.name);
        match body.get(param.name) {
            None if param.required => {
                path.report(problems, "required", "is required");
                None
            }
            None => None,
            Some(Json::Null) if param.nullable => Some(Value::Null),
            Some(Json::Null) => {
                path.report(problems, IS_NULL.code, IS_NULL.message);
                None
            }
            Some(json) => {
                let field = param.field_of(entity);
                let mut reader = Reader { problems, now };
                if param.list {
                    list(&mut reader, field, json, path)
                } else {
                    reader.plain(field, json, path)
                }
            }
        }
    };
    params
        .iter()
        .map(|param| {
            if param.place == Place::Body {
                read(param)
            } else {
                None
            }
        })
        .collect()
}

/// Reads a whole body as one parameter.
///
/// # Errors
/// `malformed_json`; `validation_failed` for JSON of another shape.
pub fn read_whole(
    field: &FieldDesc,
    key: &str,
    whole: Whole,
    bytes: &[u8],
    now: Timestamp,
    problems: &mut Vec<Problem>,
) -> Result<Option<Value>> {
    let json = if bytes.is_empty() {
        Json::Object(Vec::new())
    } else {
        Json::parse(bytes)?
    };
    let Kind::Items(fields) = field.kind else {
        return Err(Error::internal("a whole body is of items"));
    };
    let mut reader = Reader { problems, now };
    Ok(match (whole, &json) {
        (Whole::Item, Json::Object(members)) => reader.one_item(fields, members),
        (Whole::Patch, Json::Object(members)) => Some(reader.item_patch(fields, key, members)),
        (Whole::Items, json @ Json::Array(_)) => reader.value(field, json, Path::Root("")),
        (Whole::Items, _) => {
            return Err(Error::invalid(Problem::new(
                "",
                NOT_LIST.code,
                "must be a list of objects",
            )));
        }
        _ => {
            return Err(Error::invalid(Problem::new(
                "",
                NOT_OBJECT.code,
                NOT_OBJECT.message,
            )));
        }
    })
}

/// Reads a list parameter. Its elements have the type of the field; for a string array they are
/// strings.
fn list(
    reader: &mut Reader<'_>,
    field: &FieldDesc,
    json: &Json<'_>,
    path: Path<'_>,
) -> Option<Value> {
    let Json::Array(items) = json else {
        path.report(reader.problems, NOT_LIST.code, NOT_LIST.message);
        return None;
    };
    let element = match field.kind {
        Kind::StringArray => FieldDesc {
            kind: Kind::String,
            rules: field.rules.each.unwrap_or(&Rules::NONE),
            ..*field
        },
        _ => *field,
    };
    let mut values = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let path = Path::Index(&path, i);
        if matches!(item, Json::Null) {
            path.report(reader.problems, IS_NULL.code, IS_NULL.message);
        } else {
            values.extend(reader.plain(&element, item, path));
        }
    }
    (values.len() == items.len()).then(|| list_value(&values))
}

impl Reader<'_> {
    /// Reads the value of a parameter. The rules check it later only if it is written to a field.
    /// Text with NUL is refused here, because stores must not get it.
    ///
    /// Text for a string array is one element, as for `$has`. If the array itself is written, the
    /// rules refuse the text.
    fn plain(&mut self, field: &FieldDesc, json: &Json<'_>, path: Path<'_>) -> Option<Value> {
        let value = match (field.kind, json) {
            (Kind::StringArray, Json::Text(text)) => Value::Text(canonical(
                field.rules.each.unwrap_or(&Rules::NONE),
                text.clone().into_owned(),
            )),
            _ => self.value(field, json, path)?,
        };
        let before = self.problems.len();
        let mut refuse_nul = |text: &str, path: Path<'_>| {
            if text.contains('\0') {
                path.report(self.problems, HOLDS_NUL.code, HOLDS_NUL.message);
            }
        };
        match &value {
            Value::Text(text) => refuse_nul(text, path),
            Value::Strings(list) => list
                .iter()
                .enumerate()
                .for_each(|(i, text)| refuse_nul(text, Path::Index(&path, i))),
            Value::Json(text) if json_holds_nul(text) => {
                path.report(self.problems, HOLDS_NUL.code, HOLDS_NUL.message);
            }
            _ => {}
        }
        // The rules of the written field check a list later.
        (self.problems.len() == before || matches!(value, Value::Strings(_))).then_some(value)
    }
}

#[cfg(test)]
#[path = "input_tests.rs"]
mod tests;
