use super::*;
use crate::canonical::canonical;
use serde_json::json;

fn message(text: &str) -> String {
    parse("0001_a.json", text).unwrap_err().message
}

#[test]
fn valid_documents_are_read_exactly() {
    let text =
        r#" {"a": [1, -2, 0.1, 1e3, 18446744073709551615], "b\u00e9\n": {}, "c": "\ud83d\ude00"} "#;
    let json = parse("f", text).unwrap();
    assert_eq!(
        json,
        json!({"a": [1, -2, 0.1, 1000.0, u64::MAX], "b\u{e9}\n": {}, "c": "\u{1f600}"})
    );
    // An inexact reader changes this value.
    for value in [0.1 + 0.2, 5e-324, 1.797_693_134_862_315_7e308, 2.2e-308] {
        let text = serde_json::to_string(&json!([value])).unwrap();
        let read = parse("f", &text).unwrap();
        assert_eq!(canonical(&read), canonical(&json!([value])));
    }
}

#[test]
fn mistakes_are_refused_with_their_path() {
    for (text, found) in [
        (
            r#"{"a": {"b": 1, "b": 2}}"#,
            "at `$.a.b`: the key occurs twice (line 1)",
        ),
        (
            "{\"a\":\n[1,",
            "at `$.a[1]`: expected a value, but the file ends (line 2)",
        ),
        (
            r#"{"a": [1 2]}"#,
            "at `$.a`: expected `,` or `]`, found `2` (line 1)",
        ),
        (r#"{"a": 01}"#, "at `$.a`: a number is malformed (line 1)"),
        (
            r#"{"a": 1e999}"#,
            "at `$.a`: a number is too large (line 1)",
        ),
        (
            r#"{"a": "\ud800"}"#,
            "at `$.a`: a text has a control character or an invalid escape (line 1)",
        ),
        (
            "{\"a\": \"\u{1}\"}",
            "at `$.a`: a text has a control character or an invalid escape (line 1)",
        ),
        (r#"{"a": "b"#, "at `$.a`: a text does not end (line 1)"),
        (r#"{"a": "\"#, "at `$.a`: a text does not end (line 1)"),
        (
            "{} {}",
            "at `$`: unexpected text after the end of the document (line 1)",
        ),
        ("", "at `$`: expected a value, but the file ends (line 1)"),
        ("nul", "at `$`: expected a value, found `n` (line 1)"),
        (
            "<<<<<<< HEAD",
            "at `$`: expected a value, found `<` (line 1)",
        ),
    ] {
        let whole = message(text);
        assert!(whole.contains(found), "{text}\n{whole}");
    }
}

#[test]
fn deep_nesting_is_refused() {
    let deep = "[".repeat(200_000);
    assert!(message(&deep).contains("the nesting is deeper than 64"));
    let fits = format!("{}{}", "[".repeat(64), "]".repeat(64));
    assert!(parse("f", &fits).is_ok());
}

#[test]
fn large_files_are_refused() {
    let large = format!("\"{}\"", "a".repeat(MAX_BYTES));
    assert!(message(&large).contains("the file is larger than 16 MiB"));
}

#[test]
fn snapshots_are_checked_for_format_keys_and_names() {
    let refusal = |text: &str| read_snapshot("s.json", text).unwrap_err();
    let empty = read_snapshot("s.json", r#"{"format": 2, "entities": {}}"#).unwrap();
    assert_eq!(empty, Snapshot::empty());

    let other = refusal(r#"{"format": 3, "things": []}"#);
    assert_eq!(
        (other.code, other.exit),
        ("snapshot_format", Exit::Planning)
    );
    assert_eq!(
        other.message,
        "`s.json` has format 3; this build reads format 2"
    );

    for (text, found) in [
        (r#"{"entities": {}}"#, "at `$`: missing field `format`"),
        (
            r#"{"format": "2", "entities": {}}"#,
            "at `$.format`: expected a number",
        ),
        ("[]", "at `$`: expected an object"),
        (
            r#"{"format": 2, "entities": {}, "x": 1}"#,
            "unknown field `x`",
        ),
        (
            r#"{"format": 2, "entities": {"t": {"name": 1}}}"#,
            "at `$.entities.t.name`: invalid type",
        ),
    ] {
        let refusal = refusal(text);
        assert_eq!(
            (refusal.code, refusal.exit),
            ("snapshot_invalid", Exit::Planning)
        );
        assert!(refusal.message.contains(found), "{}", refusal.message);
    }
}

#[test]
fn names_in_snapshots_are_checked() {
    let read_with = |storage: &str, key: &str, primary: &str, column: &str| {
        let json = json!({"format": 2, "entities": {key: {
            "name": "T", "storageName": storage, "formerNames": [], "primary": primary,
            "fields": {"id": {"type": "string", "column": column, "optional": false,
                "formerNames": []}},
            "indexes": [], "uniques": [], "counters": [], "checks": []
        }}});
        read_snapshot("s.json", &json.to_string()).map_err(|refusal| refusal.message)
    };
    read_with("t", "t", "id", "id").unwrap();
    read_with("t", "u", "id", "id").unwrap_err();
    read_with("t", "t", "key", "id").unwrap_err();
    read_with("t", "t", "id", "").unwrap_err();
    read_with("t", "t", "id", "a\0").unwrap_err();
    let long = "\u{e9}".repeat(32);
    assert_eq!(
        read_with("t", "t", "id", &long).unwrap_err(),
        format!(
            "`s.json` is not valid at `$.entities.t.fields.id.column`: `{long}` is not a name of \
             1 to 63 bytes"
        )
    );
    read_with("t", "t", "id", &"\u{e9}".repeat(31)).unwrap();
}
