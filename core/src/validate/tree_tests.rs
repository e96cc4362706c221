//! Tests the parser, with cases and against `serde_json`.

use proptest::prelude::*;

use super::*;

fn canonical(text: &str) -> Option<String> {
    let mut out = Vec::new();
    let tree = Json::parse(text.as_bytes()).ok()?;
    tree.write_canonical(&mut out)
        .then(|| String::from_utf8(out).ok())
        .flatten()
}

#[test]
fn text_that_is_not_strict_json_is_refused() {
    for text in [
        "",
        " ",
        "{",
        "}",
        "{]",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "{'a':1}",
        "[1 2]",
        "{\"a\" 1}",
        "nul",
        "nulll",
        "True",
        "NaN",
        "+1",
        "01",
        "1.",
        ".5",
        "1e",
        "1e+",
        "-",
        "--1",
        "0x1",
        "\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"a\nb\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800x\"",
        "{} {}",
        "{}x",
        "[]]",
        "/**/{}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1,\"\\u0061\":2}",
        "[{\"x\":{\"b\":1,\"b\":1}}]",
        "\u{feff}{}",
    ] {
        let error = Json::parse(text.as_bytes()).err().map(|e| e.code());
        assert_eq!(error, Some(Code::MalformedJson), "{text}");
    }
    for bytes in [
        &b"\"\xff\""[..],
        b"\xc0\x80",
        b"\"\xed\xa0\x80\"",
        b"{\"\xe2\x82\":1}",
    ] {
        assert!(Json::parse(bytes).is_err());
    }
    let many = (0..100)
        .map(|i| format!("\"k{i}\":1"))
        .collect::<Vec<_>>()
        .join(",");
    assert!(Json::parse(format!("{{{many},\"k99\":1}}").as_bytes()).is_err());
    assert!(Json::parse(format!("{{{many},\"k100\":1}}").as_bytes()).is_ok());
}

#[test]
fn nesting_over_64_levels_is_refused() {
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    assert!(Json::parse(nested(64).as_bytes()).is_ok());
    assert!(Json::parse(nested(65).as_bytes()).is_err());
    assert!(
        Json::parse(format!("{}1{}", "{\"a\":".repeat(65), "}".repeat(65)).as_bytes()).is_err()
    );
    // Such nesting would overflow the stack of a recursive parser without a limit.
    assert!(Json::parse("[".repeat(1_000_000).as_bytes()).is_err());
}

#[test]
fn json_is_written_in_canonical_form() {
    for (text, expected) in [
        (
            r#" { "b" : 1 , "a" : [ true , null ] } "#,
            r#"{"a":[true,null],"b":1}"#,
        ),
        ("1.0", "1.0"),
        ("-0", "0"),
        ("-0.0", "0.0"),
        ("1e2", "100.0"),
        ("18446744073709551615", "18446744073709551615"),
        ("9007199254740993", "9007199254740993"),
        ("0.30000000000000004", "0.30000000000000004"),
        (r#""\u00e9\ud83d\ude00\/\u0000""#, "\"é😀/\\u0000\""),
    ] {
        assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
    }
    assert_eq!(canonical("1e400"), None);
}

fn as_serde(tree: &Json<'_>) -> serde_json::Value {
    match tree {
        Json::Null => serde_json::Value::Null,
        Json::Bool(b) => (*b).into(),
        Json::Number(literal) => literal
            .parse::<i64>()
            .map(Into::into)
            .or_else(|_| literal.parse::<u64>().map(Into::into))
            .unwrap_or_else(|_| literal.parse::<f64>().unwrap_or(f64::NAN).into()),
        Json::Text(text) => text.as_ref().into(),
        Json::Array(list) => list.iter().map(as_serde).collect(),
        Json::Object(members) => members
            .iter()
            .map(|(k, v)| (k.to_string(), as_serde(v)))
            .collect(),
    }
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
            proptest::collection::btree_map(any::<String>(), inner, 0..8)
                .prop_map(|m| m.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn valid_json_is_parsed_as_by_serde_json(value in any_json()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap_or_default()] {
            let tree = Json::parse(text.as_bytes());
            prop_assert_eq!(tree.map(|t| as_serde(&t)).ok(), Some(value.clone()));
        }
        prop_assert_eq!(canonical(&value.to_string()), Some(value.to_string()));
    }

    #[test]
    fn doubles_survive_canonical_json(n in any::<f64>().prop_filter("finite", |n| n.is_finite())) {
        let text = serde_json::Value::from(n).to_string();
        let back: f64 = canonical(&text).and_then(|t| t.parse().ok()).unwrap_or(f64::NAN);
        // Negative zero becomes zero; every other number keeps all bits.
        prop_assert_eq!(back.to_bits(), (n + 0.0).to_bits());
    }

    #[test]
    fn any_bytes_are_parsed_without_panic_and_accepted_only_if_valid(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if Json::parse(&bytes).is_ok() {
            prop_assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok());
        }
    }

    #[test]
    fn almost_valid_json_is_parsed_without_panic_and_accepted_only_if_valid(text in r#"[\[\]{}":,\\u0-9a-fdDeE.+\- ntrl]{0,40}"#) {
        let ours = Json::parse(text.as_bytes());
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text);
        prop_assert!(ours.is_err() || theirs.is_ok(), "{}", text);
    }
}
