//! Constraints: all rules on values, checked in one place.

use std::borrow::Cow;
use std::collections::HashSet;

use regex::Regex;

use super::format::Format;
use super::path::Path;
use super::read::Reader;
use super::scalar::{HOLDS_NUL, MAX_INTEGER, NOT_STRING, not_one_of, too_long};
use super::tree::Json;
use crate::entity::{
    Bound, EntityDesc, FieldDesc, Flaw, Kind, NOT_FINITE, Rules, SoftDelete, TOO_GREAT,
};
use crate::indexed::indexed_bytes;
use crate::operation::ItemBounds;
use crate::{Error, Problem, Result, Timestamp, Value};

/// The compiled rules of an entity.
#[derive(Debug)]
pub struct Validator {
    fields: Box<[FieldRules]>,
    /// The field and the value that mark deleted records.
    mark: Option<(usize, Value)>,
}

/// The compiled rules of one field.
#[derive(Debug)]
struct FieldRules {
    field: &'static FieldDesc,
    text: TextRules,
    /// The rules of the elements of a string array.
    each: Option<TextRules>,
    /// The rules of the members of items.
    members: Box<[FieldRules]>,
    /// The limits of a list that is a collection.
    bounds: Option<ItemBounds>,
}

#[derive(Debug)]
struct TextRules {
    rules: &'static Rules,
    /// The maximum number of bytes of a text in an index; `None` if the field is in no index.
    max_bytes: Option<usize>,
    pattern: Option<Regex>,
    format: Option<Format>,
}

impl Validator {
    /// Compiles patterns and formats once.
    ///
    /// # Errors
    /// If a pattern does not compile or a format is unknown. The macros already report both.
    pub fn new(entity: &'static EntityDesc) -> Result<Self> {
        let mark = match entity.soft_delete {
            Some(SoftDelete::Is(field, mark)) => Some((field, mark())),
            _ => None,
        };
        let mut fields = compile(entity.fields)?;
        for (rules, bytes) in fields.iter_mut().zip(indexed_bytes(entity)) {
            rules.text.max_bytes = bytes;
        }
        Ok(Self { fields, mark })
    }

    /// Checks one present value of a field, and pushes problems at `path` and below it.
    ///
    /// No rule applies to null: the caller decides whether null is allowed. Messages never contain
    /// the value.
    pub fn check(&self, field: usize, value: &Value, path: &str, problems: &mut Vec<Problem>) {
        if self
            .mark
            .as_ref()
            .is_some_and(|(marked_field, mark)| *marked_field == field && mark == value)
        {
            problems.push(Problem::new(
                path,
                "not_allowed",
                "is the value that marks deleted records: delete the record instead",
            ));
        }
        if let Some(rules) = self.fields.get(field) {
            rules.check(value, Path::Root(path), problems);
        }
    }

    /// Checks a list of strings whose duplicates are removed before the write. Positions are those
    /// of the original list.
    pub fn check_without_repeats(
        &self,
        field: usize,
        list: &[String],
        path: &str,
        problems: &mut Vec<Problem>,
    ) {
        if let Some(rules) = self.fields.get(field) {
            rules.check_strings(list, Path::Root(path), true, problems);
        }
    }

    /// Sets the limits of a list of items, for every write: the maximum number, and the member that
    /// must be unique.
    pub fn bound_items(&mut self, bounds: ItemBounds) {
        if let Some(rules) = self.fields.get_mut(bounds.field) {
            rules.bounds = Some(bounds);
        }
    }

    /// Checks the members of one item, or some of them. `text` is a valid JSON object.
    ///
    /// # Errors
    /// `validation_failed` with all problems.
    pub fn check_item(&self, field: usize, text: &str) -> Result<()> {
        let mut problems = Vec::new();
        self.collect_item_problems(field, text, &mut problems);
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Error::validation(problems))
        }
    }

    /// Checks the members of one item, and adds to the known problems.
    #[doc(hidden)]
    pub fn collect_item_problems(&self, field: usize, text: &str, problems: &mut Vec<Problem>) {
        if let (Some(rules), Ok(Json::Object(members))) =
            (self.fields.get(field), Json::parse(text.as_bytes()))
        {
            rules.check_members(&members, Path::Root(""), problems);
        }
    }

    /// Checks one element for a list of strings.
    pub fn check_element(
        &self,
        field: usize,
        value: &Value,
        path: &str,
        problems: &mut Vec<Problem>,
    ) {
        let path = Path::Root(path);
        match (self.fields.get(field), value) {
            (
                Some(FieldRules {
                    each: Some(each), ..
                }),
                Value::Text(text),
            ) => each.check(text, path, problems),
            (_, Value::Text(text)) if holds_nul(text) => {
                path.report(problems, HOLDS_NUL.code, HOLDS_NUL.message);
            }
            (_, Value::Text(_)) => {}
            _ => path.report(problems, NOT_STRING.code, NOT_STRING.message),
        }
    }
}

fn compile(fields: &'static [FieldDesc]) -> Result<Box<[FieldRules]>> {
    fields.iter().map(FieldRules::compile).collect()
}

impl FieldRules {
    fn compile(field: &'static FieldDesc) -> Result<Self> {
        let members = match field.kind {
            Kind::Items(fields) => compile(fields)?,
            _ => Box::default(),
        };
        let each = field
            .rules
            .each
            .map(|rules| TextRules::compile(field, rules))
            .transpose()?;
        Ok(Self {
            field,
            text: TextRules::compile(field, field.rules)?,
            each,
            members,
            bounds: None,
        })
    }

    fn check(&self, value: &Value, path: Path<'_>, problems: &mut Vec<Problem>) {
        self.check_rules(value, path, problems);
        // A stored value that its type cannot read would make every later read of the record fail.
        // If the value already has a problem, from here or from reading the body, that problem is
        // the reason, and a second one would repeat it.
        if let Some(reads) = self.field.reads
            && !value.is_null()
            && !reads(value.as_ref())
        {
            let here = path.to_string();
            let is_below = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
            if !problems
                .iter()
                .any(|p| p.path.strip_prefix(&here).is_some_and(is_below))
            {
                path.report(problems, "type", "does not have the type of this field");
            }
        }
    }

    fn check_rules(&self, value: &Value, path: Path<'_>, problems: &mut Vec<Problem>) {
        let rules = self.field.rules;
        match (self.field.kind, value) {
            (_, Value::Null) | (Kind::Boolean, Value::Bool(_)) => {}
            (Kind::String, Value::Text(text)) => self.text.check(text, path, problems),
            (Kind::Enum(desc), Value::Text(text)) => {
                if !desc.variants.contains(&text.as_str()) {
                    let flaw = not_one_of(desc.variants);
                    path.report(problems, flaw.code, flaw.message);
                }
            }
            (Kind::Integer, Value::Int(n)) => {
                if !(-MAX_INTEGER..=MAX_INTEGER).contains(n) {
                    path.report(problems, TOO_GREAT.code, TOO_GREAT.message);
                } else if let Some(message) =
                    out_of_range(*n, rules.range, int_bound, |n| n.to_string())
                {
                    path.report(problems, "range", message);
                }
                if !rules.one_of_int.is_empty() && !rules.one_of_int.contains(n) {
                    let texts: Vec<String> = rules.one_of_int.iter().map(i64::to_string).collect();
                    path.report(
                        problems,
                        "enum",
                        format!("must be one of {}", texts.join(", ")),
                    );
                }
            }
            (Kind::Number, Value::Float(n)) => {
                if !n.is_finite() {
                    path.report(problems, NOT_FINITE.code, NOT_FINITE.message);
                } else if let Some(message) =
                    out_of_range(*n, rules.range, float_bound, |n| n.to_string())
                {
                    path.report(problems, "range", message);
                }
            }
            (Kind::Date, Value::Date(date)) => {
                if let Some(message) =
                    out_of_range(*date, rules.range, date_bound, |d| d.to_string())
                {
                    path.report(problems, "range", message);
                }
            }
            (Kind::StringArray, Value::Strings(list)) => {
                self.check_strings(list, path, false, problems);
            }
            (Kind::Json, Value::Json(text)) => {
                if json_holds_nul(text) {
                    path.report(problems, HOLDS_NUL.code, HOLDS_NUL.message);
                }
            }
            (Kind::Items(_), Value::Json(text)) => self.check_items(text, path, problems),
            (kind, _) => path.report(problems, "type", format!("must be of type {}", kind.name())),
        }
    }

    /// Checks the number of elements and each element. Elements that already have problems count
    /// towards the limits but are not checked again. If `removes_duplicates` is true, the write
    /// keeps only one of equal elements, so only one counts and the others are not problems.
    fn check_strings(
        &self,
        list: &[String],
        path: Path<'_>,
        removes_duplicates: bool,
        problems: &mut Vec<Problem>,
    ) {
        let known = path.reported(problems);
        let others = || list.iter().enumerate().filter(|(i, _)| !known.contains(i));
        let mut seen = HashSet::new();
        let duplicates = if removes_duplicates {
            others()
                .filter(|(_, text)| !seen.insert(text.as_str()))
                .count()
        } else {
            0
        };
        check_count(self.field.rules, list.len() - duplicates, path, problems);
        seen.clear();
        for (i, text) in others() {
            let is_duplicate = (removes_duplicates || self.field.rules.unique_items)
                && !seen.insert(text.as_str());
            if is_duplicate && removes_duplicates {
                continue;
            }
            let path = Path::Index(&path, i);
            match &self.each {
                Some(each) => each.check(text, path, problems),
                None if holds_nul(text) => path.report(problems, HOLDS_NUL.code, HOLDS_NUL.message),
                None => {}
            }
            if is_duplicate {
                path.report(problems, "duplicate_item", "is already in the list");
            }
        }
    }

    fn check_items(&self, text: &str, path: Path<'_>, problems: &mut Vec<Problem>) {
        let Ok(Json::Array(list)) = Json::parse(text.as_bytes()) else {
            path.report(problems, "type", "must be a list of objects");
            return;
        };
        check_count(self.field.rules, list.len(), path, problems);
        // `check_count` has reported a list that is longer than the field allows. The limit of the
        // collection is then not reported as well.
        let within_field_limit = self
            .field
            .rules
            .items
            .1
            .is_none_or(|most| list.len() <= most as usize);
        if let Some(most) = self
            .bounds
            .and_then(|b| b.max)
            .filter(|most| within_field_limit && list.len() > *most as usize)
        {
            path.report(
                problems,
                "max_items",
                format!(
                    "must hold at most {most} {}",
                    if most == 1 { "item" } else { "items" }
                ),
            );
        }
        let mut seen = HashSet::new();
        let mut ids = HashSet::new();
        for (i, item) in list.iter().enumerate() {
            let path = Path::Index(&path, i);
            let Json::Object(members) = item else {
                continue;
            };
            self.check_members(members, path, problems);
            if let Some(bounds) = self.bounds
                && let Some((_, id)) = members.iter().find(|(key, _)| key == bounds.key)
            {
                let mut canonical = Vec::new();
                id.write_canonical(&mut canonical);
                if !ids.insert(canonical) {
                    Path::Member(&path, bounds.key).report(
                        problems,
                        "duplicate_item",
                        "is already in the list",
                    );
                }
            }
            if self.field.rules.unique_items {
                let mut canonical = Vec::new();
                item.write_canonical(&mut canonical);
                if !seen.insert(canonical) {
                    path.report(problems, "duplicate_item", "is already in the list");
                }
            }
        }
    }
}

impl FieldRules {
    /// Checks the present members of an item.
    fn check_members(
        &self,
        members: &[(Cow<'_, str>, Json<'_>)],
        path: Path<'_>,
        problems: &mut Vec<Problem>,
    ) {
        for rules in &self.members {
            let Some((_, json)) = members.iter().find(|(key, _)| key == rules.field.wire) else {
                continue;
            };
            let path = Path::Member(&path, rules.field.wire);
            // The types are already checked, by the reader of the body or by the Rust type of the
            // item.
            let mut known = Vec::new();
            let value = Reader {
                problems: &mut known,
                now: Timestamp::default(),
            }
            .value(rules.field, json, path);
            if let Some(value) = value {
                rules.check(&value, path, problems);
            }
        }
    }
}

impl TextRules {
    fn compile(field: &'static FieldDesc, rules: &'static Rules) -> Result<Self> {
        let refuse = |what: String| Error::internal(format!("field `{}`: {what}", field.name));
        let pattern = match rules.pattern {
            None => None,
            Some(pattern) => {
                // The pattern must also be valid alone: the group around it would make `a)|(b`
                // valid.
                let anchored =
                    Regex::new(pattern).and_then(|_| Regex::new(&format!(r"\A(?:{pattern})\z")));
                Some(anchored.map_err(|e| refuse(format!("pattern does not compile: {e}")))?)
            }
        };
        let format = match rules.format {
            None => None,
            Some(name) => Some(
                Format::from_name(name)
                    .ok_or_else(|| refuse(format!("unknown format `{name}`")))?,
            ),
        };
        Ok(Self {
            rules,
            max_bytes: None,
            pattern,
            format,
        })
    }

    fn check(&self, text: &str, path: Path<'_>, problems: &mut Vec<Problem>) {
        if holds_nul(text) {
            path.report(problems, HOLDS_NUL.code, HOLDS_NUL.message);
            return;
        }
        if let Some((code, message)) = self.length_flaw(text) {
            path.report(problems, code, message);
        } else if let Some(most) = self.max_bytes.filter(|most| text.len() > *most) {
            let Flaw { code, message } = too_long(most);
            path.report(problems, code, message);
        }
        if self
            .pattern
            .as_ref()
            .is_some_and(|pattern| !pattern.is_match(text))
        {
            path.report(problems, "pattern", "does not have the required form");
        }
        if let Some(format) = self.format
            && !format.accepts(text)
        {
            path.report(problems, "format", format.message());
        }
        if !self.rules.one_of.is_empty() && !self.rules.one_of.contains(&text) {
            let flaw = not_one_of(self.rules.one_of);
            path.report(problems, flaw.code, flaw.message);
        }
    }

    /// Returns the code and the message if the text is too short or too long.
    fn length_flaw(&self, text: &str) -> Option<(&'static str, String)> {
        let (min, max) = self.rules.length;
        if min.is_none() && max.is_none() {
            return None;
        }
        let length = text.chars().count();
        match (min, max) {
            (Some(min), _) if length < min as usize => Some((
                "min_length",
                format!(
                    "must be at least {min} {}",
                    if min == 1 { "character" } else { "characters" }
                ),
            )),
            (_, Some(max)) if length > max as usize => Some((
                "max_length",
                format!(
                    "must be at most {max} {}",
                    if max == 1 { "character" } else { "characters" }
                ),
            )),
            _ => None,
        }
    }
}

fn check_count(rules: &Rules, count: usize, path: Path<'_>, problems: &mut Vec<Problem>) {
    let items = |n: u32| if n == 1 { "item" } else { "items" };
    match rules.items {
        (Some(min), _) if count < min as usize => {
            path.report(
                problems,
                "min_items",
                format!("must have at least {min} {}", items(min)),
            );
        }
        (_, Some(max)) if count > max as usize => {
            path.report(
                problems,
                "max_items",
                format!("must have at most {max} {}", items(max)),
            );
        }
        _ => {}
    }
}

/// Returns the error message for a value outside its bounds.
fn out_of_range<T: PartialOrd + Copy>(
    value: T,
    (min, max): (Option<Bound>, Option<Bound>),
    bound: fn(Bound) -> T,
    text: impl Fn(T) -> String,
) -> Option<String> {
    let below = min.is_some_and(|min| value < bound(min));
    let above = max.is_some_and(|max| value > bound(max));
    match (min, max) {
        _ if !below && !above => None,
        (Some(min), Some(max)) => Some(format!(
            "must be between {} and {}",
            text(bound(min)),
            text(bound(max))
        )),
        (Some(min), None) => Some(format!("must be at least {}", text(bound(min)))),
        (None, Some(max)) => Some(format!("must be at most {}", text(bound(max)))),
        (None, None) => None,
    }
}

fn int_bound(bound: Bound) -> i64 {
    match bound {
        Bound::Int(n) => n,
        Bound::Float(n) => n as i64,
    }
}

fn float_bound(bound: Bound) -> f64 {
    match bound {
        Bound::Int(n) => n as f64,
        Bound::Float(n) => n,
    }
}

fn date_bound(bound: Bound) -> Timestamp {
    Timestamp::from_millis(int_bound(bound))
}

fn holds_nul(text: &str) -> bool {
    text.as_bytes().contains(&0)
}

/// Whether a string or key inside JSON text contains U+0000, which is an escape there.
pub(super) fn json_holds_nul(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let escape = &rest[at + 1..];
        if escape.starts_with("u0000") {
            return true;
        }
        // Skips the escaped character, which is one byte in JSON and may be a backslash.
        rest = escape.get(1..).unwrap_or("");
    }
    false
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
