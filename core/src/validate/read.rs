//! Converts JSON to typed values, and reports values of the wrong type.

use std::borrow::Cow;

use super::path::Path;
use super::scalar::{IS_NULL, NOT_LIST, NOT_OBJECT, NOT_STRING, from_json};
use super::tree::Json;
use crate::entity::{DefaultDesc, FieldDesc, Flags, Kind, NOT_FINITE, Rules, canonical};
use crate::{Problem, Timestamp, Value};

/// Reads values, and pushes their problems with their paths.
pub(super) struct Reader<'p> {
    pub(super) problems: &'p mut Vec<Problem>,
    /// The time for `now` defaults inside items.
    pub(super) now: Timestamp,
}

impl Reader<'_> {
    /// Reads a value of a field's type; `None` if the type is wrong. Null is accepted here.
    ///
    /// A list with errors is returned too, so that the rules can check the rest: items without
    /// their invalid members, and an empty text for each invalid element of a list of strings.
    pub(super) fn value(
        &mut self,
        field: &FieldDesc,
        json: &Json<'_>,
        path: Path<'_>,
    ) -> Option<Value> {
        match (field.kind, json) {
            (_, Json::Null) => Some(Value::Null),
            (Kind::StringArray, json) => self.strings(field.rules.each, json, path),
            (Kind::Json, json) => self.json(json, path),
            (Kind::Items(fields), json) => self.items(fields, json, path),
            _ => match from_json(field, json) {
                Ok(value) => Some(value),
                Err(flaw) => {
                    path.report(self.problems, flaw.code, flaw.message);
                    None
                }
            },
        }
    }

    fn strings(&mut self, each: Option<&Rules>, json: &Json<'_>, path: Path<'_>) -> Option<Value> {
        let Json::Array(list) = json else {
            path.report(self.problems, NOT_LIST.code, "must be a list of strings");
            return None;
        };
        let mut texts = Vec::with_capacity(list.len());
        for (i, item) in list.iter().enumerate() {
            match item {
                Json::Text(text) => texts.push(canonical(
                    each.unwrap_or(&Rules::NONE),
                    text.clone().into_owned(),
                )),
                _ => {
                    Path::Index(&path, i).report(
                        self.problems,
                        NOT_STRING.code,
                        NOT_STRING.message,
                    );
                    texts.push(String::new());
                }
            }
        }
        Some(Value::Strings(texts))
    }

    fn json(&mut self, json: &Json<'_>, path: Path<'_>) -> Option<Value> {
        let mut out = Vec::with_capacity(64);
        if !json.write_canonical(&mut out) {
            path.report(
                self.problems,
                NOT_FINITE.code,
                "must not contain a number beyond the range of a double",
            );
            return None;
        }
        String::from_utf8(out).ok().map(Value::Json)
    }

    fn items(
        &mut self,
        fields: &'static [FieldDesc],
        json: &Json<'_>,
        path: Path<'_>,
    ) -> Option<Value> {
        let Json::Array(list) = json else {
            path.report(self.problems, NOT_LIST.code, "must be a list of objects");
            return None;
        };
        let mut out = vec![b'['];
        for (i, item) in list.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            let path = Path::Index(&path, i);
            if let Json::Object(members) = item {
                self.item(fields, members, path, &mut out);
            } else {
                path.report(self.problems, NOT_OBJECT.code, NOT_OBJECT.message);
                out.extend_from_slice(b"null");
            }
        }
        out.push(b']');
        String::from_utf8(out).ok().map(Value::Json)
    }

    /// Reads one item from a whole body.
    pub(super) fn one_item(
        &mut self,
        fields: &'static [FieldDesc],
        members: &[(Cow<'_, str>, Json<'_>)],
    ) -> Option<Value> {
        let mut out = Vec::with_capacity(64);
        self.item(fields, members, Path::Root(""), &mut out);
        String::from_utf8(out).ok().map(Value::Json)
    }

    /// Reads members of an item from a whole body. The member that identifies the item cannot
    /// change.
    pub(super) fn item_patch(
        &mut self,
        fields: &'static [FieldDesc],
        key: &str,
        members: &[(Cow<'_, str>, Json<'_>)],
    ) -> Value {
        let mut values: Vec<(&str, Value)> = Vec::with_capacity(members.len());
        for (name, json) in members {
            let path = Path::Root(name);
            match fields
                .iter()
                .find(|f| f.wire == name && !f.flags.has(Flags::PRIVATE))
            {
                None => path.report(self.problems, "unknown_field", "is not a field"),
                Some(field) if field.wire == key => {
                    path.report(self.problems, "immutable", "cannot be changed");
                }
                Some(field) if field.flags.has(Flags::READ_ONLY) => {
                    path.report(self.problems, "read_only", "cannot be written");
                }
                Some(field) if matches!(json, Json::Null) && !field.optional => {
                    path.report(self.problems, IS_NULL.code, IS_NULL.message);
                }
                Some(field) => values.extend(
                    self.value(field, json, path)
                        .map(|value| (field.wire, value)),
                ),
            }
        }
        crate::json::object(values)
    }

    /// Appends one item with its defaults, with members sorted by name.
    ///
    /// Items are replaced as a whole, so members with generated defaults are accepted: an item that
    /// the client sends back keeps its id.
    fn item(
        &mut self,
        fields: &'static [FieldDesc],
        members: &[(Cow<'_, str>, Json<'_>)],
        path: Path<'_>,
        out: &mut Vec<u8>,
    ) {
        for (key, _) in members {
            let path = Path::Member(&path, key);
            match fields.iter().find(|f| f.wire == key) {
                Some(field) if field.flags.has(Flags::READ_ONLY) => {
                    path.report(self.problems, "read_only", "cannot be written");
                }
                Some(field) if !field.flags.has(Flags::PRIVATE) => {}
                _ => path.report(self.problems, "unknown_field", "is not a field"),
            }
        }
        let mut values: Vec<(&str, Value)> = Vec::with_capacity(fields.len());
        for field in fields {
            let member_path = Path::Member(&path, field.wire);
            let given = members.iter().find(|(key, _)| {
                key == field.wire && !field.flags.has(Flags::READ_ONLY.or(Flags::PRIVATE))
            });
            let value = match given {
                Some((_, Json::Null)) if !field.optional => {
                    member_path.report(self.problems, IS_NULL.code, IS_NULL.message);
                    None
                }
                Some((_, json)) => self.value(field, json, member_path),
                // Responses contain items in their stored form, so an empty private member is not
                // stored.
                None if field.flags.has(Flags::PRIVATE)
                    && field.optional
                    && !field.default.is_some() =>
                {
                    None
                }
                None => {
                    let value = self.absent(field);
                    if value.is_none() {
                        member_path.report(self.problems, "required", "is required");
                    }
                    value
                }
            };
            values.extend(value.map(|value| (field.wire, value)));
        }
        crate::json::write_object(values, out);
    }

    fn absent(&self, field: &FieldDesc) -> Option<Value> {
        Some(match field.default {
            DefaultDesc::Uuid => Value::Text(uuid::Uuid::now_v7().as_hyphenated().to_string()),
            DefaultDesc::Cuid => Value::Text(cuid2::create_id()),
            DefaultDesc::Now => Value::Date(self.now),
            DefaultDesc::Literal(value) => value(),
            // Items have no context; the macro refuses such a default.
            DefaultDesc::Ctx(_) => return None,
            DefaultDesc::None if field.optional => Value::Null,
            DefaultDesc::None => return field.empty(),
        })
    }
}
