//! Constants in statements, and in default expressions as PostgreSQL reports them.

use linchpin_core::schema::ColumnKind;
use linchpin_core::{Timestamp, Value};
use serde_json::Value as Json;

use crate::render::literal;

/// Renders a constant with its type. If the column kind is unknown, the type is the one of the
/// value.
pub(super) fn constant(value: &Value, kind: Option<&ColumnKind>) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bool(b) => boolean(*b).to_owned(),
        Value::Int(i) if kind == Some(&ColumnKind::Number) => double(*i as f64),
        Value::Int(i) => typed(&i.to_string(), "bigint"),
        Value::Float(f) => double(*f),
        Value::Text(text) => typed(text, "text"),
        Value::Date(date) => typed(&date.to_string(), "timestamptz"),
        Value::Strings(list) => typed(&array(list), "text[]"),
        Value::Json(text) => typed(text, "jsonb"),
    }
}

fn typed(text: &str, kind: &str) -> String {
    format!("{}::{kind}", literal(text))
}

fn boolean(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// The shortest text of the same value.
fn double(value: f64) -> String {
    typed(&format!("{value:?}"), "double precision")
}

/// A list in the form that PostgreSQL prints, so that the reported default is the same text.
fn array(list: &[String]) -> String {
    let item = |text: &String| {
        let plain = !text.is_empty()
            && !text.eq_ignore_ascii_case("null")
            && !text
                .chars()
                .any(|c| matches!(c, '"' | '\\' | '{' | '}' | ',' | ' ' | '\t'..='\r'));
        if plain {
            return text.clone();
        }
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    };
    let items: Vec<String> = list.iter().map(item).collect();
    format!("{{{}}}", items.join(","))
}

/// Whether a default expression, in the form that PostgreSQL reports, is this value.
pub(super) fn is_described_by(value: &Value, kind: &ColumnKind, description: &str) -> bool {
    let Some(text) = constant_in(description) else {
        return false;
    };
    match value {
        Value::Null => false,
        Value::Bool(b) => text == boolean(*b),
        Value::Int(i) if *kind == ColumnKind::Number => text.parse() == Ok(*i as f64),
        Value::Int(i) => text.parse() == Ok(*i),
        Value::Float(f) => text.parse() == Ok(*f),
        Value::Text(own) => text == *own,
        Value::Date(date) => date_in(&text) == Some(*date),
        Value::Strings(list) => text == array(list),
        Value::Json(own) => match (serde_json::from_str(&text), serde_json::from_str(own)) {
            (Ok(found), Ok(own)) => same_json(&found, &own),
            _ => false,
        },
    }
}

/// The text of a constant such as `'a'::text`. An expression that does not begin with a quote, such
/// as `5` or `true`, is returned unchanged. `None` for other expressions.
fn constant_in(description: &str) -> Option<String> {
    if !description.starts_with('\'') {
        return Some(description.to_owned());
    }
    let (text, rest) = quoted(description)?;
    let kind = rest.strip_prefix("::")?;
    let is_type = |c: char| c.is_ascii_alphanumeric() || " ()[]_".contains(c);
    kind.chars().all(is_type).then_some(text)
}

/// Reads a quoted text at the start; returns it with the rest after it.
pub(super) fn quoted(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('\'')?;
    let mut out = String::new();
    loop {
        let (part, after) = rest.split_once('\'')?;
        out.push_str(part);
        match after.strip_prefix('\'') {
            Some(after) => {
                out.push('\'');
                rest = after;
            }
            None => return Some((out, after)),
        }
    }
}

/// `2026-01-02 03:04:05.678+00`, as a session in UTC describes it.
fn date_in(text: &str) -> Option<Timestamp> {
    let utc = text.strip_suffix("+00")?;
    Timestamp::parse(&format!("{}Z", utc.replacen(' ', "T", 1))).ok()
}

/// Equality of JSON, in which `1.0` equals `1`.
fn same_json(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(x), Json::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Json::Array(x), Json::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same_json(x, y))
        }
        (Json::Object(x), Json::Object(y)) => {
            x.len() == y.len()
                && x.iter()
                    .all(|(key, x)| y.get(key).is_some_and(|y| same_json(x, y)))
        }
        _ => a == b,
    }
}
