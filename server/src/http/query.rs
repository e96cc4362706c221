//! Strict parsing of query strings.

use std::borrow::Cow;

use crate::entity::FieldDesc;
use crate::validate::parse_scalar;
use crate::{Code, Error, Problem, Result, Value};

/// One `key=value` of a query string.
#[derive(Debug)]
pub(super) struct Pair<'a> {
    /// Decoded; bytes that are not UTF-8 become U+FFFD, which no declared name contains.
    pub(super) key: Cow<'a, str>,
    /// Decoded; `None` for a broken percent sequence or bytes that are not UTF-8.
    pub(super) value: Option<Cow<'a, str>>,
    /// The text as the client sent it. After decoding, a comma that separates values and a `%2C`
    /// within a value would be the same.
    raw: &'a str,
}

impl Pair<'_> {
    /// The path of its problems, such as `query:limit`.
    pub(super) fn path(&self) -> String {
        path(&self.key)
    }
}

/// The path of problems with a parameter, such as `query:limit`.
pub(super) fn path(key: &str) -> String {
    format!("query:{key}")
}

/// The pairs of a query string, in order. Empty ones (`a=1&&b=2`) are skipped.
pub(super) fn pairs(query: Option<&str>) -> Vec<Pair<'_>> {
    let Some(query) = query.filter(|q| !q.is_empty()) else {
        return Vec::new();
    };
    let parts = query.split('&').filter(|p| !p.is_empty());
    parts
        .map(|part| {
            let (key, raw) = part.split_once('=').unwrap_or((part, ""));
            let key = decode(key).unwrap_or_else(|| Cow::Owned(key.replace('%', "\u{fffd}")));
            Pair {
                key,
                value: decode(raw),
                raw,
            }
        })
        .collect()
}

/// `application/x-www-form-urlencoded` text; `None` for a broken percent sequence or bytes that are
/// not UTF-8.
fn decode(text: &str) -> Option<Cow<'_, str>> {
    let bytes = text.as_bytes();
    let Some(first) = bytes.iter().position(|b| matches!(b, b'%' | b'+')) else {
        return Some(Cow::Borrowed(text));
    };
    let mut out = Vec::with_capacity(bytes.len());
    out.extend_from_slice(&bytes[..first]);
    let mut rest = &bytes[first..];
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let (digits, tail) = rest.split_first_chunk::<2>()?;
                rest = tail;
                out.push(hex(digits[0])? << 4 | hex(digits[1])?);
            }
            other => out.push(*other),
        }
    }
    String::from_utf8(out).ok().map(Cow::Owned)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|d| u8::try_from(d).ok())
}

/// The maximum number of unknown keys in an error response.
const MAX_UNKNOWN: usize = 100;

/// The maximum number and length of unknown keys that are compared with the known names. They are
/// limited, because the cost of a comparison is proportional to the product of both lengths.
const MAX_HINTS: usize = 8;
const MAX_HINT_LENGTH: usize = 64;

/// 400 `unknown_parameter` with each unknown key once, and the nearest of `known` if one is
/// similar; `Ok` if there are none.
pub(super) fn refuse_unknown<'a, 'k, K: IntoIterator<Item = &'k str>>(
    keys: impl IntoIterator<Item = &'a str>,
    known: impl Fn() -> K,
) -> Result<()> {
    let mut paths: Vec<String> = keys.into_iter().map(path).collect();
    if paths.is_empty() {
        return Ok(());
    }
    paths.sort();
    paths.dedup();
    // Many short unknown keys would make the response many times larger than the query.
    let detail = |(n, path): (usize, String)| {
        if path == "query:include" {
            return Problem::new(
                path,
                "unknown_parameter",
                "is not a relation that this route can include",
            );
        }
        // `titel[contains]` is meant for `title`.
        let name = path
            .trim_start_matches("query:")
            .split('[')
            .next()
            .unwrap_or_default();
        let hint = if n < MAX_HINTS && name.len() <= MAX_HINT_LENGTH {
            crate::suggest::did_you_mean(name, known())
        } else {
            String::new()
        };
        Problem::new(
            path,
            "unknown_parameter",
            format!("is not a parameter of this route{hint}"),
        )
    };
    let details = paths
        .into_iter()
        .take(MAX_UNKNOWN)
        .enumerate()
        .map(detail)
        .collect();
    Err(
        Error::new(Code::UnknownParameter, "The query names unknown parameters")
            .with_details(details),
    )
}

/// Reports a repeated parameter once.
pub(super) fn duplicate(pair: &Pair<'_>, problems: &mut Vec<Problem>) {
    let problem = Problem::new(pair.path(), "duplicate", "must be given once");
    if !problems.contains(&problem) {
        problems.push(problem);
    }
}

/// Parses a text as a value of a field's type; problems are added with `path`.
pub(super) fn scalar(
    field: &FieldDesc,
    text: &str,
    path: &str,
    problems: &mut Vec<Problem>,
) -> Option<Value> {
    parse_scalar(field, text)
        .map_err(|flaw| problems.push(flaw.at(path)))
        .ok()
}

/// The text of a pair; a problem when it cannot be decoded.
pub(super) fn text<'p>(pair: &'p Pair<'_>, problems: &mut Vec<Problem>) -> Option<&'p str> {
    if pair.value.is_none() {
        problems.push(Problem::new(
            pair.path(),
            "format",
            "must be percent-encoded UTF-8",
        ));
    }
    pair.value.as_deref()
}

/// `limit`: an integer of at least 1. Every maximum is below 2^32, so larger numbers are too large.
pub(super) fn limit(pair: &Pair<'_>, problems: &mut Vec<Problem>) -> Option<u32> {
    let text = text(pair, problems)?;
    positive(text)
        .map_err(|(code, message)| problems.push(Problem::new(pair.path(), code, message)))
        .ok()
}

/// An integer of at least 1, or the code and message of the problem.
pub(super) fn positive(text: &str) -> Result<u32, (&'static str, &'static str)> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(("type", "must be a whole number"));
    }
    if digits.len() < text.len() || digits.bytes().all(|b| b == b'0') {
        return Err(("range", "must be at least 1"));
    }
    Ok(text.parse().unwrap_or(u32::MAX))
}

/// `x[null]=true` or `false`.
pub(super) fn boolean(pair: &Pair<'_>, problems: &mut Vec<Problem>) -> Option<bool> {
    match text(pair, problems)? {
        "true" => Some(true),
        "false" => Some(false),
        _ => {
            problems.push(Problem::new(pair.path(), "type", "must be true or false"));
            None
        }
    }
}

/// A list of values, separated by commas. `%2C` and `\,` are commas within a value, and `\\` is a
/// backslash; any other escape is a problem.
pub(super) fn comma_list(pair: &Pair<'_>, problems: &mut Vec<Problem>) -> Option<Vec<String>> {
    text(pair, problems)?;
    let mut items = Vec::new();
    let mut item = String::new();
    let mut parts = pair.raw.split(',').peekable();
    while let Some(part) = parts.next() {
        // The whole value can be decoded. No percent sequence and no character contains a comma, so
        // each part can be decoded too.
        let decoded = decode(part)?;
        let mut chars = decoded.chars();
        let mut comma_is_escaped = false;
        while let Some(c) = chars.next() {
            if c != '\\' {
                item.push(c);
                continue;
            }
            match chars.next() {
                Some(escaped @ (',' | '\\')) => item.push(escaped),
                None if parts.peek().is_some() => comma_is_escaped = true,
                _ => {
                    problems.push(Problem::new(
                        pair.path(),
                        "format",
                        "a backslash must be followed by a comma or a backslash",
                    ));
                    return None;
                }
            }
        }
        if comma_is_escaped {
            item.push(',');
        } else {
            items.push(std::mem::take(&mut item));
        }
    }
    Some(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded_strictly() {
        let all = pairs(Some("a=1&&b%5Bin%5D=x+y%2C&c&d=%ff&e=%4&f=%zz&%ff=1&=v"));
        let seen: Vec<(&str, Option<&str>)> =
            all.iter().map(|p| (&*p.key, p.value.as_deref())).collect();
        let expected = [
            ("a", Some("1")),
            ("b[in]", Some("x y,")),
            ("c", Some("")),
            ("d", None),
            ("e", None),
            ("f", None),
            ("\u{fffd}ff", Some("1")),
            ("", Some("v")),
        ];
        assert_eq!(seen, expected);
        assert!(pairs(None).is_empty() && pairs(Some("")).is_empty());
    }

    #[test]
    fn comma_lists_unescape() {
        let list = |text: &str| {
            let query = format!("f[in]={text}");
            comma_list(&pairs(Some(&query))[0], &mut Vec::new())
        };
        assert_eq!(list("a,b").unwrap(), ["a", "b"]);
        assert_eq!(list("a\\,b,c\\\\").unwrap(), ["a,b", "c\\"]);
        assert_eq!(list("").unwrap(), [""]);
        assert_eq!(list("a,").unwrap(), ["a", ""]);
        assert_eq!(list("One%2C%20two").unwrap(), ["One, two"]);
        assert_eq!(list("a%2Cb,c%2c,%2C").unwrap(), ["a,b", "c,", ","]);
        assert_eq!(list("a%5C,b").unwrap(), ["a,b"]);
        assert_eq!(list("a%5C%2Cb").unwrap(), ["a,b"]);
        assert_eq!(list("a%5C%5C,b").unwrap(), ["a\\", "b"]);
        assert_eq!(list("%C3%A9,+").unwrap(), ["\u{e9}", " "]);
        assert_eq!(list("a,b%2"), None);
        assert_eq!(list("a%2,C"), None);
        assert_eq!(list("a\\x"), None);
        assert_eq!(list("a\\"), None);
        assert_eq!(list("a,b\\"), None);
    }

    #[test]
    fn limits_are_positive_integers() {
        let limit = |text: &str| {
            let query = format!("limit={text}");
            let mut problems = Vec::new();
            super::limit(&pairs(Some(&query))[0], &mut problems).ok_or_else(|| problems[0].code)
        };
        assert_eq!(limit("1"), Ok(1));
        assert_eq!(limit("99999999999999999999"), Ok(u32::MAX));
        for (text, code) in [
            ("0", "range"),
            ("-1", "range"),
            ("", "type"),
            ("-", "type"),
            ("abc", "type"),
            ("1.5", "type"),
            ("%2B1", "type"),
        ] {
            assert_eq!(limit(text), Err(code), "{text}");
        }
    }
}
