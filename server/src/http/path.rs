//! Paths: built from descriptors at start-up, and split into segments for each request.

use std::borrow::Cow;
use std::fmt::Write as _;

use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::operation::Seg;

/// The characters that must be encoded in a path segment (RFC 3986 `pchar`), and braces, which mark
/// parameters in routers.
const SEGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b']')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Joins a mount path and a path below it. The result has no double slash and no slash at the end.
pub(super) fn join(mount: &str, below: &str) -> String {
    let mut out = String::with_capacity(mount.len() + below.len() + 2);
    for segment in mount
        .split('/')
        .chain(below.split('/'))
        .filter(|s| !s.is_empty())
    {
        out.push('/');
        // A parameter of the mount path stays a parameter; all other text is literal.
        if segment.starts_with('{') && segment.ends_with('}') {
            out.push_str(segment);
        } else {
            push_segment(&mut out, segment);
        }
    }
    out
}

/// A path with further segments, in axum's form.
pub(super) fn append(base: &str, segments: &[Seg]) -> String {
    let mut out = base.to_owned();
    for segment in segments {
        out.push('/');
        match segment {
            Seg::Lit(text) => push_segment(&mut out, text),
            Seg::Param(name) => {
                out.push('{');
                out.push_str(name);
                out.push('}');
            }
        }
    }
    if out.is_empty() {
        out.push('/');
    }
    out
}

/// Appends text as one segment, percent-encoded.
pub(super) fn push_segment(out: &mut String, text: &str) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{}", utf8_percent_encode(text, SEGMENT));
}

/// A path with parameters that are named by position, and the declared names in order.
///
/// The router refuses `/posts/{id}` together with `/posts/{slug}/feed`. With parameters named by
/// position both begin with `/posts/{p0}`. A wildcard stays a wildcard.
pub(super) fn canonical(path: &str) -> (String, Vec<String>) {
    let mut names = Vec::new();
    let mut out = String::with_capacity(path.len());
    for segment in path.split('/').skip(1) {
        out.push('/');
        match segment.strip_prefix('{').and_then(|s| s.strip_suffix('}')) {
            Some(name) if !name.starts_with('{') => {
                let star = if name.starts_with('*') { "*" } else { "" };
                // Writing to a String cannot fail.
                let _ = write!(out, "{{{star}p{}}}", names.len());
                names.push(name.trim_start_matches('*').to_owned());
            }
            _ => out.push_str(segment),
        }
    }
    (out, names)
}

/// The normal spelling of a path: only characters that need it are encoded. `None` if the path is
/// already normal.
///
/// A client that decodes a segment cannot distinguish two spellings of it, so the router and path
/// guards must not either. An encoded slash stays inside its segment.
pub(super) fn normalized(path: &str) -> Option<String> {
    if !path.as_bytes().contains(&b'%') {
        return None;
    }
    let mut out = String::with_capacity(path.len());
    for (n, segment) in path.split('/').enumerate() {
        if n > 0 {
            out.push('/');
        }
        match decode(segment) {
            // `.` and `..` stay encoded, because some clients and proxies resolve such segments.
            Some(decoded) if !matches!(&*decoded, "." | "..") => push_segment(&mut out, &decoded),
            _ => out.push_str(segment),
        }
    }
    (out != path).then_some(out)
}

/// The URI with another path and the same query.
pub(super) fn with_path(uri: &Uri, path: &str) -> Uri {
    let target = uri
        .query()
        .map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    let mut parts = uri.clone().into_parts();
    // A percent-encoded text is always a valid path. If it were not, the request would keep its own
    // path.
    parts.path_and_query = PathAndQuery::try_from(target).ok().or(parts.path_and_query);
    Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
}

/// A segment percent-decoded once; `None` when that is not UTF-8.
pub(super) fn decode(segment: &str) -> Option<Cow<'_, str>> {
    if !segment.as_bytes().contains(&b'%') {
        return Some(Cow::Borrowed(segment));
    }
    percent_decode_str(segment).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_and_segments_join() {
        assert_eq!(join("/", "posts"), "/posts");
        assert_eq!(join("/api//v1/", "blog/posts"), "/api/v1/blog/posts");
        assert_eq!(append(&join("/", ""), &[]), "/");
        assert_eq!(
            append("/posts", &[Seg::Param("id"), Seg::Lit("pub lish")]),
            "/posts/{id}/pub%20lish"
        );
    }

    #[test]
    fn parameters_are_named_by_position() {
        assert_eq!(
            canonical("/posts/{id}"),
            ("/posts/{p0}".to_owned(), vec!["id".to_owned()])
        );
        assert_eq!(
            canonical("/a/{x}/b/{*rest}"),
            (
                "/a/{p0}/b/{*p1}".to_owned(),
                vec!["x".to_owned(), "rest".to_owned()]
            )
        );
        assert_eq!(canonical("/"), ("/".to_owned(), Vec::new()));
    }

    #[test]
    fn a_path_has_one_spelling() {
        for (path, expected) in [
            ("/%70osts/by%2Dslug", Some("/posts/by-slug")),
            ("/posts/a%2fb", Some("/posts/a%2Fb")),
            ("/posts/a%2Fb", None),
            ("/posts/caf%c3%a9", Some("/posts/caf%C3%A9")),
            ("/posts/%2541", None),
            ("/posts/%ff", None),
            ("/posts/100%", Some("/posts/100%25")),
            ("/%2e%2e/posts", None),
            ("/posts/%7Bid%7D", None),
            ("/posts/%00", None),
            ("/posts", None),
        ] {
            assert_eq!(normalized(path).as_deref(), expected, "{path}");
            let once = normalized(path).unwrap_or_else(|| path.to_owned());
            assert_eq!(normalized(&once), None, "{once}");
        }
    }

    #[test]
    fn segments_are_decoded_once() {
        assert_eq!(decode("a%2Fb").as_deref(), Some("a/b"));
        assert_eq!(decode("%2541").as_deref(), Some("%41"));
        assert_eq!(decode("%ff"), None);
        assert_eq!(decode("100%").as_deref(), Some("100%"));
    }
}
