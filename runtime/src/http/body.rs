//! Request bodies: bounded while they stream, and JSON or nothing.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use bytes::Bytes;
use http_body_util::BodyExt;

use crate::{Code, Error, Result};

/// Most bytes read from a body whose request is refused anyway.
const DRAINED: usize = 4 << 20;
/// Longest time for that.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reads a body of at most `max` bytes.
///
/// A declared length beyond `max` is refused before a byte is kept.
///
/// # Errors
/// `body_too_large`; `malformed_json` when the client stopped sending.
pub(super) async fn read(mut body: Body, max: u64) -> Result<Bytes> {
    if body.size_hint().lower() > max {
        drain(&mut body).await;
        return Err(too_large());
    }
    let mut first = Bytes::new();
    let mut rest: Vec<u8> = Vec::new();
    while !body.is_end_stream() {
        let Some(frame) = body.frame().await else { break };
        let frame = frame.map_err(|_| Error::new(Code::MalformedJson, "The body ended early"))?;
        let Ok(data) = frame.into_data() else { continue };
        if (first.len() + rest.len() + data.len()) as u64 > max {
            drain(&mut body).await;
            return Err(too_large());
        }
        // Nearly every body is one chunk, which is kept as it came.
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&data);
        }
    }
    if rest.is_empty() {
        return Ok(first);
    }
    rest.splice(..0, first.iter().copied());
    Ok(rest.into())
}

/// Reads on for a while and keeps nothing, for a request that is refused.
///
/// A connection that is closed while its client still sends is reset, and the client never sees the answer that tells why.
/// Bounded: who sends more, or slowly, has itself to blame.
pub(super) async fn drain(body: &mut Body) {
    let rest = async {
        let mut seen = 0;
        while seen < DRAINED {
            let Some(Ok(frame)) = body.frame().await else { return };
            seen += frame.data_ref().map_or(0, Bytes::len);
        }
    };
    drop(tokio::time::timeout(PATIENCE, rest).await);
}

pub(super) fn too_large() -> Error {
    Error::new(Code::BodyTooLarge, "The body is too large")
}

/// Checks that a body is declared as JSON.
///
/// # Errors
/// `unsupported_media_type`.
pub(super) fn check_type(headers: &HeaderMap) -> Result<()> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let value = values.next().map(axum::http::HeaderValue::as_bytes);
    let json = match value {
        Some(b"application/json") => true,
        Some(other) => std::str::from_utf8(other).is_ok_and(is_json),
        None => false,
    };
    if json && values.next().is_none() {
        return Ok(());
    }
    Err(Error::new(Code::UnsupportedMediaType, "The body must be application/json"))
}

/// Whether a media type is JSON in UTF-8; parameters other than the charset do not count.
fn is_json(value: &str) -> bool {
    let mut parts = value.split(';');
    let essence = parts.next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
        && parts.all(|parameter| match parameter.split_once('=') {
            Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
                value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
            }
            _ => true,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_in_utf8_only() {
        for good in ["application/json", "Application/JSON", "application/json; charset=utf-8", "application/json;charset=\"UTF-8\"; x=y"] {
            assert!(is_json(good), "{good}");
        }
        for bad in ["", "text/plain", "application/jsonp", "application/json; charset=latin1", "application/vnd.api+json"] {
            assert!(!is_json(bad), "{bad}");
        }
    }

    #[tokio::test]
    async fn bodies_are_bounded_whatever_they_declare() {
        let chunks = |count: usize| {
            let stream = futures_util::stream::iter((0..count).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"12345678"))));
            Body::from_stream(stream)
        };
        assert_eq!(read(chunks(3), 24).await.unwrap(), "123456781234567812345678");
        assert_eq!(read(chunks(4), 24).await.unwrap_err().code(), Code::BodyTooLarge);
        assert_eq!(read(Body::from("12345"), 4).await.unwrap_err().code(), Code::BodyTooLarge);
        assert_eq!(read(Body::empty(), 0).await.unwrap(), "");
        let broken = Body::from_stream(futures_util::stream::iter([Err::<Bytes, _>(std::io::Error::other("gone"))]));
        assert_eq!(read(broken, 4).await.unwrap_err().code(), Code::MalformedJson);
    }
}
