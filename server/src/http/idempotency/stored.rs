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

/// The maximum length of a stored body, in bytes: longer than any record that a body of the default
/// size limit can contain.
const MAX_BODY: u64 = 2 << 20;

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
    /// `None` if it was too long, or its length was unknown. Then the call is complete, but its
    /// response cannot be replayed.
    body: Option<Bytes>,
}

/// Whether a response completes the call. After any other response, the next attempt is a first
/// call.
pub(super) fn is_final(status: StatusCode) -> bool {
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
    /// If reading its body fails.
    pub(super) async fn of(
        response: Response<Body>,
        request: &str,
    ) -> Result<(Self, Response<Body>)> {
        if let Some(Raised(error)) = response.extensions().get::<Raised>() {
            let stored_response = Self::of_error(error, request).await?;
            return Ok((stored_response, response));
        }
        let (parts, body) = response.into_parts();
        let copied = |name: &HeaderName| Some((name.clone(), parts.headers.get(name)?.clone()));
        let headers = HEADERS.iter().filter_map(copied).collect();
        // A body that is produced while it is sent has no known length, and this function must not
        // wait for its end.
        if body
            .size_hint()
            .exact()
            .is_none_or(|length| length > MAX_BODY)
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
        let stored_response = Self {
            status: parts.status,
            headers,
            body: Some(bytes.clone()),
        };
        Ok((
            stored_response,
            Response::from_parts(parts, Body::from(bytes)),
        ))
    }

    /// The stored part of an error response.
    ///
    /// # Errors
    /// Never: an error response has its whole body in memory.
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

    /// The stored response of a claim's record.
    ///
    /// # Errors
    /// `internal` if the record has another form, because other code has written to it.
    pub(super) fn stored(status: i64, headers: &str, body: &Value) -> Result<Self> {
        let broken = || {
            Error::internal(
                "the response stored under an idempotency key cannot be read; other code has written to the table",
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
        // Pairs of texts can always be written as JSON.
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

    /// Returns the stored response.
    ///
    /// # Errors
    /// `idempotency_conflict` when the body was not kept: the call took effect and must not do so
    /// again.
    pub(super) fn replay(self) -> Result<Response<Body>> {
        let Some(body) = self.body else {
            let text = "A request with this idempotency key has been processed, but its response was too long to be stored";
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
    async fn a_stored_response_is_replayed_unchanged() {
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
        let (stored_response, answer) = StoredResponse::of(answer, "r").await.unwrap();
        assert_eq!(answer.headers()["set-cookie"], "session=secret");
        assert_eq!(
            answer.into_body().collect().await.unwrap().to_bytes(),
            vec![0, 255, b'"']
        );
        let (status, headers, body) = stored_response.values();
        let (Value::Int(status), Value::Text(headers)) = (status, headers) else {
            panic!("a number and a text")
        };
        let replayed = StoredResponse::stored(status, &headers, &body)
            .unwrap()
            .replay()
            .unwrap();
        assert_eq!(replayed.status(), 201);
        let mut names: Vec<&str> = replayed.headers().keys().map(HeaderName::as_str).collect();
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
        assert_eq!(replayed.headers()["location"], "/posts/%C3%A4");
        assert_eq!(
            replayed.into_body().collect().await.unwrap().to_bytes(),
            vec![0, 255, b'"']
        );
    }

    #[tokio::test]
    async fn endless_and_too_long_responses_are_not_stored() {
        let endless =
            futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(b"x")));
        let long = Body::from(vec![b'x'; usize::try_from(MAX_BODY).unwrap() + 1]);
        for body in [Body::from_stream(endless), long] {
            let (stored_response, _) = StoredResponse::of(Response::new(body), "r").await.unwrap();
            assert_eq!(
                stored_response.replay().unwrap_err().code(),
                Code::IdempotencyConflict
            );
        }
        let (stored_response, _) = StoredResponse::of(Response::new(Body::empty()), "r")
            .await
            .unwrap();
        assert_eq!(stored_response.replay().unwrap().status(), 200);
    }

    #[test]
    fn temporary_refusals_are_not_stored() {
        for (status, expected) in [
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
                is_final(StatusCode::from_u16(status).unwrap()),
                expected,
                "{status}"
            );
        }
        for status in [429, 500, 503, 504] {
            assert!(!is_final(StatusCode::from_u16(status).unwrap()), "{status}");
        }
    }
}
