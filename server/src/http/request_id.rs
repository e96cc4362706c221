//! The id of a request in its response and in the log.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;

/// `x-request-id`
pub(super) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// A request's id: the value of the header `x-request-id` if it is well formed, otherwise a new
/// uuid v7.
///
/// Handlers of extra and plugin routes find it in the request's extensions.
#[derive(Clone, Debug)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// The id of a request with these headers.
    pub fn of(headers: &HeaderMap) -> Self {
        match headers.get(HEADER) {
            Some(value) if is_valid(value.as_bytes()) => Self(value.clone()),
            _ => Self::generate(),
        }
    }

    pub(super) fn generate() -> Self {
        let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
        uuid::Uuid::now_v7().as_hyphenated().encode_lower(&mut text);
        let value = HeaderValue::from_maybe_shared(Bytes::copy_from_slice(&text));
        // Hex digits and hyphens are always a valid header value.
        Self(value.unwrap_or_else(|_| HeaderValue::from_static("")))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        // Both sources are visible ASCII.
        self.0.to_str().unwrap_or_default()
    }

    pub(super) fn header(&self) -> HeaderValue {
        self.0.clone()
    }

    pub(super) fn shared(&self) -> Arc<str> {
        self.as_str().into()
    }
}

fn is_valid(id: &[u8]) -> bool {
    (8..=128).contains(&id.len())
        && id
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(inbound: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, HeaderValue::from_str(inbound).unwrap());
        RequestId::of(&headers).as_str().to_owned()
    }

    #[test]
    fn well_formed_ids_are_echoed_and_others_replaced() {
        assert_eq!(of("abc.DEF_1-2"), "abc.DEF_1-2");
        assert_eq!(of(&"a".repeat(128)).len(), 128);
        for bad in [
            "",
            "short7c",
            &"a".repeat(129),
            "spaces in it",
            "semi;colon",
        ] {
            let generated = of(bad);
            assert_eq!(
                (
                    generated.len(),
                    uuid::Uuid::parse_str(&generated).map(|u| u.get_version_num())
                ),
                (36, Ok(7)),
                "{bad}"
            );
        }
    }
}
