//! Where a credential stands in a request, and which one counts: the first that is there, and no
//! other.

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName};
use linchpin::axum;

use super::cookies::Cookies;

/// Goes before `Authorization`.
const USER_TOKEN: HeaderName = HeaderName::from_static("x-user-token");

/// What stands before a token in `Authorization`, in whatever case.
const BEARER: &str = "Bearer ";

/// What a request presents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credential<'a> {
    /// Nothing.
    None,
    /// Something that can authenticate nobody: a header given twice, say.
    Unusable,
    /// A token that the client put there itself.
    Header(&'a str),
    /// A token in `Authorization`, which may be that of a program.
    Bearer(&'a str),
    /// A token that a browser sent by itself, so that the request may be forged.
    Cookie(&'a str),
}

/// The credential of a request.
pub(crate) fn of<'a>(headers: &'a HeaderMap, cookies: &Cookies) -> Credential<'a> {
    match once(headers, &USER_TOKEN) {
        Once::Absent => {}
        Once::Unusable => return Credential::Unusable,
        Once::Text(token) => return Credential::Header(token.trim()),
    }
    match bearer(headers) {
        Once::Absent => {}
        Once::Unusable => return Credential::Unusable,
        Once::Text(token) => return Credential::Bearer(token),
    }
    match cookies.token(headers) {
        Once::Absent => Credential::None,
        Once::Unusable => Credential::Unusable,
        Once::Text(token) => Credential::Cookie(token),
    }
}

/// The token in `Authorization`. Another scheme is somebody else's; `Bearer` alone is ours, and
/// empty.
fn bearer(headers: &HeaderMap) -> Once<'_> {
    match once(headers, &AUTHORIZATION) {
        Once::Text(text) => match text.split_at_checked(BEARER.len()) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case(BEARER) => {
                Once::Text(token.trim())
            }
            _ if text.eq_ignore_ascii_case(BEARER.trim_end()) => Once::Unusable,
            _ => Once::Absent,
        },
        other => other,
    }
}

/// Every token that the client itself put into headers, the first of which counts: whoever leaves,
/// leaves with all of them.
pub(crate) fn of_headers(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    [once(headers, &USER_TOKEN), bearer(headers)]
        .into_iter()
        .filter_map(|found| match found {
            Once::Text(token) => Some(token.trim()),
            Once::Absent | Once::Unusable => None,
        })
}

/// A value that may be there once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Once<'a> {
    Absent,
    /// Twice, or no text.
    Unusable,
    Text(&'a str),
}

/// The one value of a header.
pub(crate) fn once<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Once<'a> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Once::Absent,
        // Not `to_str`, which looks at one byte after the other: a token has hundreds. What is no
        // ASCII is no token of ours.
        (Some(value), None) => {
            std::str::from_utf8(value.as_bytes()).map_or(Once::Unusable, Once::Text)
        }
        (Some(_), Some(_)) => Once::Unusable,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use crate::config::AuthConfig;

    #[test]
    fn the_first_that_is_there_counts() {
        use Credential::{Bearer, Cookie, Header, None, Unusable};

        let cookies = Cookies::new(&AuthConfig::default());
        type Sent<'a> = &'a [(HeaderName, &'a [u8])];
        let cases: [(Sent<'_>, Credential<'_>); 14] = [
            (&[], None),
            (&[(AUTHORIZATION, b"Bearer abc")], Bearer("abc")),
            (&[(AUTHORIZATION, b"bEARER   abc ")], Bearer("abc")),
            (&[(AUTHORIZATION, b"Bearer ")], Bearer("")),
            (&[(AUTHORIZATION, b"Bearer")], Unusable),
            // Somebody else's, even where a letter of more than one byte stands where ours would
            // end.
            (&[(AUTHORIZATION, b"Bearerabc")], None),
            (&[(AUTHORIZATION, b"Basic abc")], None),
            (&[(AUTHORIZATION, b"Bea")], None),
            (&[(AUTHORIZATION, "Bearer\u{e9}abc".as_bytes())], None),
            (&[(AUTHORIZATION, b"Bearer \xff")], Unusable),
            (
                &[
                    (AUTHORIZATION, b"Bearer abc"),
                    (AUTHORIZATION, b"Bearer abc"),
                ],
                Unusable,
            ),
            (
                &[(AUTHORIZATION, b"Bearer abc"), (USER_TOKEN, b" def ")],
                Header("def"),
            ),
            (
                &[
                    (AUTHORIZATION, b"Bearer abc"),
                    (USER_TOKEN, b"def"),
                    (USER_TOKEN, b"def"),
                ],
                Unusable,
            ),
            (
                &[
                    (AUTHORIZATION, b"Basic abc"),
                    (axum::http::header::COOKIE, b"a=b; __Host-token=abc"),
                ],
                Cookie("abc"),
            ),
        ];
        for (sent, expected) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in sent {
                headers.append(
                    name,
                    HeaderValue::from_bytes(value).expect("a value of a header"),
                );
            }
            assert_eq!(of(&headers, &cookies), expected, "{sent:?}");
        }
    }

    #[test]
    fn whoever_leaves_leaves_with_all_that_the_headers_hold() {
        type Sent<'a> = &'a [(HeaderName, &'a str)];
        let cases: [(Sent<'_>, &[&str]); 6] = [
            (&[], &[]),
            (
                &[(USER_TOKEN, " abc "), (AUTHORIZATION, "bearer  def")],
                &["abc", "def"],
            ),
            (
                &[
                    (USER_TOKEN, "abc"),
                    (USER_TOKEN, "abc"),
                    (AUTHORIZATION, "Bearer def"),
                ],
                &["def"],
            ),
            (
                &[
                    (USER_TOKEN, "abc"),
                    (AUTHORIZATION, "Bearer def"),
                    (AUTHORIZATION, "Bearer def"),
                ],
                &["abc"],
            ),
            (&[(AUTHORIZATION, "Basic abc")], &[]),
            (&[(AUTHORIZATION, "Bearer")], &[]),
        ];
        for (sent, expected) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in sent {
                headers.append(
                    name,
                    HeaderValue::from_str(value).expect("a value of a header"),
                );
            }
            assert_eq!(
                of_headers(&headers).collect::<Vec<_>>(),
                expected,
                "{sent:?}"
            );
        }
    }
}
