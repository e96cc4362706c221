//! Tests of the checks of a request for a stream, and of the position at which it starts.

use std::sync::Arc;

use linchpin::{Actor, Attached, BoxFuture};

use super::*;

/// A test double of an endpoint. It reads tokens from the header `x-user-token` or from a cookie.
#[derive(Clone, Copy)]
struct Endpoint {
    closed: bool,
    anonymous: bool,
    full: bool,
}

const OPEN: Endpoint = Endpoint {
    closed: false,
    anonymous: false,
    full: false,
};

impl HandshakeChecks for Endpoint {
    fn retry_after_if_closed(&self) -> Option<u32> {
        self.closed.then_some(3)
    }

    fn admits_origin(&self, origin: &str) -> bool {
        origin == "https://app.example"
    }

    fn credential_is_cookie(&self, headers: &HeaderMap) -> Option<bool> {
        let header = headers.contains_key("x-user-token").then_some(false);
        header.or_else(|| headers.contains_key("cookie").then_some(true))
    }

    fn identify<'a>(&'a self, headers: &'a HeaderMap) -> BoxFuture<'a, Result<Option<Identity>>> {
        Box::pin(async move {
            let value = headers
                .get("x-user-token")
                .or_else(|| headers.get("cookie"));
            Ok(value.filter(|value| *value == "good").map(|_| Identity {
                actor: Arc::new(Actor::user("alice")),
                expires_at: None,
                attached: Attached::default(),
            }))
        })
    }

    fn on_missing_credential(&self) -> MissingCredential {
        if self.anonymous {
            MissingCredential::Anonymous
        } else {
            MissingCredential::Refused
        }
    }

    fn count<'a>(&'a self, _: Option<&'a Identity>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            if self.full {
                return Err(Error::new(Code::RateLimited, "Too many").retry_after(5));
            }
            Ok(())
        })
    }
}

async fn call(endpoint: Endpoint, query: &str, headers: &[(&str, &str)]) -> Result<Opened> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        );
    }
    let request = SseRequest {
        last_event_id: (!query.is_empty()).then_some(query),
        headers: &map,
    };
    check(request, &endpoint).await
}

async fn code(endpoint: Endpoint, query: &str, headers: &[(&str, &str)]) -> &'static str {
    let result = call(endpoint, query, headers).await;
    result.map_or_else(|error| error.code().as_str(), |_| "ok")
}

#[tokio::test]
async fn the_first_check_that_fails_gives_the_answer() {
    let mut endpoint = Endpoint {
        closed: true,
        full: true,
        ..OPEN
    };
    let mut headers = vec![
        ("accept", "application/json"),
        ("origin", "https://evil.example"),
        ("cookie", "bad"),
    ];
    assert_eq!(code(endpoint, "", &headers).await, "unavailable");
    endpoint.closed = false;
    assert_eq!(code(endpoint, "", &headers).await, "not_acceptable");
    headers[0].1 = "text/event-stream";
    let long = "x".repeat(9_000);
    headers.push(("x-trace", &long));
    assert_eq!(code(endpoint, "", &headers).await, "headers_too_large");
    headers.pop();
    assert_eq!(code(endpoint, "", &headers).await, "origin_not_allowed");
    headers[1].1 = "https://app.example";
    assert_eq!(code(endpoint, "", &headers).await, "unauthorized");
    headers[2].1 = "good";
    assert_eq!(code(endpoint, "", &headers).await, "rate_limited");
    endpoint.full = false;
    assert_eq!(code(endpoint, "", &headers).await, "ok");
    // A browser sends no `Origin` with a GET request to the page's own origin.
    headers.remove(1);
    assert_eq!(code(endpoint, "", &headers).await, "ok");
    // For an image on a page of another site, it sends no `Origin` either.
    headers.push(("sec-fetch-site", "cross-site"));
    assert_eq!(code(endpoint, "", &headers).await, "origin_not_allowed");
    headers.push(("origin", "https://app.example"));
    assert_eq!(code(endpoint, "", &headers).await, "ok");
}

#[tokio::test]
async fn anonymous_callers_are_refused_unless_the_endpoint_allows_them() {
    assert_eq!(code(OPEN, "", &[]).await, "unauthorized");
    let anonymous = Endpoint {
        anonymous: true,
        ..OPEN
    };
    assert_eq!(code(anonymous, "", &[]).await, "ok");
    let bad = [("x-user-token", "bad")];
    assert_eq!(code(anonymous, "", &bad).await, "unauthorized");
}

#[tokio::test]
async fn a_stream_starts_after_the_position_of_the_client_or_at_the_top() {
    const TOKEN: (&str, &str) = ("x-user-token", "good");
    let after = |offset| Resume::After(Position::new("e", offset));
    for (query, header, expected) in [
        ("", None, Resume::Top),
        ("", Some(""), Resume::Top),
        ("", Some("e-7"), after(7)),
        ("e-7", None, after(7)),
        ("e-7", Some("e-8"), after(8)),
        ("", None, Resume::Top),
        ("", Some("e-999999999999999999999"), Resume::Lost),
        ("", Some("abc"), Resume::Lost),
        ("", Some("é-1"), Resume::Lost),
        ("abc", None, Resume::Lost),
    ] {
        let mut headers = vec![TOKEN];
        headers.extend(header.map(|value| ("last-event-id", value)));
        let opened = call(OPEN, query, &headers).await.unwrap();
        assert_eq!(opened.resume, expected, "{query} {header:?}");
    }
    let twice = [TOKEN, ("last-event-id", "e-1"), ("last-event-id", "e-2")];
    assert_eq!(call(OPEN, "", &twice).await.unwrap().resume, Resume::Lost);
}
