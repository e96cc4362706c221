//! Tests bodies, drafts and parameters.

use proptest::prelude::*;

use super::super::fixture::{KEYED, NOW, POST, at};
use super::super::{Validator, parse_scalar};
use super::*;
use crate::Code;

fn draft(mode: Mode, json: &str) -> Draft {
    let body = read_object(json.as_bytes()).unwrap_or_else(|e| panic!("{json}: {e:?}"));
    read_draft(&POST, &body, mode, NOW)
}

/// `path code` of every problem, in order.
fn problems(list: &[Problem]) -> Vec<String> {
    list.iter()
        .map(|p| format!("{} {}", p.path, p.code))
        .collect()
}

fn create_problems(json: &str) -> Vec<String> {
    problems(&draft(Mode::Create, json).problems)
}

fn value(wire: &str, json: &str) -> Result<Option<Value>, Vec<String>> {
    let draft = draft(Mode::Create, &format!("{{\"{wire}\":{json}}}"));
    if draft.problems.is_empty() {
        Ok(draft.values[at(wire)].clone())
    } else {
        Err(problems(&draft.problems))
    }
}

fn text(t: &str) -> Value {
    Value::Text(t.to_owned())
}

#[test]
fn a_body_that_is_not_an_object_is_refused() {
    assert!(read_object(b"").is_ok_and(|b| b.is_empty()));
    assert!(read_object(b"{}").is_ok_and(|b| b.is_empty()));
    assert!(
        read_object(b" { \"a\" : 1 } ")
            .is_ok_and(|b| b.get("a").is_some() && b.members().len() == 1)
    );
    for other in ["[]", "1", "\"x\"", "null", "true", "[{}]"] {
        let error = read_object(other.as_bytes()).err();
        assert_eq!(
            error.as_ref().map(crate::Error::code),
            Some(Code::ValidationFailed),
            "{other}"
        );
        assert_eq!(
            error.map(|e| problems(e.details())),
            Some(vec![" type".to_owned()]),
            "{other}"
        );
    }
    for broken in [" ", "{", "{}{}", "{\"a\":1,\"a\":1}", "\u{feff}{}"] {
        assert_eq!(
            read_object(broken.as_bytes()).err().map(|e| e.code()),
            Some(Code::MalformedJson),
            "{broken}"
        );
    }
}

#[test]
fn unknown_and_read_only_fields_are_rejected() {
    let none: [&str; 0] = [];
    assert_eq!(
        create_problems(r#"{"title":"x","pin":"1","origin":"o","createdat":1}"#),
        ["createdat unknown_field"]
    );
    assert_eq!(
        create_problems(
            r#"{"id":"x","createdAt":1,"updatedAt":null,"rating":1,"secret":"s","":1}"#
        ),
        [
            "id read_only",
            "createdAt read_only",
            "updatedAt read_only",
            "rating read_only",
            "secret unknown_field",
            " unknown_field"
        ]
    );
    let updated = |json| problems(&draft(Mode::Update, json).problems);
    assert_eq!(updated(r#"{"title":"x","pin":"1"}"#), none);
    assert_eq!(
        updated(r#"{"id":"x","origin":"o","secret":1,"rating":1}"#),
        [
            "id read_only",
            "origin immutable",
            "secret unknown_field",
            "rating read_only"
        ]
    );
    let keyed = |mode, json: &str| {
        read_draft(
            &KEYED,
            &read_object(json.as_bytes()).unwrap_or_default(),
            mode,
            NOW,
        )
    };
    assert_eq!(
        keyed(Mode::Create, r#"{"id":"42"}"#).values[0],
        Some(Value::Int(42))
    );
    assert_eq!(
        problems(&keyed(Mode::Create, r#"{"id":42}"#).problems),
        ["id type"]
    );
    assert_eq!(
        problems(&keyed(Mode::Create, r#"{"id":"042"}"#).problems),
        ["id format"]
    );
    assert_eq!(
        problems(&keyed(Mode::Create, r#"{"id":"9007199254740993"}"#).problems),
        ["id range"]
    );
    assert_eq!(
        problems(&keyed(Mode::Create, r#"{"id":"-9223372036854775808"}"#).problems),
        ["id range"]
    );
    assert_eq!(
        problems(&keyed(Mode::Update, r#"{"id":"42"}"#).problems),
        ["id read_only"]
    );
}

#[test]
fn no_value_is_coerced() {
    let refused = |wire: &str, json: &str, code: &str| {
        assert_eq!(
            value(wire, json),
            Err(vec![format!("{wire} {code}")]),
            "{wire} {json}"
        );
    };
    for json in ["1", "true", "[]", "{}", "1.5"] {
        refused("title", json, "type");
        refused("status", json, "type");
        refused("dueAt", json, "type");
    }
    for json in [
        "\"5\"", "1.0", "1e2", "1E2", "1.5", "-1.0", "true", "[1]", "{}",
    ] {
        refused("views", json, "type");
    }
    for json in [
        "9007199254740992",
        "-9007199254740992",
        "9007199254740993",
        "99999999999999999999999",
        "-9223372036854775809",
    ] {
        refused("views", json, "range");
    }
    for json in ["\"1\"", "true", "[1]"] {
        refused("ratio", json, "type");
    }
    refused("ratio", "1e400", "range");
    refused("ratio", "-1e400", "range");
    for json in ["1", "0", "\"true\"", "[]"] {
        refused("live", json, "type");
    }
    for json in [
        "\"2026-01-02\"",
        "\"\"",
        "\"2026-01-02T03:04:05\"",
        "\"2026-01-02T03:04:60Z\"",
        "\"10000-01-01T00:00:00Z\"",
    ] {
        refused("dueAt", json, "format");
    }
    refused("status", "\"zzz\"", "enum");
    refused("status", "\"\"", "enum");
    refused("tags", "\"a\"", "type");
    refused("tags", "{}", "type");
    assert_eq!(
        value("tags", "[\"a\",1,null]"),
        Err(vec!["tags[1] type".into(), "tags[2] type".into()])
    );
    refused("meta", "1e999", "range");
    refused("members", "{}", "type");
}

#[test]
fn values_arrive_as_they_were_sent() {
    let is = |wire: &str, json: &str, expected: Value| {
        assert_eq!(value(wire, json), Ok(Some(expected)), "{wire} {json}");
    };
    is(
        "title",
        "\"\\u0130\\u00df\\u03c2 \\ud83d\\ude00 %_\\\\'\\\"$x.\"",
        text("İßς 😀 %_\\'\"$x."),
    );
    // The rules check it later, so that typed input gets the same error.
    is("title", "\"\\u0000\"", text("\0"));
    is(
        "views",
        "9007199254740991",
        Value::Int(9_007_199_254_740_991),
    );
    is("views", "-0", Value::Int(0));
    is("ratio", "0.30000000000000004", Value::Float(0.1 + 0.2));
    is("ratio", "1", Value::Float(1.0));
    is("ratio", "1e2", Value::Float(100.0));
    is("live", "false", Value::Bool(false));
    is(
        "dueAt",
        "\"2026-01-02T03:04:05.6789+02:00\"",
        Value::Date(Timestamp::parse("2026-01-02T01:04:05.678Z").unwrap_or_default()),
    );
    is(
        "dueAt",
        "\"0001-01-01T00:00:00Z\"",
        Value::Date(Timestamp::MIN),
    );
    is("status", "\"published\"", text("published"));
    is(
        "tags",
        "[\"\",\"a\"]",
        Value::Strings(vec![String::new(), "a".into()]),
    );
    is(
        "meta",
        " { \"b\" : [ 1 , -0.0 ] , \"a\" : null } ",
        Value::Json(r#"{"a":null,"b":[1,0.0]}"#.into()),
    );
    is("meta", "\"x\"", Value::Json("\"x\"".into()));
    for wire in ["title", "meta", "members", "tags", "views"] {
        is(wire, "null", Value::Null);
    }
    // Negative zero is stored as zero.
    assert!(matches!(value("ratio", "-0.0"), Ok(Some(Value::Float(n))) if n.is_sign_positive()));
    assert_eq!(
        draft(Mode::Create, "{}").values,
        vec![None; POST.fields.len()]
    );
}

#[test]
fn items_are_checked_member_by_member_and_get_their_defaults() {
    let json = r#"[{"email":"a@b.co"},{"id":"1","email":"b@b.co","age":null,"notes":[{"text":"x"}],"tags":["t"],"joinedAt":"2026-01-02T03:04:05Z"}]"#;
    let Ok(Some(Value::Json(stored))) = value("members", json) else {
        panic!("{:?}", value("members", json))
    };
    let stored: serde_json::Value = serde_json::from_str(&stored).unwrap_or_default();
    assert_eq!(stored[0]["id"].as_str().map(str::len), Some(36));
    assert_eq!(stored[0]["joinedAt"], NOW.to_string());
    assert_eq!(stored[0]["notes"], serde_json::json!([]));
    assert_eq!(
        stored[1],
        serde_json::json!({"id":"1","email":"b@b.co","age":null,"notes":[{"text":"x"}],"score":null,"tags":["t"],"joinedAt":"2026-01-02T03:04:05.000Z"})
    );
    assert_eq!(
        value(
            "members",
            r#"[1,{"email":null,"age":"3","x":1,"hash":"h","score":1,"notes":[{}]},{}]"#
        ),
        Err(vec![
            "members[0] type".into(),
            "members[1].x unknown_field".into(),
            "members[1].hash unknown_field".into(),
            "members[1].score read_only".into(),
            "members[1].email null_not_allowed".into(),
            "members[1].age type".into(),
            "members[1].notes[0].text required".into(),
            "members[2].email required".into(),
        ])
    );
    // The rules also check the valid parts of a list with errors, so that one response contains all
    // problems.
    let draft = draft(Mode::Create, r#"{"members":[{"email":"nope","age":"3"}]}"#);
    let mut all = draft.problems;
    let validator = Validator::new(&POST).unwrap_or_else(|e| panic!("{e:?}"));
    if let Some(value) = &draft.values[at("members")] {
        validator.check(at("members"), value, "members", &mut all);
    }
    assert_eq!(
        problems(&all),
        ["members[0].age type", "members[0].email format"]
    );
}

#[test]
fn at_most_100_problems_of_a_body_are_reported() {
    let many: Vec<String> = (0..5000).map(|i| format!("\"k{i}\":1")).collect();
    assert_eq!(
        create_problems(&format!("{{{}}}", many.join(","))).len(),
        100
    );
    assert_eq!(
        create_problems(&format!("{{\"tags\":[{}1]}}", "1,".repeat(5000))).len(),
        100
    );
}

const fn param(name: &'static str, field: usize, place: Place) -> ParamSpec {
    ParamSpec {
        name,
        field,
        entity: None,
        place,
        required: true,
        nullable: false,
        list: false,
        element: false,
        default: None,
    }
}

#[test]
fn parameters_come_from_declared_members_only() {
    let params = [
        param("id", 0, Place::Id),
        param("title", 1, Place::Body),
        ParamSpec {
            required: false,
            nullable: true,
            ..param("mail", 3, Place::Body)
        },
        ParamSpec {
            required: false,
            list: true,
            ..param("ranks", 5, Place::Body)
        },
        ParamSpec {
            required: false,
            list: true,
            ..param("dates", 9, Place::Body)
        },
        ParamSpec {
            required: false,
            list: true,
            ..param("anyOf", 4, Place::Body)
        },
        ParamSpec {
            required: false,
            ..param("tags", 10, Place::Body)
        },
    ];
    let read = |json: &str| {
        let body = read_object(json.as_bytes()).unwrap_or_else(|e| panic!("{e:?}"));
        let mut found = Vec::new();
        let args = read_param_members(&POST, &params, &body, NOW, &mut found);
        assert_eq!(args.len(), params.len());
        if found.is_empty() {
            Ok(args)
        } else {
            Err(problems(&found))
        }
    };
    assert_eq!(
        read(r#"{"title":"x"}"#),
        Ok(vec![None, Some(text("x")), None, None, None, None, None])
    );
    assert_eq!(
        read(
            r#"{"title":"x","mail":null,"ranks":[1,2],"dates":["1970-01-01T00:00:01Z"],"anyOf":["draft"],"tags":["a"]}"#
        ),
        Ok(vec![
            None,
            Some(text("x")),
            Some(Value::Null),
            Some(Value::Json("[1,2]".into())),
            Some(Value::Json("[1000]".into())),
            Some(Value::Strings(vec!["draft".into()])),
            Some(Value::Strings(vec!["a".into()])),
        ])
    );
    assert_eq!(read("{}"), Err(vec!["title required".to_owned()]));
    // One element, as for `$has`.
    assert_eq!(
        read(r#"{"title":"x","tags":"a"}"#).map(|args| args[6].clone()),
        Ok(Some(text("a")))
    );
    assert_eq!(
        read(r#"{"title":"x","tags":1}"#),
        Err(vec!["tags type".to_owned()])
    );
    assert_eq!(
        read(r#"{"title":null,"id":"7"}"#),
        Err(vec![
            "id unknown_field".to_owned(),
            "title null_not_allowed".to_owned()
        ])
    );
    assert_eq!(
        read(
            r#"{"title":"\u0000","ranks":[1,"2",null],"anyOf":["zzz"],"dates":1,"tags":["\u0000"]}"#
        ),
        Err(vec![
            "title format".into(),
            "ranks[1] type".into(),
            "ranks[2] null_not_allowed".into(),
            "dates type".into(),
            "anyOf[0] enum".into(),
            "tags[0] format".into()
        ])
    );
}

#[test]
fn query_values_are_parsed_by_field_type() {
    let scalar =
        |wire: &str, t: &str| parse_scalar(&POST.fields[at(wire)], t).map_err(|flaw| flaw.code);
    for (wire, t, expected) in [
        ("title", "", Ok(text(""))),
        ("title", "a,b", Ok(text("a,b"))),
        ("title", "\0", Err("format")),
        ("tags", "x", Ok(text("x"))),
        ("live", "true", Ok(Value::Bool(true))),
        ("live", "false", Ok(Value::Bool(false))),
        ("live", "True", Err("type")),
        ("live", "1", Err("type")),
        ("live", "", Err("type")),
        ("views", "0", Ok(Value::Int(0))),
        ("views", "-12", Ok(Value::Int(-12))),
        ("views", "007", Ok(Value::Int(7))),
        (
            "views",
            "9007199254740991",
            Ok(Value::Int(9_007_199_254_740_991)),
        ),
        ("views", "9007199254740992", Err("range")),
        ("views", "99999999999999999999", Err("range")),
        ("views", "", Err("type")),
        ("views", "-", Err("type")),
        ("views", "+1", Err("type")),
        ("views", "1.0", Err("type")),
        ("views", "1e2", Err("type")),
        ("views", " 1", Err("type")),
        ("views", "١", Err("type")),
        ("ratio", "0.5", Ok(Value::Float(0.5))),
        ("ratio", "1e2", Ok(Value::Float(100.0))),
        ("ratio", "-3", Ok(Value::Float(-3.0))),
        ("ratio", "1e999", Err("range")),
        ("ratio", "inf", Err("type")),
        ("ratio", "NaN", Err("type")),
        ("ratio", ".5", Err("type")),
        ("ratio", "", Err("type")),
        (
            "dueAt",
            "1970-01-01T00:00:00.001Z",
            Ok(Value::Date(Timestamp::from_millis(1))),
        ),
        (
            "dueAt",
            "1970-01-01T01:00:00+01:00",
            Ok(Value::Date(Timestamp::from_millis(0))),
        ),
        // A raw `+` is decoded as a space.
        ("dueAt", "1970-01-01T01:00:00 01:00", Err("format")),
        ("dueAt", "1970-01-01", Err("format")),
        ("dueAt", "", Err("format")),
        ("status", "draft", Ok(text("draft"))),
        ("status", "", Err("enum")),
        ("status", "zzz", Err("enum")),
        ("meta", "{}", Err("not_allowed")),
        ("members", "[]", Err("not_allowed")),
    ] {
        assert_eq!(scalar(wire, t), expected, "{wire}={t}");
    }
    let key = |t: &str| parse_scalar(&KEYED.fields[0], t).map_err(|flaw| flaw.code);
    assert_eq!(key("42"), Ok(Value::Int(42)));
    for (t, code) in [
        ("042", "format"),
        ("+1", "format"),
        ("-0", "format"),
        ("", "format"),
        ("1.0", "format"),
        ("9007199254740992", "range"),
    ] {
        assert_eq!(key(t), Err(code), "{t}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_reading_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(body) = read_object(&bytes) {
            read_draft(&POST, &body, Mode::Create, NOW);
        }
    }

    #[test]
    fn no_value_makes_reading_or_checking_panic(
        wire in proptest::sample::select(POST.fields.iter().map(|f| f.wire).collect::<Vec<_>>()),
        json in r#"(null|true|-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,3})?(e[0-9]{1,3})?|"[a-z0-9:.@TZ+%_-]{0,30}"|\[("[a-z]{0,3}",){0,4}null\]|\[\{"email":"[@a-z.]{0,9}","age":-?(0|[1-9][0-9]{0,2})\}\])"#,
    ) {
        let body = format!("{{\"{wire}\":{json}}}");
        let Ok(body) = read_object(body.as_bytes()) else { return Err(TestCaseError::fail(body)) };
        for mode in [Mode::Create, Mode::Update] {
            let mut draft = read_draft(&POST, &body, mode, NOW);
            let validator = Validator::new(&POST).map_err(|e| TestCaseError::fail(e.to_string()))?;
            for (i, value) in draft.values.iter().enumerate() {
                if let Some(value) = value {
                    validator.check(i, value, POST.fields[i].wire, &mut draft.problems);
                }
            }
        }
        parse_scalar(&POST.fields[at(wire)], &json).ok();
    }
}
