//! Replaces generated ids, keys and cursors by names that are equal on both sides.

use std::sync::LazyLock;

use linchpin::Value;
use linchpin::entity::EntityDesc;
use regex::Regex;
use serde_json::Value as Json;

use super::Side;
use super::text::{is_cuid, is_uuid};

impl Side {
    pub(super) fn remember(&mut self, desc: &EntityDesc, record: &[Value]) {
        let mut note = |path: String, key: String| {
            let known = self.known.entry(path).or_default();
            if !known.contains(&key) {
                known.push(key);
            }
        };
        for (field, value) in desc.fields.iter().zip(record) {
            match value {
                Value::Json(text) if !field.kind.item_fields().is_empty() => {
                    let items = serde_json::from_str::<Json>(text).unwrap_or_default();
                    for id in items
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter_map(|item| item["id"].as_str())
                    {
                        note(format!("{}.{}", desc.path, field.wire), id.to_owned());
                    }
                }
                _ => {}
            }
        }
        match &record[desc.primary] {
            Value::Text(key) => note(desc.path.to_owned(), key.clone()),
            Value::Int(key) => note(desc.path.to_owned(), key.to_string()),
            _ => {}
        }
    }

    /// Replaces placeholders by keys and the cursor.
    pub(super) fn filled(&self, text: &str) -> String {
        static REFERENCE: LazyLock<Regex> =
            LazyLock::new(|| Regex::new("<([a-z.]+):([0-9]+)>").expect("a pattern"));
        if !text.contains('<') {
            return text.to_owned();
        }
        let key_of = |found: &regex::Captures<'_>| {
            let known = self.known.get(&found[1]).map_or(&[][..], Vec::as_slice);
            let n: usize = found[2].parse().unwrap_or(0);
            // The newest first, because they most likely still exist.
            let position = known.len().checked_sub(1 + n % known.len().max(1));
            position.map_or_else(|| "none".to_owned(), |position| known[position].clone())
        };
        REFERENCE
            .replace_all(text, key_of)
            .replace("<cursor>", &self.cursor)
    }

    pub(super) fn fill(&self, json: &mut Json) {
        match json {
            Json::String(text) => *text = self.filled(text),
            Json::Array(list) => list.iter_mut().for_each(|item| self.fill(item)),
            Json::Object(members) => members.values_mut().for_each(|member| self.fill(member)),
            _ => {}
        }
    }

    /// Replaces all cursors of a body by one text. Stores the cursor of the page itself, but not
    /// those of included lists. Returns whether the page has a next page.
    pub(super) fn without_cursors(&mut self, body: String) -> (String, bool) {
        const BEFORE: &str = "\"nextCursor\":\"";
        if !body.contains(BEFORE) {
            return (body, false);
        }
        let is_page = body.starts_with("{\"items\":[") && body.ends_with("\"hasMore\":true}");
        let mut parts = body.split(BEFORE);
        let mut out = parts.next().unwrap_or_default().to_owned();
        let mut last = "";
        for part in parts {
            let (cursor, rest) = part.split_once('"').expect("the end of a text");
            last = cursor;
            out.push_str(BEFORE);
            out.push_str("SIGNED\"");
            out.push_str(rest);
        }
        if is_page {
            last.clone_into(&mut self.cursor);
        }
        (out, is_page)
    }

    /// Replaces each generated value by a name with a number: the number of different values that
    /// were seen before this one.
    pub(super) fn named(&mut self, text: String) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        // This reads every response, so it uses no regular expression. Generated values are ASCII.
        while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
            out.push_str(&rest[..start]);
            rest = &rest[start..];
            let word = rest.len()
                - rest
                    .trim_start_matches(|c: char| c.is_ascii_alphanumeric())
                    .len();
            let length = if is_uuid(rest) { 36 } else { word };
            let (value, after) = rest.split_at(length);
            if length == 36 || is_cuid(value) {
                let next = self.names.len();
                out.push_str(
                    self.names
                        .entry(value.to_owned())
                        .or_insert_with(|| format!("made-{next}")),
                );
            } else {
                out.push_str(value);
            }
            rest = after;
        }
        out.push_str(rest);
        out
    }
}

#[test]
fn generated_values_are_distinguished_from_sent_values() {
    assert!(is_uuid("0193e7a0-0000-7000-8000-00000000000f\","));
    assert!(
        !is_uuid("0193e7a0-0000-4000-8000-00000000000f")
            && !is_uuid("0193e7a0-0000-7000-8000-00000000000")
    );
    assert!(
        is_cuid("tz4a98xxat96iws9zmbrgj3a")
            && !is_cuid("9z4a98xxat96iws9zmbrgj3a")
            && !is_cuid("made")
    );
}
