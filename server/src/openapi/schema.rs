//! JSON Schema of fields and entities.

use serde_json::{Map, Value as Json, json};

use crate::entity::{Bound, DefaultDesc, EntityDesc, FieldDesc, Flags, Kind, Rules};
use crate::filter::SourceSpec;
use crate::operation::{Aggregate, ParamSpec, Shape};
use crate::store::Function;
use crate::store::indexed::indexed_bytes;
use crate::validate::MAX_INTEGER;
use crate::{Timestamp, Value};

/// The schemas of an entity, by the suffix of their names.
pub(super) fn entity(name: &str, desc: &EntityDesc) -> [(&'static str, Json); 4] {
    let all = |_: &FieldDesc| true;
    [
        ("", record(desc, all)),
        ("Create", create(desc, all)),
        ("Update", update(desc, all)),
        ("Page", page(name)),
    ]
}

/// A record with the fields that `keep` selects.
pub(super) fn record(desc: &EntityDesc, keep: impl Fn(&FieldDesc) -> bool) -> Json {
    let mut record = Object::new(
        desc.fields
            .iter()
            .filter(|f| !f.flags.has(Flags::PRIVATE) && keep(f)),
        output,
    );
    record.required = desc
        .fields
        .iter()
        .filter(|f| f.readable() && keep(f))
        .map(|f| f.wire)
        .collect();
    record.doc = desc.doc;
    record.finish()
}

/// The body of create, with the fields that `keep` selects.
pub(super) fn create(desc: &EntityDesc, keep: impl Fn(&FieldDesc) -> bool) -> Json {
    let mut create = Object::new(
        desc.fields.iter().filter(|f| f.creatable() && keep(f)),
        created,
    );
    create.required = desc
        .fields
        .iter()
        .filter(|f| f.creatable() && f.is_required() && keep(f))
        .map(|f| f.wire)
        .collect();
    create.closed = true;
    create.limit_indexed_texts(desc);
    create.finish()
}

/// The body of update, with the fields that `keep` selects.
pub(super) fn update(desc: &EntityDesc, keep: impl Fn(&FieldDesc) -> bool) -> Json {
    let mut update = Object::new(
        desc.fields.iter().filter(|f| f.updatable() && keep(f)),
        input,
    );
    update.closed = true;
    update.doc = "Omitted members stay unchanged.";
    update.limit_indexed_texts(desc);
    update.finish()
}

/// A page of items with the given schema.
pub(super) fn page(name: &str) -> Json {
    json!({
        "type": "object",
        "required": ["items", "nextCursor", "hasMore"],
        "properties": {
            "items": { "type": "array", "items": super::reference("schemas", name) },
            "nextCursor": { "type": ["string", "null"], "description": "Send this value as `cursor` to get the next page." },
            "hasMore": { "type": "boolean", "description": "Whether there is a next page." },
        },
        "additionalProperties": false,
    })
}

/// The response of an aggregate, or one group of it.
pub(super) fn numbers(desc: &EntityDesc, aggregate: &Aggregate) -> Json {
    let mut properties = Map::new();
    let mut required = Vec::new();
    if let Some(group) = &aggregate.group {
        let field = &desc.fields[group.field];
        let mut key = match group.truncate {
            Some(_) => Map::from_iter([("type".to_owned(), json!("string"))]),
            None => bare(field),
        };
        if field.optional {
            nullable(&mut key);
        }
        required.push(field.wire);
        properties.insert(field.wire.to_owned(), Json::Object(key));
    }
    for output in aggregate.compute {
        let field = &desc.fields[output.field];
        let number = if matches!(field.kind, Kind::Integer) {
            "integer"
        } else {
            "number"
        };
        let schema = match output.function {
            None => {
                json!({ "type": "object", "additionalProperties": { "type": "integer", "minimum": 1 } })
            }
            Some(Function::Count) => json!({ "type": "integer", "minimum": 0 }),
            Some(Function::Sum) => json!({ "type": number }),
            Some(Function::Avg) => json!({ "type": ["number", "null"] }),
            Some(Function::Min | Function::Max) => {
                let mut value = bare(field);
                nullable(&mut value);
                Json::Object(value)
            }
        };
        required.push(output.name);
        properties.insert(output.name.to_owned(), schema);
    }
    json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": false })
}

/// The response of a custom operation. Records refer to their own schemas.
pub(super) fn shape(shape: Shape) -> Json {
    match shape {
        Shape::Value(kind) => Json::Object(value(&FieldDesc::new("", "", "", kind, false))),
        Shape::Object(fields) => {
            let mut object = Object::new(fields.iter(), input);
            // Responses contain every member, including null.
            object.required = fields.iter().map(|f| f.wire).collect();
            object.closed = true;
            object.finish()
        }
        Shape::Optional(inner) => json!({ "anyOf": [self::shape(*inner), { "type": "null" }] }),
        Shape::List(item) => json!({ "type": "array", "items": self::shape(*item) }),
        Shape::Nothing | Shape::Record | Shape::RecordOrNull | Shape::Records => json!({}),
    }
}

/// An object schema under construction.
pub(super) struct Object {
    pub(super) properties: Map<String, Json>,
    pub(super) required: Vec<&'static str>,
    pub(super) closed: bool,
    pub(super) doc: &'static str,
}

impl Object {
    pub(super) fn new<'a>(
        fields: impl Iterator<Item = &'a FieldDesc>,
        schema: impl Fn(&FieldDesc) -> Map<String, Json>,
    ) -> Self {
        let properties = fields
            .map(|f| (f.wire.to_owned(), Json::Object(schema(f))))
            .collect();
        Self {
            properties,
            required: Vec::new(),
            closed: false,
            doc: "",
        }
    }

    /// Adds the maximum length of indexed texts. The index limits the number of bytes. A text with
    /// more characters than this limit has more bytes, too.
    fn limit_indexed_texts(&mut self, desc: &EntityDesc) {
        for (field, most) in desc.fields.iter().zip(indexed_bytes(desc)) {
            let least = |declared: Option<u32>| {
                most.filter(|most| declared.is_none_or(|declared| declared as usize > *most))
            };
            if let (Some(most), Some(schema)) = (
                least(field.rules.length.1),
                self.properties.get_mut(field.wire),
            ) {
                schema["maxLength"] = json!(most);
            }
        }
    }

    pub(super) fn finish(self) -> Json {
        let mut out = json!({ "type": "object", "properties": self.properties });
        if !self.required.is_empty() {
            out["required"] = json!(self.required);
        }
        if self.closed {
            out["additionalProperties"] = json!(false);
        }
        describe(&mut out, self.doc);
        out
    }
}

/// Adds a doc comment, if there is one.
pub(super) fn describe(schema: &mut Json, doc: &str) {
    if !doc.trim().is_empty() {
        schema["description"] = json!(doc.trim());
    }
}

/// A field of a record.
fn output(field: &FieldDesc) -> Map<String, Json> {
    let mut out = input(field);
    if field.flags.has(Flags::WRITE_ONLY) {
        out.insert("writeOnly".to_owned(), json!(true));
    } else if field.server_owned() {
        out.insert("readOnly".to_owned(), json!(true));
    }
    out
}

/// A field of a create body, with its default if a client may see it.
fn created(field: &FieldDesc) -> Map<String, Json> {
    let mut out = input(field);
    if let DefaultDesc::Literal(value) = field.default
        && !field.flags.has(Flags::SENSITIVE.or(Flags::WRITE_ONLY))
    {
        out.insert("default".to_owned(), literal(&value()));
    }
    out
}

/// Adds the default of an omitted parameter, if a client may see it.
pub(super) fn default(schema: &mut Json, param: &ParamSpec, field: &FieldDesc) {
    match param.default {
        Some(SourceSpec::Literal(value))
            if field.readable() && !field.flags.has(Flags::SENSITIVE) =>
        {
            schema["default"] = literal(&value());
        }
        Some(SourceSpec::Now) => {
            let description = schema["description"]
                .as_str()
                .map_or_else(String::new, |description| format!("{description} "));
            schema["description"] = json!(format!("{description}Default: the time of the call."));
        }
        _ => {}
    }
}

/// A field of any body: its values, including null if it is optional, and its doc comment.
pub(super) fn input(field: &FieldDesc) -> Map<String, Json> {
    let mut out = value(field);
    if field.optional {
        nullable(&mut out);
    }
    if field.flags.has(Flags::WRITE_ONLY) {
        out.insert("writeOnly".to_owned(), json!(true));
    }
    if !field.doc.trim().is_empty() {
        out.insert("description".to_owned(), json!(field.doc.trim()));
    }
    out
}

/// Adds null to the allowed values. A schema without a type allows it anyway.
pub(super) fn nullable(schema: &mut Map<String, Json>) {
    if let Some(kind) = schema.get_mut("type") {
        *kind = json!([kind.take(), "null"]);
    }
    if let Some(Json::Array(values)) = schema.get_mut("enum") {
        values.push(Json::Null);
    }
}

/// All values of a field's type, without its validation rules: for filters.
pub(super) fn bare(field: &FieldDesc) -> Map<String, Json> {
    value(&FieldDesc {
        rules: &Rules::NONE,
        ..*field
    })
}

/// One item of a list.
pub(super) fn item(field: &FieldDesc) -> Json {
    value(field).remove("items").unwrap_or_default()
}

/// One element of a list of strings.
pub(super) fn element(field: &FieldDesc) -> Map<String, Json> {
    let mut out = Map::new();
    text(
        field.rules.each.unwrap_or(&Rules::NONE),
        &mut |key, value| {
            out.insert(key.to_owned(), value);
        },
    );
    out
}

/// The values of a field, without null.
pub(super) fn value(field: &FieldDesc) -> Map<String, Json> {
    let rules = field.rules;
    let mut out = Map::new();
    let mut set = |key: &str, value: Json| {
        out.insert(key.to_owned(), value);
    };
    match field.kind {
        Kind::Integer if field.flags.has(Flags::PRIMARY) => {
            set("type", json!("string"));
            set("pattern", json!("^(0|-?[1-9][0-9]*)$"));
        }
        Kind::String => {
            text(rules, &mut set);
            match field.default {
                DefaultDesc::Uuid
                    if rules.format.is_none() && !field.flags.has(Flags::CLIENT_SET) =>
                {
                    set("format", json!("uuid"));
                }
                _ if field.flags.has(Flags::PRIMARY) && rules.length.0.is_none() => {
                    set("minLength", json!(1));
                }
                _ => {}
            }
        }
        Kind::Boolean => set("type", json!("boolean")),
        Kind::Integer => {
            set("type", json!("integer"));
            set("format", json!("int64"));
            if rules.one_of_int.is_empty() {
                let least = if field.flags.has(Flags::VERSION) {
                    1
                } else {
                    -MAX_INTEGER
                };
                set("minimum", rules.range.0.map_or(json!(least), bound));
                set("maximum", rules.range.1.map_or(json!(MAX_INTEGER), bound));
            } else {
                set("enum", json!(rules.one_of_int));
            }
        }
        Kind::Number => {
            set("type", json!("number"));
            set("format", json!("double"));
            for (key, limit) in [("minimum", rules.range.0), ("maximum", rules.range.1)] {
                if let Some(limit) = limit {
                    set(key, bound(limit));
                }
            }
        }
        Kind::Date => {
            set("type", json!("string"));
            set("format", json!("date-time"));
            // JSON Schema has no keyword for the range of a date.
            for (key, limit) in [
                ("x-linchpin-minimum", rules.range.0),
                ("x-linchpin-maximum", rules.range.1),
            ] {
                if let Some(Bound::Int(millis)) = limit {
                    set(key, literal(&Value::Date(Timestamp::from_millis(millis))));
                }
            }
        }
        Kind::Enum(desc) => {
            set("type", json!("string"));
            set("enum", json!(desc.variants));
        }
        Kind::StringArray => {
            let mut item = Map::new();
            text(rules.each.unwrap_or(&Rules::NONE), &mut |key, value| {
                item.insert(key.to_owned(), value);
            });
            list(rules, Json::Object(item), &mut set);
        }
        Kind::Json => {}
        Kind::Items(fields) => {
            let mut item = Object::new(fields.iter(), input);
            item.required = fields
                .iter()
                .filter(|f| f.is_required())
                .map(|f| f.wire)
                .collect();
            item.closed = true;
            list(rules, item.finish(), &mut set);
        }
    }
    out
}

fn text(rules: &Rules, set: &mut impl FnMut(&str, Json)) {
    set("type", json!("string"));
    for (key, limit) in [("minLength", rules.length.0), ("maxLength", rules.length.1)] {
        if let Some(limit) = limit {
            set(key, json!(limit));
        }
    }
    if let Some(format) = rules.format {
        let (name, pattern) = standard(format);
        set("format", json!(name));
        if let Some(pattern) = pattern {
            set("pattern", json!(pattern));
        }
    }
    if let Some(pattern) = rules.pattern {
        // Patterns of the framework match the whole value; patterns of JSON Schema match any part
        // of it.
        let key = if is_portable(pattern) {
            "pattern"
        } else {
            "x-linchpin-pattern"
        };
        set(key, json!(format!("^(?:{pattern})$")));
    }
    if !rules.one_of.is_empty() {
        set("enum", json!(rules.one_of));
    }
}

/// A format name of JSON Schema or the OpenAPI registry; also a pattern if neither has that format.
fn standard(format: &'static str) -> (&'static str, Option<&'static str>) {
    match format {
        "url" => ("uri", None),
        "time" => (
            "time-local",
            Some(r"^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?$"),
        ),
        "slug" => ("slug", Some("^[a-z0-9]+(-[a-z0-9]+)*$")),
        "cuid" => ("cuid", Some("^[a-z][a-z0-9]{1,31}$")),
        "e164" => ("e164", Some(r"^\+[1-9][0-9]{1,14}$")),
        "color" => ("color", Some("^#[0-9A-Fa-f]{6}$")),
        other => (other, None),
    }
}

/// Whether a pattern has the same meaning in JavaScript, which JSON Schema uses.
fn is_portable(pattern: &str) -> bool {
    let groups = pattern
        .match_indices("(?")
        .all(|(at, _)| pattern[at..].starts_with("(?:"));
    let foreign = [
        "\\A", "\\z", "\\x{", "\\p", "\\P", "\\b{", "\\<", "\\>", "[[", "&&", "--", "~~", "\\d",
        "\\w", "\\s", "\\D", "\\W", "\\S",
    ];
    groups && !foreign.iter().any(|part| pattern.contains(part))
}

fn list(rules: &Rules, item: Json, set: &mut impl FnMut(&str, Json)) {
    set("type", json!("array"));
    set("items", item);
    for (key, limit) in [("minItems", rules.items.0), ("maxItems", rules.items.1)] {
        if let Some(limit) = limit {
            set(key, json!(limit));
        }
    }
    if rules.unique_items {
        set("uniqueItems", json!(true));
    }
}

fn bound(bound: Bound) -> Json {
    match bound {
        Bound::Int(i) => json!(i),
        Bound::Float(f) => json!(f),
    }
}

/// A value in its wire form.
pub(super) fn literal(value: &Value) -> Json {
    let mut out = Vec::new();
    crate::json::write_value(value.as_ref(), &mut out);
    // The framework's own writer produces valid JSON; if it did not, null would be harmless here.
    serde_json::from_slice(&out).unwrap_or(Json::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_portable_patterns_are_called_patterns() {
        for pattern in ["[a-z]+", "(?:a|b)c?", "a{2,3}", r"\.txt"] {
            assert!(is_portable(pattern), "{pattern}");
        }
        // Flags, names, and classes that mean all of Unicode here and ASCII in JavaScript.
        for pattern in [
            "(?i)a",
            "(?P<n>a)",
            r"\p{L}",
            r"\d+",
            "[a-z&&[^x]]",
            r"\Aa\z",
        ] {
            assert!(!is_portable(pattern), "{pattern}");
        }
    }

    #[test]
    fn formats_unknown_to_openapi_are_patterns() {
        let mut out = Map::new();
        text(
            &Rules {
                format: Some("time"),
                ..Rules::NONE
            },
            &mut |key, value| drop(out.insert(key.to_owned(), value)),
        );
        assert_eq!(out["format"], "time-local");
        let pattern = regex::Regex::new(out["pattern"].as_str().unwrap_or_default()).unwrap();
        assert!(
            pattern.is_match("09:30")
                && pattern.is_match("09:30:00.5")
                && !pattern.is_match("24:00")
                && !pattern.is_match("09:30Z")
        );
    }
}
