//! Canonical JSON (RFC 8785) and digests of it.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Number, Value as Json};
use sha2::{Digest as _, Sha256};

/// Returns the canonical form: keys sorted by their UTF-16 code units, no spaces, numbers as
/// ECMAScript prints them.
///
/// An integer that a double cannot represent keeps its digits. So two different integers never have
/// the same form.
///
/// ```
/// use serde_json::json;
///
/// let text = linchpin_migrate::canonical(&json!({ "b": 1.0, "a": ["\u{20ac}", 1e21] }));
/// assert_eq!(text, "{\"a\":[\"\u{20ac}\",1e+21],\"b\":1}");
/// ```
pub fn canonical(json: &Json) -> String {
    let mut text = String::new();
    write(json, &mut text);
    text
}

/// Returns the SHA-256 digest of the canonical form, as 64 lower-case hexadecimal digits.
pub fn digest(json: &Json) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(canonical(json).as_bytes()) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns the digest of a value that has a JSON form.
///
/// # Panics
/// If serialization fails: a map has keys that are not texts.
pub fn digest_of<T: Serialize + ?Sized>(value: &T) -> String {
    digest(&json_of(value))
}

/// Returns the JSON form of a value of this crate, whose serialization cannot fail.
pub(crate) fn json_of<T: Serialize + ?Sized>(value: &T) -> Json {
    serde_json::to_value(value).expect("the keys of all maps are texts")
}

/// Whether the text has the form of a digest: 64 lower-case hexadecimal digits.
pub fn is_digest(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn write(json: &Json, text: &mut String) {
    match json {
        Json::Null => text.push_str("null"),
        Json::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Json::Number(value) => number(value, text),
        Json::String(value) => string(value, text),
        Json::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        Json::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            text.push('{');
            for (at, (key, value)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                string(key, text);
                text.push(':');
                write(value, text);
            }
            text.push('}');
        }
    }
}

fn string(value: &str, text: &mut String) {
    text.push('"');
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\u{9}' => text.push_str("\\t"),
            '\u{a}' => text.push_str("\\n"),
            '\u{c}' => text.push_str("\\f"),
            '\u{d}' => text.push_str("\\r"),
            c if c < '\u{20}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
}

fn number(value: &Number, text: &mut String) {
    if value.is_i64() || value.is_u64() {
        let _ = write!(text, "{value}");
    } else {
        double(value.as_f64().unwrap_or_default(), text);
    }
}

/// Writes a finite double as `Number.prototype.toString` of ECMAScript does.
fn double(value: f64, text: &mut String) {
    if value == 0.0 {
        text.push('0');
        return;
    }
    if value < 0.0 {
        text.push('-');
    }
    // Formats the shortest digits that parse to the same double. If two such texts are equally near
    // to the value, the last digit is even.
    let mut buffer = zmij::Buffer::new();
    let shortest = buffer.format_finite(value.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((shortest, "0"));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let all = format!("{whole}{part}");
    let digits = all.trim_start_matches('0');
    // The value is 0.DIGITS times ten to the power of `point`.
    let point = exponent + whole.len() as i32 - (all.len() - digits.len()) as i32;
    let digits = digits.trim_end_matches('0');
    let length = digits.len() as i32;
    if length <= point && point <= 21 {
        text.push_str(digits);
        text.extend(std::iter::repeat_n('0', (point - length) as usize));
    } else if 0 < point && point <= 21 {
        let (whole, part) = digits.split_at(point as usize);
        let _ = write!(text, "{whole}.{part}");
    } else if -6 < point && point <= 0 {
        text.push_str("0.");
        text.extend(std::iter::repeat_n('0', (-point) as usize));
        text.push_str(digits);
    } else {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        let _ = write!(text, "{first}{dot}{rest}e{:+}", point - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_have_the_form_of_ecmascript() {
        // The table of appendix B of RFC 8785: the bits of a double and its text.
        for (bits, form) in [
            (0x0000_0000_0000_0000, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            let mut text = String::new();
            double(f64::from_bits(bits), &mut text);
            assert_eq!(text, form, "{bits:x}");
        }
    }

    #[test]
    fn keys_are_sorted_by_utf_16_code_units() {
        // The example of RFC 8785, section 3.2.3.
        let json = json!({
            "\u{20ac}": 1, "\r": 2, "\u{fb33}": 3, "1": 4,
            "\u{1f600}": 5, "\u{80}": 6, "\u{f6}": 7,
        });
        assert_eq!(
            canonical(&json),
            "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"\u{f6}\":7,\"\u{20ac}\":1,\"\u{1f600}\":5,\
             \"\u{fb33}\":3}"
        );
    }

    #[test]
    fn only_quotes_backslashes_and_control_characters_are_escaped() {
        let json = json!("\u{20ac}$\u{f}\nA'B\"\\\\\"/\u{7f}");
        assert_eq!(
            canonical(&json),
            "\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\u{7f}\""
        );
    }

    #[test]
    fn different_integers_have_different_forms() {
        for (json, form) in [
            (json!(9_007_199_254_740_993_i64), "9007199254740993"),
            (json!(i64::MIN), "-9223372036854775808"),
            (json!(u64::MAX), "18446744073709551615"),
        ] {
            assert_eq!(canonical(&json), form);
        }
    }

    #[test]
    fn a_digest_is_the_hash_of_the_canonical_form() {
        // `printf '{"a":1}' | sha256sum`
        assert_eq!(
            digest(&json!({ "a": 1.0 })),
            "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
        );
        assert!(is_digest(&digest(&json!(null))));
        assert!(!is_digest(&digest(&json!(null)).to_uppercase()));
        assert!(!is_digest("015abd7f"));
    }
}
