//! Responses and records as texts, which the comparison of the sides uses.

use std::fmt::Write as _;

use linchpin::Value;
use linchpin::entity::{EntityDesc, Kind};
use linchpin::prelude::*;
use serde_json::Value as Json;

/// Whether a text begins with a uuid of version 7, as the server generates them.
pub(super) fn is_uuid(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 36
        && bytes[14] == b'7'
        && bytes[..36].iter().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => *b == b'-',
            _ => matches!(b, b'0'..=b'9' | b'a'..=b'f'),
        })
}

/// Whether a word is a cuid.
pub(super) fn is_cuid(word: &str) -> bool {
    let alphanumeric = |b: &u8| matches!(b, b'0'..=b'9' | b'a'..=b'z');
    word.len() == 24
        && word.as_bytes()[0].is_ascii_lowercase()
        && word.as_bytes().iter().all(alphanumeric)
}

/// Records as JSON arrays, one per line.
pub(super) fn records<'a>(
    desc: &EntityDesc,
    records: impl Iterator<Item = &'a Box<[Value]>>,
) -> String {
    let mut out = String::new();
    for record in records {
        for (i, (field, value)) in desc.fields.iter().zip(record).enumerate() {
            out.push(if i == 0 { '[' } else { ',' });
            match value {
                Value::Null => out.push_str("null"),
                Value::Bool(b) => write!(out, "{b}").expect("a text"),
                Value::Int(n) => write!(out, "{n}").expect("a text"),
                Value::Float(n) => write!(out, "{n:?}").expect("a text"),
                Value::Text(text) => out.push_str(&Json::from(text.as_str()).to_string()),
                Value::Date(at) => write!(out, "\"{at}\"").expect("a text"),
                Value::Strings(list) => out.push_str(&Json::from(list.clone()).to_string()),
                // Some stores return lists of strings as lists, others as JSON.
                Value::Json(text) if matches!(field.kind, Kind::StringArray) => {
                    out.push_str(
                        &serde_json::from_str::<Json>(text)
                            .expect("JSON")
                            .to_string(),
                    );
                }
                Value::Json(text) => out.push_str(text),
            }
        }
        out.push_str("]\n");
    }
    out
}

pub(super) fn describe(error: &Error) -> String {
    let details: Vec<String> = error
        .details()
        .iter()
        .map(|p| format!("{} {}", p.path, p.code))
        .collect();
    format!("{} {details:?}", error.code().as_str())
}

/// Appends a text in the form of a path segment.
pub(super) fn encode(text: &str, out: &mut String) {
    encode_except(b"-_.~", text, out);
}

/// Appends a text in the form of a query value. Commas stay, because they separate the items of a
/// list.
pub(super) fn encode_value(text: &str, out: &mut String) {
    encode_except(b"-_.~,", text, out);
}

fn encode_except(plain: &[u8], text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("a text");
        }
    }
}
