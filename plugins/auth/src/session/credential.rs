//! The credential of a request: the first of several places that has one.

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName};
use linchpin::axum;

use super::cookies::Cookies;

/// Has priority over `Authorization`.
const USER_TOKEN: HeaderName = HeaderName::from_static("x-user-token");

/// The scheme in `Authorization`, in any case.
const BEARER: &str = "Bearer ";

/// The credential of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credential<'a> {
    /// No credential.
    None,
    /// An invalid credential, such as a header that was sent twice.
    Unusable,
    /// A token in the header `x-user-token`.
    Header(&'a str),
    /// A token in `Authorization`, of a user or a program.
    Bearer(&'a str),
    /// A token in a cookie, which browsers send by themselves, so the request may be forged.
    Cookie(&'a str),
}

/// Returns the credential of a request.
pub(crate) fn of<'a>(headers: &'a HeaderMap, cookies: &Cookies) -> Credential<'a> {
    match single_value(headers, &USER_TOKEN) {
        SingleValue::Absent => {}
        SingleValue::Unusable => return Credential::Unusable,
        SingleValue::Text(token) => return Credential::Header(token.trim()),
    }
    match bearer(headers) {
        SingleValue::Absent => {}
        SingleValue::Unusable => return Credential::Unusable,
        SingleValue::Text(token) => return Credential::Bearer(token),
    }
    match cookies.token(headers) {
        SingleValue::Absent => Credential::None,
        SingleValue::Unusable => Credential::Unusable,
        SingleValue::Text(token) => Credential::Cookie(token),
    }
}

/// The token in `Authorization`. Other schemes are ignored. `Bearer` and a space without a token
/// is an empty token; `Bearer` alone is unusable.
fn bearer(headers: &HeaderMap) -> SingleValue<'_> {
    match single_value(headers, &AUTHORIZATION) {
        SingleValue::Text(text) => match text.split_at_checked(BEARER.len()) {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case(BEARER) => {
                SingleValue::Text(token.trim())
            }
            _ if text.eq_ignore_ascii_case(BEARER.trim_end()) => SingleValue::Unusable,
            _ => SingleValue::Absent,
        },
        other => other,
    }
}

/// Whether a header other than `Cookie` has a credential, usable or not.
pub(crate) fn in_headers(headers: &HeaderMap) -> bool {
    single_value(headers, &USER_TOKEN) != SingleValue::Absent
        || bearer(headers) != SingleValue::Absent
}

/// All tokens in headers. Signing out ends the sessions of all of them.
pub(crate) fn of_headers(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    [single_value(headers, &USER_TOKEN), bearer(headers)]
        .into_iter()
        .filter_map(|found| match found {
            SingleValue::Text(token) => Some(token.trim()),
            SingleValue::Absent | SingleValue::Unusable => None,
        })
}

/// A value that may be sent once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SingleValue<'a> {
    Absent,
    /// It was sent twice, or is not text.
    Unusable,
    Text(&'a str),
}

/// The value of a header that may be sent once.
pub(crate) fn single_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> SingleValue<'a> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => SingleValue::Absent,
        // `to_str` checks one byte at a time, which is slow for tokens with hundreds of bytes. A
        // value that is not ASCII is not a token.
        (Some(value), None) => {
            std::str::from_utf8(value.as_bytes()).map_or(SingleValue::Unusable, SingleValue::Text)
        }
        (Some(_), Some(_)) => SingleValue::Unusable,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use crate::config::AuthConfig;

    #[test]
    fn the_first_credential_is_used() {
        use Credential::{Bearer, Cookie, Header, None, Unusable};

        let cookies = Cookies::new(&AuthConfig::default());
        type Sent<'a> = &'a [(HeaderName, &'a [u8])];
        let cases: [(Sent<'_>, Credential<'_>); 14] = [
            (&[], None),
            (&[(AUTHORIZATION, b"Bearer abc")], Bearer("abc")),
            (&[(AUTHORIZATION, b"bEARER   abc ")], Bearer("abc")),
            (&[(AUTHORIZATION, b"Bearer ")], Bearer("")),
            (&[(AUTHORIZATION, b"Bearer")], Unusable),
            // Another scheme, even if the byte after its prefix is part of a character.
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
    fn a_logout_ends_all_sessions_in_the_headers() {
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
