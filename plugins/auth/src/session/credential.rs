//! Where a credential stands in a request, and which one counts: the first that is there, and no other.

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName};
use linchpin::axum;

use super::cookies::Cookies;

/// Goes before `Authorization`.
pub(crate) const USER_TOKEN: HeaderName = HeaderName::from_static("x-user-token");

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
    match once(headers, &AUTHORIZATION) {
        Once::Absent => {}
        Once::Unusable => return Credential::Unusable,
        Once::Text(text) => {
            if let Some((scheme, token)) = text.split_once(' ')
                && scheme.eq_ignore_ascii_case("bearer")
            {
                return Credential::Bearer(token.trim());
            }
            // Another scheme is somebody else's; `Bearer` alone is ours, and empty.
            if text.eq_ignore_ascii_case("bearer") {
                return Credential::Unusable;
            }
        }
    }
    match cookies.token(headers) {
        Once::Absent => Credential::None,
        Once::Unusable => Credential::Unusable,
        Once::Text(token) => Credential::Cookie(token),
    }
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
        (Some(value), None) => value.to_str().map_or(Once::Unusable, Once::Text),
        (Some(_), Some(_)) => Once::Unusable,
    }
}
