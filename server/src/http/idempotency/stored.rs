//! The stored response of a call, and its replay.

use axum::body::{Body, HttpBody};
use axum::http::header::{CONTENT_TYPE, ETAG, LOCATION};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::BodyExt;

use crate::http::once::REPLAYED;
use crate::http::response::{self, Raised};
use crate::{Code, Error, Result, Value};

/// Longest body that is kept, in bytes: more than any record within the usual limit of a body
/// needs.
const LONGEST: u64 = 2 << 20;

/// The headers that are stored and replayed. Headers of the connection and of the request belong to
/// one response only.
const HEADERS: [HeaderName; 4] = [
    CONTENT_TYPE,
    LOCATION,
    ETAG,
    HeaderName::from_static("x-event-id"),
];

/// A response that can be replayed.
#[derive(Debug)]
pub(super) struct StoredResponse {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// `None` if it was too long, or its length was unknown. Then it is known that the call
    /// succeeded, but not with which response.
    body: Option<Bytes>,
}

/// Whether a response completes the call. After any other response, the next attempt is a first
/// call.
pub(super) fn settles(status: StatusCode) -> bool {
    !status.is_server_error()
        && !matches!(
            status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS
        )
}

impl StoredResponse {
    /// The stored part of a response, and the response itself.
    ///
    /// # Errors
    /// When its body breaks off.
    pub(super) async fn of(
        response: Response<Body>,
        request: &str,
    ) -> Result<(Self, Response<Body>)> {
        if let Some(Raised(error)) = response.extensions().get::<Raised>() {
            let kept = Self::of_error(error, request).await?;
            return Ok((kept, response));
        }
        let (parts, body) = response.into_parts();
        let copied = |name: &HeaderName| Some((name.clone(), parts.headers.get(name)?.clone()));
        let headers = HEADERS.iter().filter_map(copied).collect();
        // A body that is produced while it is sent has no known length, and this function must not
        // wait for its end.
        if body
            .size_hint()
            .exact()
            .is_none_or(|length| length > LONGEST)
        {
            return Ok((
                Self {
                    status: parts.status,
                    headers,
                    body: None,
                },
                Response::from_parts(parts, body),
            ));
        }
        let bytes = body.collect().await.map_err(Error::internal)?.to_bytes();
        let kept = Self {
            status: parts.status,
            headers,
            body: Some(bytes.clone()),
        };
        Ok((kept, Response::from_parts(parts, Body::from(bytes))))
    }

    /// The stored part of an error response.
    ///
    /// # Errors
    /// None that can be.
    pub(super) async fn of_error(error: &Error, request: &str) -> Result<Self> {
        let (parts, body) = response::error(error, request).into_parts();
        let headers = parts
            .headers
            .get(CONTENT_TYPE)
            .map(|value| (CONTENT_TYPE, value.clone()))
            .into_iter()
            .collect();
        let body = body.collect().await.map_err(Error::internal)?.to_bytes();
        Ok(Self {
            status: parts.status,
            headers,
            body: Some(body),
        })
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// The answer of a record.
    ///
    /// # Errors
    /// When something else has written to the record.
    pub(super) fn stored(status: i64, headers: &str, body: &Value) -> Result<Self> {
        let broken = || {
            Error::internal(
                "the answer kept under an idempotency key cannot be read; something else has written to it",
            )
        };
        let status = u16::try_from(status)
            .ok()
            .and_then(|status| StatusCode::from_u16(status).ok())
            .ok_or_else(broken)?;
        let headers: Vec<(String, String)> = serde_json::from_str(headers).map_err(|_| broken())?;
        let header = |(name, value): &(String, String)| {
            Some((
                HeaderName::try_from(name).ok()?,
                HeaderValue::try_from(value).ok()?,
            ))
        };
        let headers = headers
            .iter()
            .map(header)
            .collect::<Option<_>>()
            .ok_or_else(broken)?;
        let body = match body {
            Value::Text(text) => Some(STANDARD.decode(text).map_err(|_| broken())?.into()),
            _ => None,
        };
        Ok(Self {
            status,
            headers,
            body,
        })
    }

    /// Status, headers and body as fields of the record.
    pub(super) fn values(&self) -> (Value, Value, Value) {
        // Only visible ASCII can be stored as text. All headers of the framework are visible ASCII.
        let headers: Vec<(&str, &str)> = self
            .headers
            .iter()
            .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
            .collect();
        // Pairs of texts are JSON always.
        let headers = serde_json::to_string(&headers).unwrap_or_default();
        let body = self
            .body
            .as_ref()
            .map_or(Value::Null, |bytes| Value::Text(STANDARD.encode(bytes)));
        (
            Value::Int(self.status.as_u16().into()),
            Value::Text(headers),
            body,
        )
    }

    /// The answer again.
    ///
    /// # Errors
    /// `idempotency_conflict` when the body was not kept: the call took effect and must not do so
    /// again.
    pub(super) fn replay(self) -> Result<Response<Body>> {
        let Some(body) = self.body else {
            let text = "A request with this idempotency key has been answered; its answer was too long to be kept";
            return Err(Error::new(Code::IdempotencyConflict, text));
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status;
        response.headers_mut().extend(self.headers);
        response
            .headers_mut()
            .insert(REPLAYED, HeaderValue::from_static("true"));
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_is_given_again_as_it_was() {
        let answer = Response::builder()
            .status(201)
            .header("content-type", "text/plain; charset=\"x\"")
            .header("location", "/posts/%C3%A4")
            .header("etag", "\"1\"")
            .header("x-event-id", "e")
            .header("set-cookie", "session=secret")
            .header("x-request-id", "r")
            .body(Body::from(vec![0, 255, b'"']))
            .unwrap();
        let (kept, answer) = StoredResponse::of(answer, "r").await.unwrap();
        assert_eq!(answer.headers()["set-cookie"], "session=secret");
        assert_eq!(
            answer.into_body().collect().await.unwrap().to_bytes(),
            vec![0, 255, b'"']
        );
        let (status, headers, body) = kept.values();
        let (Value::Int(status), Value::Text(headers)) = (status, headers) else {
            panic!("a number and a text")
        };
        let again = StoredResponse::stored(status, &headers, &body)
            .unwrap()
            .replay()
            .unwrap();
        assert_eq!(again.status(), 201);
        let mut names: Vec<&str> = again.headers().keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "content-type",
                "etag",
                "idempotency-replayed",
                "location",
                "x-event-id"
            ]
        );
        assert_eq!(again.headers()["location"], "/posts/%C3%A4");
        assert_eq!(
            again.into_body().collect().await.unwrap().to_bytes(),
            vec![0, 255, b'"']
        );
    }

    #[tokio::test]
    async fn what_has_no_end_or_is_too_long_is_not_kept() {
        let endless =
            futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(b"x")));
        let long = Body::from(vec![b'x'; usize::try_from(LONGEST).unwrap() + 1]);
        for body in [Body::from_stream(endless), long] {
            let (kept, _) = StoredResponse::of(Response::new(body), "r").await.unwrap();
            assert_eq!(kept.replay().unwrap_err().code(), Code::IdempotencyConflict);
        }
        let (kept, _) = StoredResponse::of(Response::new(Body::empty()), "r")
            .await
            .unwrap();
        assert_eq!(kept.replay().unwrap().status(), 200);
    }

    #[test]
    fn refusals_that_may_pass_are_not_kept() {
        for (status, keeps) in [
            (200, true),
            (204, true),
            (303, true),
            (400, true),
            (404, true),
            (409, true),
            (401, false),
            (403, false),
        ] {
            assert_eq!(
                settles(StatusCode::from_u16(status).unwrap()),
                keeps,
                "{status}"
            );
        }
        for status in [429, 500, 503, 504] {
            assert!(!settles(StatusCode::from_u16(status).unwrap()), "{status}");
        }
    }
}
