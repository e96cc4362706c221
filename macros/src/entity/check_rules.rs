//! Checks that constraints fit the type, that values can satisfy them, and that the default
//! satisfies them.

use linchpin_vocabulary::format::FORMATS;
use regex::Regex;
use syn::{Ident, LitStr};

use super::check::kind_text;
use super::check_field::{is_uuid, texts};
use super::field::{Default, Field, Kind};
use super::rules::{Bound, Bounds, Choice, Rule, RuleArgs, as_float};
use crate::diagnostics::Diagnostics;
use crate::expr::MAX_INTEGER;
use crate::options;

/// Checks the constraints of a field.
pub(crate) fn check(field: &Field, d: &mut Diagnostics) {
    let rules = &field.options.rules;
    if rules.is_empty() {
        return;
    }
    check_types(field, rules, d);
    let pattern = check_satisfiable(rules, d);
    let element_pattern = rules
        .each
        .as_ref()
        .and_then(|each| check_satisfiable(&each.value, d));
    check_range(field, d);
    if let Default::Value(value) = &field.options.default {
        if let Some(text) = options::as_text(value).filter(|_| field.kind.may_be_text()) {
            check_text(text, Literal::Default, rules, pattern.as_ref(), d);
        } else if let Some(texts) = texts(value).filter(|_| field.kind == Kind::StringArray) {
            check_list_default(value, &texts, rules, element_pattern.as_ref(), d);
        } else {
            check_number(field, value, Literal::Default, d);
        }
    }
}

/// A literal of a declaration.
#[derive(Clone, Copy)]
enum Literal<'a> {
    Default,
    /// A value that an operation writes to the field with this name.
    Written(&'a str),
}

impl Literal<'_> {
    /// Reports an error in the literal. `literal_text` is its text in the message.
    fn refuse(
        self,
        at: &dyn quote::ToTokens,
        literal_text: Option<&str>,
        why: &str,
        d: &mut Diagnostics,
    ) {
        match (self, literal_text) {
            (Self::Default, Some(literal_text)) => d
                .error(at, format!("default {literal_text} {why}"))
                .help("change the default or the constraint"),
            (Self::Default, None) => d
                .error(at, format!("default {why}"))
                .help("change the default or the constraint"),
            (Self::Written(field), literal_text) => {
                let literal_text = literal_text.unwrap_or("this value");
                d.error(at, format!("{literal_text} {why} of `{field}`"))
                    .help("change the value or the constraint");
            }
        }
    }
}

/// Checks a literal that an operation writes to a field, or to a list as one `element`. Values of
/// consts, and formats other than `uuid`, are checked when the app starts.
pub(crate) fn check_written(field: &Field, value: &syn::Expr, element: bool, d: &mut Diagnostics) {
    let written = Literal::Written(&field.name);
    let rules = match &field.options.rules.each {
        Some(each) if element => &each.value,
        None if element => return,
        _ => &field.options.rules,
    };
    // The entity reports a pattern that does not compile.
    let pattern = rules
        .pattern
        .as_ref()
        .and_then(|pattern| compile_pattern(&pattern.value.value()).ok());
    match options::as_text(value) {
        Some(text) if element || field.kind.may_be_text() => {
            check_text(text, written, rules, pattern.as_ref(), d);
        }
        _ if element => {}
        _ => check_number(field, value, written, d),
    }
}

/// Whether the constraints of a text field allow a text, as far as the macro knows them.
pub(crate) fn admits(field: &Field, text: &str) -> bool {
    let rules = &field.options.rules;
    let pattern = rules
        .pattern
        .as_ref()
        .and_then(|pattern| compile_pattern(&pattern.value.value()).ok());
    text_flaw(text, rules, pattern.as_ref()).is_none()
}

/// Compiles a pattern in the same way as the runtime: first alone, then wrapped so that it must
/// match the whole text.
fn compile_pattern(pattern: &str) -> Result<Regex, regex::Error> {
    Regex::new(pattern).and_then(|_| Regex::new(&format!(r"\A(?:{pattern})\z")))
}

/// Checks that the type allows each constraint.
fn check_types(field: &Field, rules: &RuleArgs, d: &mut Diagnostics) {
    let kind = field.kind;
    let text = kind.may_be_text();
    let list = matches!(kind, Kind::StringArray | Kind::Items | Kind::Other);
    let ordered = matches!(
        kind,
        Kind::Integer | Kind::Number | Kind::Date | Kind::Other
    );
    let array = matches!(kind, Kind::StringArray | Kind::Other);
    let refuse = |key: Option<&Ident>, fits: bool, wanted: &str, d: &mut Diagnostics| {
        if let Some(key) = key.filter(|_| !fits) {
            let problem = d.error(
                key,
                format!(
                    "`{key}` is not allowed on {} field `{}`",
                    kind_text(field),
                    field.name
                ),
            );
            problem.help(match (key.to_string().as_str(), kind) {
                ("length", Kind::StringArray | Kind::Items) => {
                    "use `items = ..` for the number of items, or `each(length = ..)` for the length of each text".to_owned()
                }
                ("pattern" | "format", Kind::StringArray) => {
                    format!("write `each({key} = ..)`: it applies to each text of the list")
                }
                ("length", Kind::Integer | Kind::Number) => {
                    "`range = ..` bounds a number".to_owned()
                }
                ("range", Kind::String) => "`length = ..` bounds a text".to_owned(),
                _ => format!("`{key}` is for {wanted} fields"),
            });
        }
    };
    refuse(rules.length.as_ref().map(|r| &r.key), text, "string", d);
    refuse(rules.pattern.as_ref().map(|r| &r.key), text, "string", d);
    refuse(rules.format.as_ref().map(|r| &r.key), text, "string", d);
    refuse(
        rules.range.as_ref().map(|r| &r.key),
        ordered,
        "integer, number and date",
        d,
    );
    refuse(rules.items.as_ref().map(|r| &r.key), list, "list", d);
    refuse(rules.unique_items.as_ref(), list, "list", d);
    refuse(
        rules.each.as_ref().map(|r| &r.key),
        array,
        "string_array",
        d,
    );
    if let Some(rule) = &rules.one_of {
        refuse(
            Some(&rule.key),
            text || kind == Kind::Integer,
            "string and integer",
            d,
        );
        for choice in &rule.value {
            match choice {
                Choice::Text(at) if kind == Kind::Integer => d
                    .error(at, format!("`{}` is integer", field.name))
                    .help("a whole number"),
                Choice::Int(n, at) if matches!(kind, Kind::String | Kind::Uuid) => {
                    d.error(at, format!("`{}` is string", field.name))
                        .help(format!("`\"{n}\"`"));
                }
                _ => {}
            }
        }
    }
}

/// Checks that a value can satisfy each constraint; returns the compiled pattern.
fn check_satisfiable(rules: &RuleArgs, d: &mut Diagnostics) -> Option<Regex> {
    for rule in [&rules.length, &rules.items].into_iter().flatten() {
        if let (Some(min), Some(max)) = (rule.value.min, rule.value.max)
            && min > max
        {
            d.error(
                &rule.value.at,
                format!("`{}` has min {min} above max {max}", rule.key),
            )
            .help(format!("`{} = {max}..={min}`", rule.key));
        }
    }
    if let Some(format) = &rules.format {
        let name = format.value.value();
        if !FORMATS.contains(&name.as_str()) {
            d.error(&format.value, format!("unknown format `{name}`"))
                .suggest(&name, FORMATS.iter().copied());
        }
    }
    let pattern = &rules.pattern.as_ref()?.value;
    let text = pattern.value();
    match compile_pattern(&text) {
        Ok(regex) => Some(regex),
        Err(error) => {
            let reason = error.to_string();
            let reason = reason
                .lines()
                .last()
                .unwrap_or_default()
                .trim_start_matches("error: ")
                .to_owned();
            d.error(pattern, format!("pattern does not compile: {reason}"));
            None
        }
    }
}

/// Checks that the bounds of `range` have the field's type, and that the lower one comes first.
fn check_range(field: &Field, d: &mut Diagnostics) {
    let Some(Rule {
        value: Bounds { min, max, at },
        ..
    }) = &field.options.rules.range
    else {
        return;
    };
    for bound in [min, max].into_iter().flatten() {
        let (fits, help) = match (field.kind, bound) {
            (Kind::Integer, Bound::Int(n)) => (
                (-MAX_INTEGER..=MAX_INTEGER).contains(n),
                "integers lie within ±(2^53−1)",
            ),
            (Kind::Integer, _) => (false, "whole numbers: `range = 0..=100`"),
            (Kind::Number, bound) => (
                !matches!(bound, Bound::Date(_)),
                "numbers: `range = 0.0..=1.0`",
            ),
            (Kind::Date, bound) => (
                matches!(bound, Bound::Date(_)),
                "dates: `range = \"2020-01-01T00:00:00Z\"..`",
            ),
            _ => (true, ""),
        };
        if !fits {
            d.error(
                at,
                format!(
                    "`range` does not fit {} field `{}`",
                    kind_text(field),
                    field.name
                ),
            )
            .help(help);
            return;
        }
    }
    if let (Some(min), Some(max)) = (min, max)
        && min.as_f64() > max.as_f64()
    {
        d.error(at, "`range` has its min above its max")
            .help("swap the bounds");
    }
}

fn check_text(
    text: &LitStr,
    literal: Literal<'_>,
    rules: &RuleArgs,
    pattern: Option<&Regex>,
    d: &mut Diagnostics,
) {
    let value = text.value();
    if let Some(why) = text_flaw(&value, rules, pattern) {
        literal.refuse(text, Some(&format!("\"{value}\"")), why, d);
    }
}

fn check_list_default(
    at: &syn::Expr,
    texts: &[LitStr],
    rules: &RuleArgs,
    pattern: Option<&Regex>,
    d: &mut Diagnostics,
) {
    let count = u32::try_from(texts.len()).unwrap_or(u32::MAX);
    if rules
        .items
        .as_ref()
        .is_some_and(|items| outside(count, &items.value))
    {
        let items = if count == 1 { "item" } else { "items" };
        d.error(at, format!("default has {count} {items}, outside `items`"))
            .help("change the default or the constraint");
    }
    for (i, text) in texts.iter().enumerate() {
        if rules.unique_items.is_some() && texts[..i].iter().any(|t| t.value() == text.value()) {
            d.error(
                text,
                format!(
                    "default contains \"{}\" twice, but the field has `unique_items`",
                    text.value()
                ),
            )
            .help("name each item once");
        }
        if let Some(each) = &rules.each {
            check_text(text, Literal::Default, &each.value, pattern, d);
        }
    }
}

fn check_number(field: &Field, value: &syn::Expr, literal: Literal<'_>, d: &mut Diagnostics) {
    let rules = &field.options.rules;
    let integer = options::as_int(value).and_then(Result::ok);
    let date = options::as_text(value)
        .filter(|_| field.kind == Kind::Date)
        .and_then(|text| super::date::parse(&text.value()));
    let number = integer
        .or(date)
        .map(|n| n as f64)
        .or_else(|| as_float(value));
    if let (Some(number), Some(range)) = (number, &rules.range)
        && (range.value.min.is_some_and(|min| number < min.as_f64())
            || range.value.max.is_some_and(|max| number > max.as_f64()))
    {
        literal.refuse(value, None, "lies outside `range`", d);
    }
    if let (Some(n), Some(one_of)) = (integer, &rules.one_of)
        && !one_of
            .value
            .iter()
            .any(|choice| matches!(choice, Choice::Int(c, _) if *c == n))
    {
        literal.refuse(value, Some(&n.to_string()), "is not in `one_of`", d);
    }
}

/// Returns the end of the message about a text that the constraints do not allow.
fn text_flaw(value: &str, rules: &RuleArgs, pattern: Option<&Regex>) -> Option<&'static str> {
    let count = u32::try_from(value.chars().count()).unwrap_or(u32::MAX);
    if rules
        .length
        .as_ref()
        .is_some_and(|length| outside(count, &length.value))
    {
        return Some("has a length outside `length`");
    }
    if pattern.is_some_and(|pattern| !pattern.is_match(value)) {
        return Some("does not match `pattern`");
    }
    if rules
        .format
        .as_ref()
        .is_some_and(|format| format.value.value() == "uuid")
        && !is_uuid(value)
    {
        return Some("is not a UUID");
    }
    let allowed = |choice: &Choice| matches!(choice, Choice::Text(text) if text.value() == value);
    rules
        .one_of
        .as_ref()
        .is_some_and(|one_of| !one_of.value.iter().any(allowed))
        .then_some("is not in `one_of`")
}

/// Whether a count is outside of the bounds.
fn outside(count: u32, bounds: &Bounds<u32>) -> bool {
    bounds.min.is_some_and(|min| count < min) || bounds.max.is_some_and(|max| count > max)
}
