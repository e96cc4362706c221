//! Parses single values from text and from JSON leaves.

use super::tree::{Json, is_number};
use crate::entity::EntityDesc;
use crate::entity::{
    EnumDesc, FieldDesc, Flags, Flaw, Kind, NOT_FINITE, Rules, TOO_GREAT, canonical,
};
use crate::indexed::known_bytes;
use crate::{Timestamp, Value};

pub use linchpin_vocabulary::limit::MAX_INTEGER;

/// Returns the problem of a computed text that is too long for the index of its field.
#[doc(hidden)]
pub fn too_long_for_index(
    value: &Value,
    entity: &'static EntityDesc,
    field: usize,
) -> Option<Flaw> {
    // Almost all texts are short enough for any index, which has at most 16 texts.
    let length = value
        .as_text()
        .map(str::len)
        .filter(|length| *length > 128)?;
    let most = known_bytes(entity).get(field).copied().flatten()?;
    (length > most).then(|| too_long(most))
}

/// Parses a value from the query or from a path segment.
///
/// Integers are `-?\d+`, numbers have the syntax of JSON, booleans are `true` and `false`, dates
/// are RFC 3339, and enums are their variants. Empty text is a value only for strings. An integer
/// primary key is accepted only in its canonical form. For a string array the text is one element
/// (`$has`).
///
/// # Errors
/// `type`, `range`, `format` or `enum`; `not_allowed` for fields of json and items.
///
/// ```
/// # use linchpin::{Value, entity::{FieldDesc, Kind}, validate::parse_scalar};
/// const SCORE: FieldDesc = FieldDesc::new("score", "score", "score", Kind::Integer, true);
/// assert_eq!(parse_scalar(&SCORE, "-7"), Ok(Value::Int(-7)));
/// assert_eq!(parse_scalar(&SCORE, "7.0").map_err(|flaw| flaw.code), Err("type"));
/// ```
pub fn parse_scalar(field: &FieldDesc, text: &str) -> Result<Value, Flaw> {
    match field.kind {
        Kind::String => plain_text(field.rules, text),
        Kind::StringArray => plain_text(field.rules.each.unwrap_or(&Rules::NONE), text),
        Kind::Boolean => match text {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err(NOT_BOOLEAN),
        },
        Kind::Integer if field.flags.has(Flags::PRIMARY) => parse_key(text),
        Kind::Integer => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return Err(NOT_INTEGER);
            }
            integer(text)
        }
        Kind::Number if is_number(text) => number(text),
        Kind::Number => Err(NOT_NUMBER),
        Kind::Date => date(text),
        Kind::Enum(desc) => variant(desc, text),
        Kind::Json | Kind::Items(_) => Err(Flaw::new("not_allowed", "cannot be compared")),
    }
}

/// Returns a list in the form of a list parameter: text as [`Value::Strings`], other types as a
/// JSON array, dates as milliseconds.
///
/// All elements have one scalar type. [`Operand::One`](crate::filter::Operand::One) contains this
/// form for `$in` and `$nin`.
pub fn list_value(values: &[Value]) -> Value {
    if let Some(texts) = values
        .iter()
        .map(|v| v.as_text().map(str::to_owned))
        .collect::<Option<Vec<_>>>()
    {
        return Value::Strings(texts);
    }
    let mut out = vec![b'['];
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        match value {
            Value::Date(date) => {
                out.extend_from_slice(itoa::Buffer::new().format(date.millis()).as_bytes());
            }
            value => crate::json::write_value(value.as_ref(), &mut out),
        }
    }
    out.push(b']');
    // All writers above produce UTF-8.
    Value::Json(String::from_utf8(out).unwrap_or_default())
}

pub(super) const NOT_STRING: Flaw = Flaw::new("type", "must be a string");
pub(super) const NOT_BOOLEAN: Flaw = Flaw::new("type", "must be true or false");
pub(super) const NOT_INTEGER: Flaw = Flaw::new("type", "must be a whole number");
pub(super) const NOT_NUMBER: Flaw = Flaw::new("type", "must be a number");
pub(super) const NOT_DATE: Flaw = Flaw::new(
    "format",
    "must be an RFC 3339 date-time such as 2026-01-02T03:04:05Z",
);
pub(super) const NOT_LIST: Flaw = Flaw::new("type", "must be a list");
pub(super) const NOT_OBJECT: Flaw = Flaw::new("type", "must be an object");
pub(super) const HOLDS_NUL: Flaw = Flaw::new("format", "must not contain the character U+0000");
pub(super) const IS_NULL: Flaw = Flaw::new("null_not_allowed", "must not be null");

/// Reads a scalar from a JSON leaf. The rules check NUL in text, because typed input needs the
/// check too.
pub(super) fn from_json(field: &FieldDesc, json: &Json<'_>) -> Result<Value, Flaw> {
    match (field.kind, json) {
        (Kind::String, Json::Text(text)) => Ok(Value::Text(canonical(
            field.rules,
            text.clone().into_owned(),
        ))),
        (Kind::Boolean, Json::Bool(b)) => Ok(Value::Bool(*b)),
        // Ids are strings in JSON, also for integer keys.
        (Kind::Integer, Json::Text(text)) if field.flags.has(Flags::PRIMARY) => parse_key(text),
        (Kind::Integer, Json::Number(literal)) if !field.flags.has(Flags::PRIMARY) => {
            if literal.contains(['.', 'e', 'E']) {
                Err(NOT_INTEGER)
            } else {
                integer(literal)
            }
        }
        (Kind::Number, Json::Number(literal)) => number(literal),
        (Kind::Date, Json::Text(text)) => date(text),
        (Kind::Enum(desc), Json::Text(text)) => variant(desc, text),
        (Kind::Integer, _) if field.flags.has(Flags::PRIMARY) => Err(NOT_STRING),
        (Kind::Boolean, _) => Err(NOT_BOOLEAN),
        (Kind::Integer, _) => Err(NOT_INTEGER),
        (Kind::Number, _) => Err(NOT_NUMBER),
        (Kind::Date, _) => Err(Flaw {
            code: "type",
            ..NOT_DATE
        }),
        _ => Err(NOT_STRING),
    }
}

/// Reads a text. NUL is refused, because `PostgreSQL` cannot store it.
fn plain_text(rules: &Rules, text: &str) -> Result<Value, Flaw> {
    if text.as_bytes().contains(&0) {
        Err(HOLDS_NUL)
    } else {
        Ok(Value::Text(canonical(rules, text.to_owned())))
    }
}

fn parse_key(text: &str) -> Result<Value, Flaw> {
    match text.parse::<i64>() {
        Ok(key) if itoa::Buffer::new().format(key) == text => {
            if (-MAX_INTEGER..=MAX_INTEGER).contains(&key) {
                Ok(Value::Int(key))
            } else {
                Err(TOO_GREAT)
            }
        }
        _ => Err(Flaw::new(
            "format",
            "must be a whole number in its shortest decimal form, as a string",
        )),
    }
}

/// Parses digits with an optional minus.
fn integer(digits: &str) -> Result<Value, Flaw> {
    match digits.parse::<i64>() {
        Ok(n) if (-MAX_INTEGER..=MAX_INTEGER).contains(&n) => Ok(Value::Int(n)),
        _ => Err(TOO_GREAT),
    }
}

/// Parses a literal with the syntax of JSON.
fn number(literal: &str) -> Result<Value, Flaw> {
    match literal.parse::<f64>() {
        // Adding zero turns -0.0 into 0.0 and changes nothing else.
        Ok(n) if n.is_finite() => Ok(Value::Float(n + 0.0)),
        _ => Err(NOT_FINITE),
    }
}

fn date(text: &str) -> Result<Value, Flaw> {
    Timestamp::parse(text)
        .map(Value::Date)
        .map_err(|_| NOT_DATE)
}

fn variant(desc: &EnumDesc, text: &str) -> Result<Value, Flaw> {
    if desc.variants.contains(&text) {
        Ok(Value::Text(text.to_owned()))
    } else {
        Err(not_one_of(desc.variants))
    }
}

/// The problem of a text with more bytes than the index of its field allows.
pub(super) fn too_long(most: usize) -> Flaw {
    Flaw {
        code: "max_length",
        message: format!(
            "must have at most {most} bytes in UTF-8, because the field is in an index"
        )
        .into(),
    }
}

pub(super) fn not_one_of(texts: &[&str]) -> Flaw {
    Flaw {
        code: "enum",
        message: format!("must be one of {}", texts.join(", ")).into(),
    }
}
