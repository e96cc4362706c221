//! The schema of records outside responses, such as the payload of an event, and an example of it.

use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Value as Json, json};

use super::schema::{self, Object};
use crate::Timestamp;
use crate::entity::{Bound, DefaultDesc, EntityDesc, FieldDesc, Flags, Kind, Rules};

/// The instant of examples: 2026-01-15T09:30:00Z.
const INSTANT: i64 = 1_768_469_400_000;
const UUID: &str = "0199f1a5-ac96-774b-bcce-b302099a8057";

/// Returns the JSON Schema of a record with the readable fields that `keep` selects. Private and
/// write-only fields are never part of it.
///
/// Further members are allowed, so a new field is not a breaking change.
pub fn record_schema(entity: &EntityDesc, keep: impl Fn(&FieldDesc) -> bool) -> Json {
    let fields = || entity.fields.iter().filter(|f| f.readable() && keep(f));
    let mut record = Object::new(fields(), schema::input);
    record.required = fields().map(|f| f.wire).collect();
    record.doc = entity.doc;
    record.finish()
}

/// Returns an example of a record. It validates against [`record_schema`] of the same fields.
pub fn record_example(entity: &EntityDesc, keep: impl Fn(&FieldDesc) -> bool) -> Json {
    let fields = entity.fields.iter().filter(|f| f.readable() && keep(f));
    Json::Object(fields.map(|f| (f.wire.to_owned(), value(f))).collect())
}

/// A value that a field may have: its default, or one that satisfies its rules.
fn value(field: &FieldDesc) -> Json {
    let rules = field.rules;
    if let DefaultDesc::Literal(default) = field.default
        && !field.flags.has(Flags::SENSITIVE)
    {
        return schema::literal(&default());
    }
    match field.kind {
        Kind::Integer if field.flags.has(Flags::PRIMARY) => json!("1"),
        Kind::String => match field.default {
            DefaultDesc::Uuid => json!(UUID),
            _ => json!(text(rules, field.wire, 0)),
        },
        Kind::Boolean => json!(true),
        Kind::Integer => match rules.one_of_int.first() {
            Some(first) => json!(first),
            None => match exceeded_bound(rules, 1.0) {
                Some(bound) => bound,
                None => json!(1),
            },
        },
        Kind::Number => exceeded_bound(rules, 1.5).unwrap_or(json!(1.5)),
        Kind::Date => {
            let at = match exceeded_bound(rules, INSTANT as f64) {
                Some(bound) => bound.as_i64().unwrap_or(INSTANT),
                None => INSTANT,
            };
            json!(Timestamp::from_millis(at).to_string())
        }
        Kind::Enum(desc) => json!(desc.variants.first()),
        Kind::StringArray => {
            let each = rules.each.unwrap_or(&Rules::NONE);
            list(rules, |at| json!(text(each, field.wire, at)))
        }
        Kind::Json => json!({}),
        Kind::Items(fields) => list(rules, |_| {
            let members = fields.iter().map(|f| (f.wire.to_owned(), value(f)));
            Json::Object(members.collect::<Map<_, _>>())
        }),
    }
}

/// The bound of `range` that a number exceeds, if it does.
fn exceeded_bound(rules: &Rules, number: f64) -> Option<Json> {
    let exceeds = |bound: &Bound, above: bool| {
        let limit = match *bound {
            Bound::Int(limit) => limit as f64,
            Bound::Float(limit) => limit,
        };
        if above {
            number > limit
        } else {
            number < limit
        }
    };
    let (least, most) = rules.range;
    let bound = least
        .filter(|least| exceeds(least, false))
        .or_else(|| most.filter(|most| exceeds(most, true)))?;
    Some(match bound {
        Bound::Int(limit) => json!(limit),
        Bound::Float(limit) => json!(limit),
    })
}

/// The smallest number of items that the rules allow, but at least one if they allow it.
fn list(rules: &Rules, item: impl Fn(usize) -> Json) -> Json {
    let (least, most) = rules.items;
    let count = least.unwrap_or(1).max(1).min(most.unwrap_or(u32::MAX));
    (0..count as usize).map(item).collect()
}

/// A text that satisfies the rules. Different numbers give different texts if the rules allow it.
fn text(rules: &Rules, name: &str, number: usize) -> String {
    if !rules.one_of.is_empty() {
        return rules.one_of[number % rules.one_of.len()].to_owned();
    }
    let (least, most) = rules.length;
    let (least, most) = (least.unwrap_or(0) as usize, most.map(|most| most as usize));
    if let Some(pattern) = rules.pattern
        && let Ok(hir) = regex_syntax::parse(pattern)
    {
        // More repetitions make it longer.
        let texts = || (0..=least as u32).map(|more| matching(&hir, more));
        let fits = |text: &String| text.chars().count() >= least;
        return texts()
            .find(fits)
            .or_else(|| texts().next_back())
            .unwrap_or_default();
    }
    if let Some(format) = rules.format {
        return of_format(format, number, least);
    }
    let mut out = match number {
        0 => name.to_owned(),
        _ => format!("{number}{name}"),
    };
    while out.chars().count() < least {
        out.push('x');
    }
    match most {
        Some(most) => out.chars().take(most).collect(),
        None => out,
    }
}

/// A text in a format. Formats of variable length are padded to `least` characters.
fn of_format(format: &str, number: usize, least: usize) -> String {
    let filled = |before: &str, after: &str| {
        let count = least.saturating_sub(before.len() + after.len());
        let number = if number == 0 {
            String::new()
        } else {
            number.to_string()
        };
        format!("{before}{number}{}{after}", "x".repeat(count))
    };
    match format {
        "email" => filled("someone", "@example.com"),
        "url" => filled("https://example.com/", ""),
        "uuid" => UUID.to_owned(),
        "cuid" => "tz4a98xxat96iws9zmbrgj3a".to_owned(),
        "slug" => filled("example", ""),
        "hostname" => filled("www", ".example.com"),
        "ipv4" => "192.0.2.1".to_owned(),
        "ipv6" => "2001:db8::1".to_owned(),
        "e164" => "+14155550100".to_owned(),
        "date" => "2026-01-15".to_owned(),
        "time" => "09:30:00".to_owned(),
        "color" => "#1a2b3c".to_owned(),
        "iana_tz" => "Europe/Berlin".to_owned(),
        "bcp47" => "en-US".to_owned(),
        // base64url: groups of four characters.
        _ => "Zm9v".repeat(least.div_ceil(4).max(1)),
    }
}

/// A text that a pattern matches. It takes the first of several alternatives. Each repetition
/// occurs `more` times more than the minimum, but at most the maximum.
fn matching(hir: &Hir, more: u32) -> String {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => String::new(),
        HirKind::Literal(literal) => String::from_utf8_lossy(&literal.0).into_owned(),
        HirKind::Class(class) => one_of(class).into(),
        HirKind::Repetition(repetition) => {
            let count = repetition.min.saturating_add(more);
            let count = count.min(repetition.max.unwrap_or(u32::MAX));
            matching(&repetition.sub, more).repeat(count as usize)
        }
        HirKind::Capture(capture) => matching(&capture.sub, more),
        HirKind::Concat(parts) => parts.iter().map(|part| matching(part, more)).collect(),
        HirKind::Alternation(parts) => parts
            .first()
            .map_or_else(String::new, |part| matching(part, more)),
    }
}

/// A character of a class: a lower-case letter if the class contains one, otherwise its first
/// visible ASCII character.
fn one_of(class: &Class) -> char {
    let ranges: Vec<(char, char)> = match class {
        Class::Unicode(class) => class
            .ranges()
            .iter()
            .map(|r| (r.start(), r.end()))
            .collect(),
        Class::Bytes(class) => {
            let ranges = class.ranges().iter();
            ranges.map(|r| (r.start().into(), r.end().into())).collect()
        }
    };
    let has = |c: &char| ranges.iter().any(|(from, to)| (from..=to).contains(&c));
    let preferred = ('a'..='z').chain('!'..='~').find(has);
    preferred
        .or_else(|| ranges.first().map(|range| range.0))
        .unwrap_or('a')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_patterns_match_them() {
        for (pattern, least) in [
            ("[a-z]+", 1),
            ("[A-Z]{2}-[0-9]{4,}", 12),
            ("(?:foo|bar)?baz", 3),
            (r"\d{3}\.\w*", 9),
            (r"^[^a-z]\b.*$", 5),
            (r"[^\x00-\x7f]", 1),
            ("(ab)+", 5),
        ] {
            let rules = Rules {
                pattern: Some(pattern),
                length: (Some(least), None),
                ..Rules::NONE
            };
            let text = text(&rules, "name", 0);
            let anchored = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
            assert!(anchored.is_match(&text), "{pattern}: {text}");
            assert!(text.chars().count() >= least as usize, "{pattern}: {text}");
        }
    }

    #[test]
    fn examples_respect_length_and_range() {
        let rules = |length, range| Rules {
            length,
            range,
            ..Rules::NONE
        };
        assert_eq!(
            text(&rules((None, Some(2)), (None, None)), "title", 0),
            "ti"
        );
        assert_eq!(
            text(&rules((Some(7), None), (None, None)), "title", 0),
            "titlexx"
        );
        let range = (Some(Bound::Int(5)), Some(Bound::Int(9)));
        assert_eq!(
            exceeded_bound(&rules((None, None), range), 1.0),
            Some(json!(5))
        );
        assert_eq!(
            exceeded_bound(&rules((None, None), range), 10.0),
            Some(json!(9))
        );
        assert_eq!(exceeded_bound(&rules((None, None), range), 6.0), None);
    }
}
