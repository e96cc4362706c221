//! Tests the evaluator with a hand-written table of expected results.

use std::cmp::Ordering;

use super::*;
use crate::Timestamp;

/// Whether a row whose only field has the value `stored` matches the condition `field op operand`.
fn holds(stored: &Value, op: Op, operand: &Operand) -> bool {
    matches(
        &Filter::cond(0, op, operand.clone()),
        std::slice::from_ref(stored),
        &[],
    )
}

// Short constructors of values, so that a row of the tables below fits on one line.

fn t(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn i(n: i64) -> Value {
    Value::Int(n)
}

fn f(n: f64) -> Value {
    Value::Float(n)
}

fn d(text: &str) -> Value {
    Value::Date(Timestamp::parse(text).unwrap_or_else(|_| panic!("{text}")))
}

fn s(list: &[&str]) -> Value {
    Value::Strings(list.iter().map(|&x| x.to_owned()).collect())
}

fn j(text: &str) -> Value {
    Value::Json(text.to_owned())
}

const N: Value = Value::Null;
const T: Value = Value::Bool(true);
const F: Value = Value::Bool(false);
const MAX: i64 = (1 << 53) - 1;

#[test]
fn comparisons_with_one_value_match_the_table() {
    use Op::{Contains, Eq, Gt, Gte, Has, Lt, Lte, Ne};
    #[rustfmt::skip]
    let table: Vec<(Value, Op, Value, bool)> = vec![
        // equality: text
        (t("a"), Eq, t("a"), true),
        (t("a"), Eq, t("b"), false),
        (t("a"), Eq, t("A"), false),
        (t(""), Eq, t(""), true),
        (t(""), Eq, N, false),
        (t("a "), Eq, t("a"), false),
        (t("\u{e9}"), Eq, t("e\u{301}"), false),
        (t("%"), Eq, t("%"), true),
        (t("%"), Eq, t("x"), false),
        (t("_"), Eq, t("x"), false),
        (t("'"), Eq, t("'"), true),
        (t("\\"), Eq, t("\\"), true),
        (t("$x"), Eq, t("$x"), true),
        (t("1"), Eq, i(1), false),
        (t("😀"), Eq, t("😀"), true),
        (N, Eq, t("a"), false),
        (N, Eq, t(""), false),
        (N, Eq, N, true),
        (t("a"), Eq, N, false),
        // equality: the other types
        (i(0), Eq, i(0), true),
        (i(1), Eq, i(-1), false),
        (i(MAX), Eq, i(MAX), true),
        (i(MAX), Eq, i(MAX - 1), false),
        (i(0), Eq, N, false),
        (N, Eq, i(0), false),
        (f(0.5), Eq, f(0.5), true),
        (f(0.1 + 0.2), Eq, f(0.3), false),
        (f(-0.0), Eq, f(0.0), true),
        (f(2.0), Eq, i(2), true),
        (f(2.5), Eq, i(2), false),
        (f(5e-324), Eq, f(0.0), false),
        (N, Eq, f(0.0), false),
        (T, Eq, T, true),
        (T, Eq, F, false),
        (F, Eq, F, true),
        (N, Eq, F, false),
        (F, Eq, N, false),
        (d("2026-01-02T03:04:05Z"), Eq, d("2026-01-02T05:04:05+02:00"), true),
        (d("2026-01-02T03:04:05.001Z"), Eq, d("2026-01-02T03:04:05Z"), false),
        (d("0001-01-01T00:00:00Z"), Eq, d("0001-01-01T00:00:00Z"), true),
        (N, Eq, d("2026-01-02T03:04:05Z"), false),
        (s(&["a", "b"]), Eq, s(&["a", "b"]), true),
        (s(&["a", "b"]), Eq, s(&["b", "a"]), false),
        (s(&[]), Eq, s(&[]), true),
        (s(&[]), Eq, N, false),
        (j(r#"["a"]"#), Eq, s(&["a"]), true),
        (j(r#"{"a":1}"#), Eq, j(r#"{"a":1}"#), true),
        (j(r#"{"a":1}"#), Eq, j(r#"{"a":2}"#), false),
        (j("null"), Eq, N, false),
        // inequality: null differs from every value
        (t("a"), Ne, t("a"), false),
        (t("a"), Ne, t("b"), true),
        (N, Ne, t("a"), true),
        (N, Ne, t(""), true),
        (N, Ne, N, false),
        (t("a"), Ne, N, true),
        (t(""), Ne, N, true),
        (i(1), Ne, i(1), false),
        (i(1), Ne, i(2), true),
        (N, Ne, i(1), true),
        (i(1), Ne, N, true),
        (f(1.5), Ne, f(1.5), false),
        (N, Ne, f(1.5), true),
        (T, Ne, F, true),
        (T, Ne, T, false),
        (N, Ne, T, true),
        (T, Ne, N, true),
        (d("2026-01-02T03:04:05Z"), Ne, d("2026-01-02T03:04:05Z"), false),
        (N, Ne, d("2026-01-02T03:04:05Z"), true),
        (s(&["a"]), Ne, s(&["a"]), false),
        (N, Ne, s(&[]), true),
        // order: null never matches
        (t("a"), Lt, t("b"), true),
        (t("b"), Lt, t("a"), false),
        (t("a"), Lt, t("a"), false),
        (t("a"), Lte, t("a"), true),
        (t("a"), Gt, t("a"), false),
        (t("a"), Gte, t("a"), true),
        (t("b"), Gt, t("a"), true),
        (t("B"), Lt, t("a"), true),
        (t("a"), Lt, t("aa"), true),
        (t(""), Lt, t("a"), true),
        (t("z"), Lt, t("é"), true),
        (t("\u{ffff}"), Lt, t("\u{10000}"), true),
        (t("10"), Lt, t("9"), true),
        (N, Lt, t("a"), false),
        (N, Lte, t("a"), false),
        (N, Gt, t(""), false),
        (N, Gte, t(""), false),
        (t("a"), Lt, N, false),
        (t("a"), Lte, N, false),
        (t("a"), Gt, N, false),
        (t("a"), Gte, N, false),
        (N, Lte, N, false),
        (N, Gte, N, false),
        (i(1), Lt, i(2), true),
        (i(2), Lt, i(1), false),
        (i(-1), Lt, i(0), true),
        (i(9), Lt, i(10), true),
        (i(2), Lte, i(2), true),
        (i(2), Gte, i(2), true),
        (i(2), Gt, i(2), false),
        (i(-MAX), Lt, i(MAX), true),
        (i(MAX - 1), Lt, i(MAX), true),
        (N, Gt, i(-MAX), false),
        (N, Lt, i(MAX), false),
        (i(0), Gt, N, false),
        (f(0.3), Lt, f(0.1 + 0.2), true),
        (f(-0.0), Lt, f(0.0), false),
        (f(-0.0), Gte, f(0.0), true),
        (f(1e300), Gt, f(1e299), true),
        (f(-1e300), Lt, f(0.0), true),
        (f(0.5), Gt, i(0), true),
        (N, Lt, f(1.0), false),
        (f(1.0), Lt, N, false),
        (d("2026-01-02T03:04:05Z"), Lt, d("2026-01-02T03:04:05.001Z"), true),
        (d("1969-12-31T23:59:59.999Z"), Lt, d("1970-01-01T00:00:00Z"), true),
        (d("9999-12-31T23:59:59.999Z"), Gt, d("0001-01-01T00:00:00Z"), true),
        (d("2026-01-02T03:04:05Z"), Gte, d("2026-01-02T03:04:05Z"), true),
        (d("2026-01-02T03:04:05Z"), Lte, d("2026-01-01T03:04:05Z"), false),
        (N, Lte, d("2026-01-02T03:04:05Z"), false),
        (d("2026-01-02T03:04:05Z"), Lte, N, false),
        // contains: folded, no wildcards
        (t("Alpha"), Contains, t("alp"), true),
        (t("Alpha"), Contains, t("LPH"), true),
        (t("Alpha"), Contains, t("Alpha"), true),
        (t("Alpha"), Contains, t("Alphas"), false),
        (t("Alpha"), Contains, t("x"), false),
        (t("100%"), Contains, t("%"), true),
        (t("100"), Contains, t("%"), false),
        (t("a_b"), Contains, t("_"), true),
        (t("ab"), Contains, t("_"), false),
        (t("a\\b"), Contains, t("\\"), true),
        (t("ab"), Contains, t("\\"), false),
        (t("a.b"), Contains, t("."), true),
        (t("ab"), Contains, t("."), false),
        (t("a*b"), Contains, t("*"), true),
        (t("ab"), Contains, t("*"), false),
        (t("it's"), Contains, t("'S"), true),
        (t("say \"x\""), Contains, t("\"X\""), true),
        (t("$price"), Contains, t("$P"), true),
        (t("ÄÖÜ"), Contains, t("äö"), true),
        (t("äöü"), Contains, t("ÖÜ"), true),
        (t("ΟΔΟΣ"), Contains, t("οδος"), true),
        (t("οδος"), Contains, t("ΟΔΟΣ"), true),
        (t("οδοσ"), Contains, t("ς"), true),
        (t("Straße"), Contains, t("STRAẞE"), true),
        (t("Straße"), Contains, t("strasse"), false),
        (t("Strasse"), Contains, t("straße"), false),
        (t("İstanbul"), Contains, t("istanbul"), false),
        (t("İstanbul"), Contains, t("İSTANBUL"), true),
        (t("İstanbul"), Contains, t("stan"), true),
        (t("ısı"), Contains, t("isi"), false),
        (t("DİL"), Contains, t("dİl"), true),
        (t("\u{212a}elvin"), Contains, t("kELVIN"), true),
        (t("ПРИВЕТ"), Contains, t("вет"), true),
        (t("a😀b"), Contains, t("😀"), true),
        (t("a😀b"), Contains, t("😁"), false),
        (t("cafe\u{301}"), Contains, t("e"), true),
        (t("cafe\u{301}"), Contains, t("é"), false),
        (t("é"), Contains, t("e"), false),
        (t("É"), Contains, t("é"), true),
        (t("漢字"), Contains, t("字"), true),
        (t(""), Contains, t("a"), false),
        (N, Contains, t("a"), false),
        (t("a"), Contains, N, false),
        (N, Contains, N, false),
        // has: exact elements
        (s(&["a", "b"]), Has, t("a"), true),
        (s(&["a", "b"]), Has, t("c"), false),
        (s(&["a", "b"]), Has, t("A"), false),
        (s(&["ab"]), Has, t("a"), false),
        (s(&[]), Has, t("a"), false),
        (s(&[]), Has, t(""), false),
        (s(&[""]), Has, t(""), true),
        (s(&["a,b"]), Has, t("a"), false),
        (s(&["$x", "."]), Has, t("$x"), true),
        (s(&["\""]), Has, t("\""), true),
        (j(r#"["a","\"","\u00e9"]"#), Has, t("é"), true),
        (j(r#"["a","\""]"#), Has, t("\""), true),
        (j(r#"["a"]"#), Has, t("b"), false),
        (N, Has, t("a"), false),
        (s(&["a"]), Has, N, false),
        (N, Has, N, false),
    ];
    for (n, (stored, op, operand, expected)) in table.iter().enumerate() {
        let one = Operand::One(Source::Value(operand.clone()));
        assert_eq!(
            holds(stored, *op, &one),
            *expected,
            "{n}: {stored:?} {} {operand:?}",
            op.as_str()
        );
        // The same with an argument slot.
        let by_arg = Filter::cond(
            1,
            *op,
            Operand::One(Source::Arg {
                index: 2,
                nullable: true,
            }),
        );
        let row = [Value::Bool(true), stored.clone()];
        let args = [Value::Null, Value::Null, operand.clone()];
        assert_eq!(
            matches(&by_arg, &row[..], &args),
            *expected,
            "{n}: by argument"
        );
    }
    assert!(table.len() >= 170, "{}", table.len());
}

#[test]
fn membership_conditions_match_the_table() {
    #[rustfmt::skip]
    let table: Vec<(Value, Vec<Value>, bool)> = vec![
        (t("a"), vec![t("a"), t("b")], true),
        (t("c"), vec![t("a"), t("b")], false),
        (t("A"), vec![t("a")], false),
        (t(""), vec![t("")], true),
        (t(""), vec![N], false),
        (t("a"), vec![N], false),
        (t("a"), vec![N, t("a")], true),
        (N, vec![t("a")], false),
        (N, vec![t("a"), N], true),
        (N, vec![N], true),
        (N, vec![], false),
        (t("a"), vec![], false),
        (t("a,b"), vec![t("a"), t("b")], false),
        (i(1), vec![i(1), i(2)], true),
        (i(3), vec![i(1), i(2)], false),
        (i(MAX), vec![i(MAX)], true),
        (N, vec![i(0)], false),
        (N, vec![i(0), N], true),
        (f(0.5), vec![f(0.25), f(0.5)], true),
        (f(0.1 + 0.2), vec![f(0.3)], false),
        (f(0.0), vec![f(-0.0)], true),
        (N, vec![f(0.0)], false),
        (d("2026-01-02T03:04:05Z"), vec![d("2026-01-02T04:04:05+01:00")], true),
        (d("2026-01-02T03:04:05Z"), vec![d("2026-01-02T03:04:06Z")], false),
        (N, vec![d("2026-01-02T03:04:05Z"), N], true),
        (T, vec![F], false),
        (T, vec![F, T], true),
        (t("%"), vec![t("x"), t("_")], false),
        (t("İ"), vec![t("i"), t("İ")], true),
        (t("ß"), vec![t("ss")], false),
    ];
    for (n, (stored, list, expected)) in table.iter().enumerate() {
        let operand = Operand::List(list.iter().cloned().map(Source::Value).collect());
        assert_eq!(
            holds(stored, Op::In, &operand),
            *expected,
            "{n}: {stored:?} in {list:?}"
        );
        assert_eq!(
            holds(stored, Op::Nin, &operand),
            !*expected,
            "{n}: {stored:?} nin {list:?}"
        );
        // The same list as one argument.
        let one = Operand::One(Source::Value(as_one(list)));
        assert_eq!(
            holds(stored, Op::In, &one),
            *expected,
            "{n}: {stored:?} in one {one:?}"
        );
        assert_eq!(
            holds(stored, Op::Nin, &one),
            !*expected,
            "{n}: {stored:?} nin one {one:?}"
        );
    }
}

/// A list in the form of a list parameter: strings, or JSON with dates as milliseconds.
fn as_one(list: &[Value]) -> Value {
    if let Some(texts) = list
        .iter()
        .map(|v| v.as_text().map(str::to_owned))
        .collect::<Option<Vec<_>>>()
    {
        return Value::Strings(texts);
    }
    let items: Vec<serde_json::Value> = list
        .iter()
        .map(|v| match v {
            Value::Bool(b) => (*b).into(),
            Value::Int(n) => (*n).into(),
            Value::Float(n) => (*n).into(),
            Value::Text(x) => x.as_str().into(),
            Value::Date(x) => x.millis().into(),
            Value::Null | Value::Strings(_) | Value::Json(_) => serde_json::Value::Null,
        })
        .collect();
    j(&serde_json::Value::from(items).to_string())
}

#[test]
fn groups_of_conditions_match_the_table() {
    let row = [t("a"), i(5), N];
    let yes = || Filter::cond(0, Op::Eq, Operand::One(Source::Value(t("a"))));
    let no = || Filter::cond(1, Op::Gt, Operand::One(Source::Value(i(5))));
    for (filter, expected) in [
        (Filter::TRUE, true),
        (Filter::Any(vec![]), false),
        (Filter::All(vec![yes()]), true),
        (Filter::All(vec![yes(), no()]), false),
        (Filter::Any(vec![no(), yes()]), true),
        (Filter::Any(vec![no(), no()]), false),
        (
            Filter::All(vec![Filter::Any(vec![no(), yes()]), yes()]),
            true,
        ),
        (
            Filter::Any(vec![Filter::All(vec![yes(), no()]), no()]),
            false,
        ),
        (
            Filter::All(vec![Filter::All(vec![]), Filter::Any(vec![])]),
            false,
        ),
        (
            Filter::cond(2, Op::Eq, Operand::One(Source::Value(N))),
            true,
        ),
        // A position outside the row reads as null.
        (
            Filter::cond(9, Op::Eq, Operand::One(Source::Value(N))),
            true,
        ),
    ] {
        assert_eq!(matches(&filter, &row[..], &[]), expected, "{filter:?}");
    }
}

#[test]
fn a_condition_with_an_unbound_source_matches_nothing() {
    let row = [t("a")];
    for source in [
        Source::Now,
        Source::Param(0),
        Source::Arg {
            index: 3,
            nullable: false,
        },
    ] {
        for op in [
            Op::Eq,
            Op::Ne,
            Op::Lt,
            Op::In,
            Op::Nin,
            Op::Contains,
            Op::Has,
        ] {
            assert!(
                !matches(
                    &Filter::cond(0, op, Operand::One(source.clone())),
                    &row[..],
                    &[]
                ),
                "{op:?} {source:?}"
            );
        }
        let list = Operand::List(vec![Source::Value(t("b")), source]);
        assert!(!matches(&Filter::cond(0, Op::Nin, list), &row[..], &[]));
    }
}

#[test]
fn null_is_smallest_and_the_order_is_total() {
    let ascending = [
        N,
        F,
        T,
        f(-1e300),
        i(-1),
        f(-0.5),
        i(0),
        f(0.5),
        i(MAX),
        f(1e300),
    ];
    for (n, a) in ascending.iter().enumerate() {
        for (m, b) in ascending.iter().enumerate() {
            assert_eq!(compare(a.as_ref(), b.as_ref()), n.cmp(&m), "{a:?} {b:?}");
        }
    }
    assert_eq!(compare(t("ab").as_ref(), t("b").as_ref()), Ordering::Less);
    assert_eq!(compare(f(-0.0).as_ref(), f(0.0).as_ref()), Ordering::Equal);
}

#[test]
fn folding_agrees_with_the_unicode_tables() {
    use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};
    // The tables of the standard library may be newer than those of `regex-syntax`, with which this
    // test compares the folding.
    let known = regex::Regex::new(r"^\p{age:16.0}$").unwrap_or_else(|e| panic!("{e}"));
    let cased = |c: &char| c.to_lowercase().ne([*c]) || c.to_uppercase().ne([*c]);
    let mut seen = 0;
    for c in ('\0'..=char::MAX).filter(cased) {
        let mut buffer = [0; 4];
        let text: &str = c.encode_utf8(&mut buffer);
        if !known.is_match(text) {
            continue;
        }
        seen += 1;
        let folded = fold(text);
        assert_eq!(folded.chars().count(), 1, "{c}");
        assert_eq!(fold(&folded), folded, "folding twice changes {c}");
        let mut class = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
        assert!(class.try_case_fold_simple().is_ok());
        let equals: Vec<char> = class.iter().flat_map(|r| r.start()..=r.end()).collect();
        assert!(
            folded.chars().all(|x| equals.contains(&x)),
            "{c} folds to {folded}, which is not its equal"
        );
        for other in equals {
            assert_eq!(
                fold(other.encode_utf8(&mut [0; 4])),
                folded,
                "{c} and {other} must have the same folded form"
            );
        }
    }
    assert!(seen > 2500, "only {seen} cased characters were compared");
}

#[test]
fn folded_contains_agrees_with_contains() {
    let texts = [
        "",
        "a",
        "Ab",
        "aB a",
        "Straße",
        "STRASSE",
        "\u{212a}elvin",
        "kK",
        "ΟΔΟΣ",
        "a\0B",
        "%_",
    ];
    let parts: Vec<String> = texts
        .iter()
        .map(|text| fold(text))
        .chain(["b".to_owned(), "ba".to_owned(), "ß".to_owned()])
        .collect();
    for text in texts {
        for part in &parts {
            assert_eq!(
                contains_folded(text, part),
                fold(text).contains(part),
                "{part:?} in {text:?}"
            );
        }
    }
}
