//! One request: its headers, its signature, and its result.

use std::time::{Duration, Instant};

use linchpin::Timestamp;
use linchpin_safe_client::{Failure, Outgoing, Phase, Reply, SafeClient};
use serde_json::{Map, Value as Json};

use crate::entity::{ErrorKind, WebhookEndpoint};
use crate::secrets::Secrets;
use crate::signature::{sign, sign_compat};

/// The maximum number of characters of a response body that are stored.
const MAX_BODY: usize = 4_096;
/// The maximum number of response headers that are stored, and the maximum length of each in bytes.
const MAX_HEADERS: usize = 20;
const MAX_HEADER_LENGTH: usize = 256;
/// The maximum pause that a response can request with `retry-after`.
const MAX_HOLD: Duration = Duration::from_hours(24);

/// The response header that ends a delivery.
const CONTROL: &str = "webhook-delivery";

/// The content of a request.
pub(crate) struct Content<'a> {
    /// The id of the message.
    pub(crate) message: &'a str,
    pub(crate) event: &'a str,
    pub(crate) event_id: &'a str,
    pub(crate) occurred_at: Timestamp,
    pub(crate) body: &'a str,
    pub(crate) truncated: bool,
    /// The id of the delivery.
    pub(crate) delivery: &'a str,
    /// The number of the attempt, from 1.
    pub(crate) number: i64,
    pub(crate) is_test: bool,
}

/// Sends requests to endpoints.
pub(crate) struct Sender {
    pub(crate) client: SafeClient,
    pub(crate) compat_headers: bool,
    /// Whether the IP address of the connection is stored with an attempt.
    pub(crate) show_addresses: bool,
}

/// A finished attempt.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) started_at: Timestamp,
    pub(crate) duration: Duration,
    pub(crate) url: String,
    /// The IP address of the connection, if `show_addresses` is set.
    pub(crate) address: Option<String>,
    pub(crate) status: Option<u16>,
    pub(crate) error: Option<(ErrorKind, String)>,
    pub(crate) headers: Json,
    pub(crate) body: Option<String>,
    /// The pause that the response requests with `retry-after`.
    pub(crate) hold: Option<Duration>,
    /// Whether the response ends the delivery.
    pub(crate) aborts: bool,
}

impl Attempt {
    /// Whether the endpoint has accepted the message (2xx).
    pub(crate) fn is_success(&self) -> bool {
        self.error.is_none()
    }

    pub(crate) fn kind(&self) -> Option<ErrorKind> {
        self.error.as_ref().map(|(kind, _)| *kind)
    }
}

impl Sender {
    /// The HTTP client, which also checks addresses.
    pub(crate) fn client(&self) -> &SafeClient {
        &self.client
    }

    /// Makes one attempt to send a message to an endpoint.
    pub(crate) async fn send(
        &self,
        endpoint: &WebhookEndpoint,
        secrets: &Secrets,
        content: Content<'_>,
        now: Timestamp,
    ) -> Attempt {
        let began = Instant::now();
        let answer = match self.request(endpoint, secrets, &content, now) {
            Ok(request) => self.client.send(request).await,
            Err(failure) => Err(failure),
        };
        let attempt = Attempt {
            started_at: now,
            duration: began.elapsed(),
            url: endpoint.url.clone(),
            address: None,
            status: None,
            error: None,
            headers: Json::Null,
            body: None,
            hold: None,
            aborts: false,
        };
        match answer {
            Ok(reply) => {
                let peer = reply.peer.filter(|_| self.show_addresses);
                let address = peer.map(|peer| peer.ip().to_string());
                Attempt { address, ..attempt }.answered(&reply, now)
            }
            Err(failure) => Attempt {
                error: Some((kind_of(&failure), failure.to_string())),
                ..attempt
            },
        }
    }

    fn request(
        &self,
        endpoint: &WebhookEndpoint,
        secrets: &Secrets,
        content: &Content<'_>,
        now: Timestamp,
    ) -> Result<Outgoing, Failure> {
        let seconds = now.millis().div_euclid(1_000);
        let live = secrets.live(now);
        let mut request = Outgoing::post(endpoint.url.as_str(), content.body.to_owned())
            .timeout(timeout_of(endpoint))
            .header("accept-encoding", "identity")?;
        // The additional headers of the endpoint. Header names that this function sets itself were
        // refused when the endpoint was written.
        for (name, value) in own_headers(endpoint) {
            request = request.header(name, value)?;
        }
        let signature = sign(&live, content.message, seconds, content.body.as_bytes());
        request = request
            .header("webhook-id", content.message)?
            .header("webhook-timestamp", &seconds.to_string())?
            .header("webhook-signature", &signature)?;
        if content.truncated {
            request = request.header("x-webhook-truncated", "true")?;
        }
        if !self.compat_headers {
            return Ok(request);
        }
        let signature = sign_compat(&live, seconds, content.body.as_bytes());
        request = request
            .header("x-webhook-signature", &signature)?
            .header("x-webhook-event", content.event)?
            .header("x-webhook-event-id", content.event_id)?
            .header("x-webhook-occurred-at", &content.occurred_at.to_string())?
            .header("x-webhook-delivery", content.delivery)?
            .header("x-webhook-attempt", &content.number.to_string())?;
        if content.is_test {
            request = request.header("x-webhook-test", "true")?;
        }
        Ok(request)
    }
}

/// The time limit of one attempt.
pub(crate) fn timeout_of(endpoint: &WebhookEndpoint) -> Duration {
    Duration::from_millis(endpoint.delivery_timeout_ms.unsigned_abs())
}

fn own_headers(endpoint: &WebhookEndpoint) -> impl Iterator<Item = (&str, &str)> {
    let headers = endpoint.headers.as_ref().and_then(Json::as_object);
    let headers = headers.into_iter().flatten();
    headers.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
}

fn kind_of(failure: &Failure) -> ErrorKind {
    match failure {
        Failure::Refused(_) => ErrorKind::BlockedAddress,
        Failure::Unresolved | Failure::Timeout(_, Phase::Resolve) => ErrorKind::Dns,
        Failure::Unreachable => ErrorKind::Connect,
        Failure::Tls(_) => ErrorKind::Tls,
        Failure::Timeout(..) => ErrorKind::Timeout,
        _ => ErrorKind::Protocol,
    }
}

impl Attempt {
    fn answered(self, reply: &Reply, now: Timestamp) -> Self {
        let status = reply.status;
        let error = if status.is_success() {
            None
        } else if status.is_redirection() {
            Some((
                ErrorKind::Redirect,
                format!("redirect {status}, which is not followed"),
            ))
        } else {
            Some((ErrorKind::Status, format!("status {status}")))
        };
        let text = |name: &str| {
            reply
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let hold = matches!(status.as_u16(), 429 | 503)
            .then(|| text("retry-after").and_then(|text| retry_after(text, now)))
            .flatten();
        let aborts = !status.is_success()
            && text(CONTROL).is_some_and(|control| control.trim() == "abort-message");
        Self {
            status: Some(status.as_u16()),
            error,
            headers: kept_headers(reply),
            body: Some(kept_body(&reply.body)),
            hold,
            aborts,
            ..self
        }
    }
}

/// The pause in `Retry-After`, at most 24 hours.
fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let wait = linchpin_safe_client::retry_after(text, now.millis())?;
    Some(wait.min(MAX_HOLD))
}

/// The headers to store: the first ones, without cookies.
fn kept_headers(reply: &Reply) -> Json {
    let mut kept = Map::new();
    for (name, value) in &reply.headers {
        if name == http::header::SET_COOKIE || kept.contains_key(name.as_str()) {
            continue;
        }
        if kept.len() == MAX_HEADERS {
            break;
        }
        let bytes = value.as_bytes();
        let bytes = bytes.get(..MAX_HEADER_LENGTH).unwrap_or(bytes);
        kept.insert(
            name.as_str().to_owned(),
            String::from_utf8_lossy(bytes).into(),
        );
    }
    Json::Object(kept)
}

/// The first characters of a body. NUL is replaced, because Postgres stores no text with it.
fn kept_body(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let kept = text.chars().take(MAX_BODY);
    kept.map(|c| {
        if c == '\0' {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = Timestamp::from_millis(784_111_777_000); // Sun, 06 Nov 1994 08:49:37 GMT
        let seconds = |n| Some(Duration::from_secs(n));
        for (text, expected) in [
            ("120", seconds(120)),
            (" 0 ", seconds(0)),
            ("999999", seconds(86_400)),
            ("99999999999999999999999", seconds(86_400)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", seconds(60)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", seconds(0)),
            ("Sat, 06 Nov 2094 08:49:00 GMT", seconds(86_400)),
            ("-5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(retry_after(text, now), expected, "{text}");
        }
    }

    #[test]
    fn a_stored_response_body_is_short_text_without_nul() {
        let kept = kept_body(&[b"a\0\xff".as_slice(), &[b'x'; 9_000]].concat());
        assert_eq!(kept.chars().count(), MAX_BODY);
        assert!(kept.starts_with("a\u{fffd}\u{fffd}x"));
    }
}
