//! Tests the rules, constraint by constraint.

use super::super::fixture::{POST, at};
use super::*;

fn text(t: &str) -> Value {
    Value::Text(t.to_owned())
}

fn strings(list: &[&str]) -> Value {
    Value::Strings(list.iter().map(|&t| t.to_owned()).collect())
}

/// `path code` of every problem, in order.
fn check(wire: &str, value: &Value) -> Vec<String> {
    let validator = Validator::new(&POST).unwrap_or_else(|e| panic!("{e:?}"));
    let mut problems = Vec::new();
    validator.check(at(wire), value, wire, &mut problems);
    for problem in &problems {
        assert!(
            !problem.message.is_empty() && !problem.message.ends_with('.'),
            "{problem:?}"
        );
    }
    problems
        .into_iter()
        .map(|p| format!("{} {}", p.path, p.code))
        .collect()
}

#[test]
fn violated_text_rules_are_reported() {
    #[rustfmt::skip]
    let table: &[(&str, &str, &[&str])] = &[
        ("title", "a", &[]),
        ("title", "abcde", &[]),
        ("title", "", &["title min_length"]),
        ("title", "abcdef", &["title max_length"]),
        // The length counts Unicode scalar values, not bytes or graphemes.
        ("title", "😀😀😀😀😀", &[]),
        ("title", "e\u{301}e\u{301}e\u{301}", &["title max_length"]),
        ("title", "a\0b", &["title format"]),
        ("title", "\0\0\0\0\0\0\0", &["title format"]),
        ("code", "abc", &[]),
        ("code", "1", &[]),
        // The whole value must match, for each alternative.
        ("code", "abc1", &["code pattern", "code enum"]),
        ("code", "1abc", &["code pattern", "code enum"]),
        ("code", "abc\n", &["code pattern", "code enum"]),
        ("code", "A", &["code pattern"]),
        ("code", "x", &["code enum"]),
        ("email", "a@b.co", &[]),
        ("email", "nope", &["email format"]),
        ("status", "draft", &[]),
        ("status", "Draft", &["status enum"]),
        ("pin", "%_\\'\"$x.İßς\u{1f600}", &[]),
    ];
    for (wire, value, expected) in table {
        assert_eq!(check(wire, &text(value)), *expected, "{wire} {value:?}");
    }
}

#[test]
fn violated_number_rules_are_reported() {
    let int = |wire, n| check(wire, &Value::Int(n));
    let none: [&str; 0] = [];
    assert_eq!(int("rank", 5), none);
    assert_eq!(int("rank", -5), none);
    assert_eq!(int("rank", 6), ["rank range"]);
    assert_eq!(int("rank", 4), ["rank enum"]);
    assert_eq!(int("rank", -6), ["rank range", "rank enum"]);
    assert_eq!(int("views", MAX_INTEGER), none);
    assert_eq!(int("views", -MAX_INTEGER), none);
    assert_eq!(int("views", MAX_INTEGER + 1), ["views range"]);
    assert_eq!(int("views", i64::MIN), ["views range"]);
    let float = |n| check("ratio", &Value::Float(n));
    assert_eq!(float(-0.5), none);
    assert_eq!(float(2.0), none);
    assert_eq!(float(2.000_000_1), ["ratio range"]);
    for n in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(float(n), ["ratio range"]);
    }
    let date = |ms| check("dueAt", &Value::Date(Timestamp::from_millis(ms)));
    assert_eq!(date(0), none);
    assert_eq!(date(-1), ["dueAt range"]);
}

#[test]
fn violated_list_rules_are_reported() {
    let none: [&str; 0] = [];
    let tags = |list: &[&str]| check("tags", &strings(list));
    assert_eq!(tags(&["a", "b"]), none);
    assert_eq!(tags(&[]), ["tags min_items"]);
    assert_eq!(tags(&["a", "b", "c", "d"]), ["tags max_items"]);
    assert_eq!(
        tags(&["a", "", "long", "a"]),
        [
            "tags max_items",
            "tags[1] min_length",
            "tags[2] max_length",
            "tags[3] duplicate_item"
        ]
    );
    assert_eq!(tags(&["a\0"]), ["tags[0] format"]);
    // NUL is refused also in a list without rules on elements.
    assert_eq!(check("names", &strings(&["a", "\0"])), ["names[1] format"]);
}

#[test]
fn violated_rules_of_json_and_items_are_reported() {
    let none: [&str; 0] = [];
    let json = |wire, t: &str| check(wire, &Value::Json(t.to_owned()));
    assert_eq!(json("meta", r#"{"a":"\\u0000"}"#), none);
    assert_eq!(json("meta", r#"{"a":"\\\u0000"}"#), ["meta format"]);
    assert_eq!(json("meta", r#"{"\u0000":1}"#), ["meta format"]);
    assert_eq!(json("meta", "\"\\u0001\""), none);
    // The value must also be valid for the Rust type of the field, here a `u8`.
    assert_eq!(json("limits", r#"{"most":255}"#), none);
    for wrong in [r#"{"most":256}"#, r#"{"most":1.5}"#, "{}", "[]", "7"] {
        assert_eq!(json("limits", wrong), ["limits type"], "{wrong}");
    }
    let member = r#"{"id":"1","email":"a@b.co","age":3,"joinedAt":"2026-01-02T03:04:05.000Z","notes":[],"tags":[]}"#;
    assert_eq!(json("members", &format!("[{member}]")), none);
    assert_eq!(
        json("members", &format!("[{member},{member}]")),
        ["members[1] duplicate_item"]
    );
    assert_eq!(
        json(
            "members",
            r#"[{"email":"x","age":-1},{"notes":[{"text":"ok"},{"text":"long"}]},{"tags":["\u0000"]}]"#
        ),
        [
            "members max_items",
            "members[0].email format",
            "members[0].age range",
            "members[1].notes[1].text max_length",
            "members[2].tags[0] format"
        ]
    );
    assert_eq!(json("members", "{}"), ["members type"]);
}

#[test]
fn a_value_of_another_type_is_a_problem_but_null_is_not() {
    for field in POST.fields {
        assert_eq!(check(field.wire, &Value::Null), Vec::<String>::new());
        let wrong = if matches!(field.kind, Kind::Boolean) {
            Value::Int(1)
        } else {
            Value::Bool(true)
        };
        assert_eq!(check(field.wire, &wrong), [format!("{} type", field.wire)]);
    }
}

#[test]
fn messages_contain_the_rule_and_never_the_value() {
    let validator = Validator::new(&POST).unwrap_or_else(|e| panic!("{e:?}"));
    let mut problems = Vec::new();
    let mut first_message = |wire: &str, value: Value| {
        problems.clear();
        validator.check(at(wire), &value, wire, &mut problems);
        problems
            .first()
            .map(|p| p.message.clone())
            .unwrap_or_default()
    };
    assert_eq!(
        first_message("title", text("")),
        "must be at least 1 character"
    );
    assert_eq!(
        first_message("title", text("hunter2")),
        "must be at most 5 characters"
    );
    assert_eq!(
        first_message("rank", Value::Int(77)),
        "must be between -5 and 5"
    );
    assert_eq!(
        first_message("ratio", Value::Float(-77.5)),
        "must be between -0.5 and 2"
    );
    assert_eq!(
        first_message("dueAt", Value::Date(Timestamp::from_millis(-77))),
        "must be at least 1970-01-01T00:00:00.000Z"
    );
    assert_eq!(
        first_message("status", text("hunter2")),
        "must be one of draft, published"
    );
    assert_eq!(
        first_message("tags", strings(&[])),
        "must have at least 1 item"
    );
}

#[test]
fn at_most_100_problems_are_reported() {
    let many: Vec<&str> = vec!["\0"; 10_000];
    assert_eq!(check("names", &strings(&many)).len(), 100);
}

#[test]
fn a_pattern_must_compile_without_the_group_that_the_validator_adds() {
    fn broken(pattern: &'static str) -> bool {
        let rules: &'static Rules = Box::leak(Box::new(Rules {
            pattern: Some(pattern),
            ..Rules::NONE
        }));
        let field: &'static FieldDesc = Box::leak(Box::new(FieldDesc {
            rules,
            ..FieldDesc::new("f", "f", "f", Kind::String, false)
        }));
        FieldRules::compile(field).is_err()
    }
    assert!(broken("a)|(b"));
    assert!(broken("("));
    assert!(!broken("a|b"));
    assert!(!broken("(?i)a"));
}

#[test]
fn a_problem_hides_only_the_form_of_its_own_field() {
    let validator = Validator::new(&POST).unwrap_or_else(|e| panic!("{e:?}"));
    let count = |known: &str| {
        let mut problems = vec![Problem::new(known, "type", "is known")];
        let value = Value::Json(r#"{"most":"x"}"#.to_owned());
        validator.check(at("limits"), &value, "limits", &mut problems);
        problems.len()
    };
    for own in ["limits", "limits.most", "limits[0]"] {
        assert_eq!(count(own), 1, "{own}");
    }
    for other in ["limitsOfAll", "limit", "title"] {
        assert_eq!(count(other), 2, "{other}");
    }
}

#[test]
fn a_value_that_cannot_be_written_as_json_is_refused() {
    use crate::entity::{FieldType as _, Json};
    let unwritable = std::collections::BTreeMap::from([((1, 2), 3)]);
    let value = Some(Json(unwritable)).into_value();
    assert_eq!(check("limits", &value), ["limits type"]);
}
