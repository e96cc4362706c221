//! Request bodies. The size is limited while the body streams. A body is JSON, unless the route
//! accepts a form or reads the body itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use bytes::Bytes;
use http_body_util::BodyExt;

use crate::{Code, Error, Result};

/// The maximum number of bytes that are read from the body of a refused request.
const MAX_DRAINED: usize = 4 << 20;
/// The time limit for reading the body of a refused request.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// The message for a body that arrives too slowly.
const LATE_MESSAGE: &str = "The body did not arrive in time";
/// The maximum length in bytes of a body that does not count for the memory limit of all bodies:
/// about the size of the buffers of a connection.
const UNCOUNTED: usize = 16 << 10;

/// The remaining number of bytes for the bodies of all current requests together.
#[derive(Clone, Debug)]
pub(super) struct BodyMemory(Arc<AtomicU64>);

impl BodyMemory {
    pub(super) fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }
}

/// The bytes that one body occupies, until it is dropped.
struct Reserved {
    body_memory: BodyMemory,
    bytes: u64,
}

impl Reserved {
    /// Reserves memory up to `bytes`.
    ///
    /// # Errors
    /// `unavailable` if there is not enough memory left.
    fn reserve(&mut self, bytes: usize) -> Result<()> {
        let bytes = bytes as u64;
        let more = bytes.saturating_sub(self.bytes);
        if bytes <= UNCOUNTED as u64 || more == 0 {
            return Ok(());
        }
        self.body_memory
            .0
            .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(more))
            .map_err(|_| {
                Error::unavailable("the bodies of other requests use all memory for bodies")
            })?;
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.body_memory.0.fetch_add(self.bytes, Relaxed);
    }
}

/// The bytes of a body, and the memory that is reserved for them.
struct Counted<T> {
    bytes: T,
    _reserved: Reserved,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Counted<T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

/// Reads a body of at most `max` bytes.
///
/// A body with a declared length above `max` is refused before a byte is stored. Memory is reserved
/// as data arrives, not by the declared length.
///
/// # Errors
/// `body_too_large`; `malformed_json` when the client stopped sending; `unavailable` when other
/// bodies leave no memory; `timeout` when reading takes longer than `limit`.
pub(super) async fn read(
    body: Body,
    max: u64,
    limit: Duration,
    body_memory: &BodyMemory,
) -> Result<Bytes> {
    tokio::time::timeout(limit, read_whole(body, max, body_memory))
        .await
        .map_err(|_| Error::new(Code::Timeout, LATE_MESSAGE))?
}

/// Whether a request failed because its client took too long to send the body.
pub(super) fn is_late(error: &Error) -> bool {
    error.code() == Code::Timeout && error.message() == LATE_MESSAGE
}

async fn read_whole(mut body: Body, max: u64, body_memory: &BodyMemory) -> Result<Bytes> {
    let declared = body.size_hint();
    if declared.lower() > max {
        drain(&mut body).await;
        return Err(Error::too_large(Some(max)));
    }
    let longest =
        usize::try_from(declared.upper().map_or(max, |upper| upper.min(max))).unwrap_or(usize::MAX);
    let mut reserved = Reserved {
        body_memory: body_memory.clone(),
        bytes: 0,
    };
    let mut first = Bytes::new();
    let mut all: Vec<u8> = Vec::new();
    while !body.is_end_stream() {
        let Some(frame) = body.frame().await else {
            break;
        };
        let frame = frame.map_err(|_| Error::new(Code::MalformedJson, "The body ended early"))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let length = first.len() + all.len() + data.len();
        if length as u64 > max {
            // Other requests may need this memory while the rest of the body arrives.
            drop((first, all, data, reserved));
            drain(&mut body).await;
            return Err(Error::too_large(Some(max)));
        }
        // Nearly every body is one chunk, which is used without a copy.
        let grown = if length == data.len() || length <= all.capacity() {
            length
        } else {
            length.max((length * 2).min(longest))
        };
        if let Err(full) = reserved.reserve(grown) {
            drop((first, all, data, reserved));
            drain(&mut body).await;
            return Err(full);
        }
        if length == data.len() {
            first = data;
            continue;
        }
        all.reserve_exact(grown.saturating_sub(all.len()));
        all.extend_from_slice(&std::mem::take(&mut first));
        all.extend_from_slice(&data);
    }
    Ok(match (all.is_empty(), reserved.bytes > 0) {
        (true, false) => first,
        (true, true) => Bytes::from_owner(Counted {
            bytes: first,
            _reserved: reserved,
        }),
        (false, false) => all.into(),
        (false, true) => Bytes::from_owner(Counted {
            bytes: all,
            _reserved: reserved,
        }),
    })
}

/// Reads and discards the rest of a refused request for a limited time.
///
/// If the server closes a connection while the client still sends, the connection is reset and the
/// client never sees the response. Time and size are limited: a client that sends more, or slowly,
/// loses the response.
pub(super) async fn drain(body: &mut Body) {
    let rest = async {
        let mut seen = 0;
        while seen < MAX_DRAINED {
            let Some(Ok(frame)) = body.frame().await else {
                return;
            };
            seen += frame.data_ref().map_or(0, Bytes::len);
        }
    };
    drop(tokio::time::timeout(DRAIN_TIMEOUT, rest).await);
}

/// Checks that the content type is JSON and that the body has no content coding.
///
/// # Errors
/// `unsupported_media_type`.
pub(super) fn check_type(headers: &HeaderMap) -> Result<()> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let value = values.next().map(HeaderValue::as_bytes);
    let json = match value {
        Some(b"application/json") => true,
        Some(other) => std::str::from_utf8(other).is_ok_and(is_json),
        None => false,
    };
    let plain = |coding: &HeaderValue| {
        coding
            .as_bytes()
            .trim_ascii()
            .eq_ignore_ascii_case(b"identity")
    };
    if !headers.get_all(CONTENT_ENCODING).iter().all(plain) {
        return Err(Error::new(
            Code::UnsupportedMediaType,
            "The body must not be compressed or encoded",
        ));
    }
    if json && values.next().is_none() {
        return Ok(());
    }
    Err(Error::new(
        Code::UnsupportedMediaType,
        "The body must be application/json",
    ))
}

/// Checks that a body is declared as a form, if there is one.
///
/// # Errors
/// `unsupported_media_type`.
pub(super) fn check_form(headers: &HeaderMap, bytes: &[u8]) -> Result<()> {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let essence = values
        .next()
        .and_then(|value| value.to_str().ok())
        .map(|value| value.split(';').next().unwrap_or_default().trim());
    let form = essence
        .is_some_and(|essence| essence.eq_ignore_ascii_case("application/x-www-form-urlencoded"));
    if bytes.is_empty()
        || form && values.next().is_none() && !headers.contains_key(CONTENT_ENCODING)
    {
        return Ok(());
    }
    Err(Error::new(
        Code::UnsupportedMediaType,
        "The body must be application/x-www-form-urlencoded",
    ))
}

/// Whether a media type is JSON in UTF-8; parameters other than `charset` are ignored.
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
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn only_json_in_utf8_is_accepted() {
        for good in [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json;charset=\"UTF-8\"; x=y",
        ] {
            assert!(is_json(good), "{good}");
        }
        for bad in [
            "",
            "text/plain",
            "application/jsonp",
            "application/json; charset=latin1",
            "application/vnd.api+json",
        ] {
            assert!(!is_json(bad), "{bad}");
        }
    }

    fn chunks(count: usize) -> Body {
        let stream = futures_util::stream::iter(
            (0..count).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"12345678"))),
        );
        Body::from_stream(stream)
    }

    #[tokio::test(start_paused = true)]
    async fn a_slowly_sent_body_times_out() {
        let drips = futures_util::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b"x")), ()))
        });
        let (body_memory, limit) = (BodyMemory::new(1 << 20), Duration::from_secs(30));
        let error = read(Body::from_stream(drips), 1 << 20, limit, &body_memory)
            .await
            .unwrap_err();
        assert!(error.code() == Code::Timeout && is_late(&error));
        assert!(!is_late(&Error::new(
            Code::Timeout,
            "The request took too long"
        )));
    }

    #[tokio::test]
    async fn the_total_size_of_all_bodies_is_limited() {
        let body_memory = BodyMemory::new(40 << 10);
        let left = || body_memory.0.load(Relaxed) >> 10;
        // In one chunk, in many chunks, and small enough not to count.
        let one = read(
            Body::from(vec![b'x'; 20 << 10]),
            1 << 20,
            Duration::from_secs(1),
            &body_memory,
        )
        .await
        .unwrap();
        assert_eq!((one.len(), left()), (20 << 10, 20));
        let refused = read(
            chunks(3 << 10),
            1 << 20,
            Duration::from_secs(1),
            &body_memory,
        )
        .await
        .unwrap_err();
        assert_eq!(
            (refused.code(), refused.retry_after_seconds(), left()),
            (Code::Unavailable, Some(1), 20)
        );
        let small = read(
            chunks(1 << 10),
            1 << 20,
            Duration::from_secs(1),
            &body_memory,
        )
        .await
        .unwrap();
        assert_eq!((small.len(), left()), (8 << 10, 20));
        drop(one);
        assert_eq!(left(), 40);
        let many = read(
            chunks(3 << 10),
            24 << 10,
            Duration::from_secs(1),
            &body_memory,
        )
        .await
        .unwrap();
        assert_eq!((many.len(), left()), (24 << 10, 16));
        drop(many);
        // A body that fails releases its memory.
        let broken = futures_util::stream::iter([
            Ok(Bytes::from(vec![0; 30 << 10])),
            Err(std::io::Error::other("gone")),
        ]);
        assert_eq!(
            read(
                Body::from_stream(broken),
                1 << 20,
                Duration::from_secs(1),
                &body_memory
            )
            .await
            .unwrap_err()
            .code(),
            Code::MalformedJson
        );
        assert_eq!(left(), 40);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_body_frees_its_memory_while_its_rest_arrives() {
        let whole = 100 << 10;
        for max in [1 << 20, 80 << 10] {
            let body_memory = BodyMemory::new(whole);
            let (send, arriving) = tokio::sync::mpsc::unbounded_channel();
            let body = futures_util::stream::unfold(arriving, |mut arriving| async {
                let chunk: Bytes = arriving.recv().await?;
                Some((Ok::<_, std::io::Error>(chunk), arriving))
            });
            let limit = Duration::from_secs(30);
            let mut reading = Box::pin(read(Body::from_stream(body), max, limit, &body_memory));
            for _ in 0..2 {
                send.send(Bytes::from(vec![b'x'; 60 << 10])).unwrap();
            }
            // The reader waits for the rest.
            assert!(reading.as_mut().now_or_never().is_none());
            assert_eq!(
                body_memory.0.load(Relaxed),
                whole,
                "with at most {max} bytes"
            );
            drop(send);
            assert!(reading.await.is_err());
        }
    }

    #[tokio::test]
    async fn a_body_above_the_limit_is_refused_whatever_length_it_declares() {
        let body_memory = BodyMemory::new(1 << 20);
        let read = |body, max| read(body, max, Duration::from_secs(1), &body_memory);
        assert_eq!(
            read(chunks(3), 24).await.unwrap(),
            "123456781234567812345678"
        );
        let large = read(chunks(4), 24).await.unwrap_err();
        assert_eq!(
            (large.code(), large.message()),
            (
                Code::BodyTooLarge,
                "The body is too large: at most 24 bytes are allowed"
            )
        );
        assert_eq!(
            read(Body::from("12345"), 4).await.unwrap_err().code(),
            Code::BodyTooLarge
        );
        assert_eq!(read(Body::empty(), 0).await.unwrap(), "");
        let broken = Body::from_stream(futures_util::stream::iter([Err::<Bytes, _>(
            std::io::Error::other("gone"),
        )]));
        assert_eq!(
            read(broken, 4).await.unwrap_err().code(),
            Code::MalformedJson
        );
    }
}
