//! `If-Match` and `If-None-Match`.

use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue};

use crate::Problem;

/// The version in `If-Match`; `Ok(None)` without the header.
///
/// # Errors
/// The problem, when it is not exactly one strong tag in canonical form. `*`, weak tags and lists
/// are refused.
pub(super) fn if_match(headers: &HeaderMap) -> Result<Option<i64>, Problem> {
    let mut values = headers.get_all(IF_MATCH).iter();
    let Some(first) = values.next() else {
        return Ok(None);
    };
    let version = if values.next().is_some() {
        None
    } else {
        version(first)
    };
    let problem = || {
        Problem::new(
            "header:If-Match",
            "format",
            "must be one strong entity tag, such as \"3\"",
        )
    };
    version.map(Some).ok_or_else(problem)
}

fn version(value: &HeaderValue) -> Option<i64> {
    let digits = value.as_bytes().strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let canonical =
        digits == b"0" || (digits.first()? != &b'0' && digits.iter().all(u8::is_ascii_digit));
    std::str::from_utf8(digits)
        .ok()
        .filter(|_| canonical)?
        .parse()
        .ok()
}

/// Whether an `If-None-Match` contains this tag, so that the client's copy is current.
pub(super) fn none_match(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .any(|one| {
            let one = one.trim();
            // RFC 9110 prescribes weak comparison for this header.
            one == "*" || one.strip_prefix("W/").unwrap_or(one).as_bytes() == tag.as_bytes()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &axum::http::HeaderName, values: &[&str]) -> HeaderMap {
        values
            .iter()
            .map(|v| (name.clone(), HeaderValue::from_str(v).unwrap()))
            .collect()
    }

    #[test]
    fn only_one_strong_canonical_tag_is_a_precondition() {
        assert_eq!(if_match(&HeaderMap::new()), Ok(None));
        assert_eq!(if_match(&headers(&IF_MATCH, &["\"12\""])), Ok(Some(12)));
        for bad in [
            "*",
            "W/\"1\"",
            "\"1\", \"2\"",
            "\"01\"",
            "\"+1\"",
            "\"-1\"",
            "\"\"",
            "\"",
            "1",
            "",
            "\"1",
            "\"99999999999999999999\"",
        ] {
            assert!(if_match(&headers(&IF_MATCH, &[bad])).is_err(), "{bad}");
        }
        assert!(if_match(&headers(&IF_MATCH, &["\"1\"", "\"1\""])).is_err());
    }

    #[test]
    fn if_none_match_accepts_any_equal_tag() {
        let tag = HeaderValue::from_static("\"3\"");
        for good in ["\"3\"", "W/\"3\"", "\"1\", \"3\"", "*"] {
            assert!(
                none_match(&headers(&IF_NONE_MATCH, &[good]), &tag),
                "{good}"
            );
        }
        for other in ["\"4\"", "3", ""] {
            assert!(
                !none_match(&headers(&IF_NONE_MATCH, &[other]), &tag),
                "{other}"
            );
        }
    }
}
