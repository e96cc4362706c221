//! Tests of the checks of a handshake and of their order.

use std::sync::Arc;

use linchpin::{Actor, Attached};

use super::*;

/// A test double of an endpoint. It reads tokens from the header `x-user-token` or from a cookie.
#[derive(Clone)]
struct Endpoint {
    closed: Option<u32>,
    on_missing_credential: MissingCredential,
    sessions_down: bool,
    handshakes_left: bool,
}

const OPEN: Endpoint = Endpoint {
    closed: None,
    on_missing_credential: MissingCredential::Pending,
    sessions_down: false,
    handshakes_left: true,
};

impl HandshakeChecks for Endpoint {
    fn retry_after_if_closed(&self) -> Option<u32> {
        self.closed
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
            if self.sessions_down {
                return Err(Error::unavailable("the sessions are down"));
            }
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
        self.on_missing_credential
    }

    fn count<'a>(&'a self, _: Option<&'a Identity>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async {
            if self.handshakes_left {
                Ok(())
            } else {
                Err(Error::new(Code::RateLimited, "Too many").retry_after(7))
            }
        })
    }
}

const GOOD: &[(&str, &str)] = &[
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

/// Calls [`check`] with the headers of a good handshake. `headers` replaces some of them; an empty
/// value removes one.
async fn call(
    endpoint: &Endpoint,
    query: Option<&str>,
    upgrade: bool,
    headers: &[(&str, &str)],
) -> Result<Accepted, Refusal> {
    let mut map = HeaderMap::new();
    for (name, value) in GOOD.iter().chain(headers) {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        map.remove(&name);
        if !value.is_empty() {
            for one in value.split('|') {
                map.append(name.clone(), HeaderValue::from_str(one).unwrap());
            }
        }
    }
    let request = Request {
        query,
        upgrade,
        headers: &map,
    };
    check(request, endpoint).await
}

async fn refused(endpoint: &Endpoint, headers: &[(&str, &str)]) -> Refusal {
    call(endpoint, None, true, headers).await.unwrap_err()
}

/// The code and the paths of a refusal.
fn text(refusal: &Refusal) -> String {
    let paths = refusal.error.details().iter();
    let paths: Vec<&str> = paths.map(|problem| problem.path.as_str()).collect();
    format!("{} {}", refusal.error.code().as_str(), paths.join(" "))
}

#[tokio::test]
async fn a_valid_handshake_has_the_response_of_rfc_6455() {
    let accepted = call(&OPEN, None, true, &[("x-user-token", "good")])
        .await
        .unwrap();
    assert_eq!(
        accepted.identity.unwrap().actor.id.as_deref(),
        Some("alice")
    );
    assert!(!accepted.pending);
    // The example of RFC 6455, section 1.3.
    assert_eq!(accepted.headers[0].1, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_eq!(accepted.headers.len(), 1);
    for offered in ["linchpin.v1", "other, linchpin.v1", "other|linchpin.v1"] {
        let accepted = call(
            &OPEN,
            Some(""),
            true,
            &[
                ("sec-websocket-protocol", offered),
                ("sec-websocket-extensions", "permessage-deflate"),
            ],
        )
        .await
        .unwrap();
        assert!(accepted.pending && accepted.identity.is_none());
        assert_eq!(accepted.headers.len(), 2);
        assert_eq!(accepted.headers[1].1, "linchpin.v1");
    }
}

#[tokio::test]
async fn the_first_check_that_fails_gives_the_answer() {
    // Each step corrects the error of the step before.
    let mut endpoint = Endpoint {
        closed: Some(4),
        on_missing_credential: MissingCredential::Refused,
        sessions_down: true,
        handshakes_left: false,
    };
    let mut headers = vec![
        ("sec-websocket-version", "12"),
        ("sec-websocket-key", "short"),
        ("origin", "https://evil.example"),
        ("cookie", "bad"),
        ("sec-websocket-protocol", "other"),
    ];
    let refusal = call(&endpoint, Some("token=x&a"), false, &headers)
        .await
        .unwrap_err();
    assert_eq!(text(&refusal), "unknown_parameter query:token query:a");
    let refusal = call(&endpoint, None, false, &headers).await.unwrap_err();
    assert_eq!(text(&refusal), "upgrade_required ");
    assert_eq!(refusal.error.code().status(), 426);
    assert_eq!(refusal.headers[0], (UPGRADE, "websocket".parse().unwrap()));
    let refusal = refused(&endpoint, &headers).await;
    assert_eq!(
        text(&refusal),
        "validation_failed header:Sec-WebSocket-Key header:Sec-WebSocket-Version"
    );
    assert_eq!(
        refusal.headers[0],
        (SEC_WEBSOCKET_VERSION, "13".parse().unwrap())
    );
    headers.drain(..2);
    let refusal = refused(&endpoint, &headers).await;
    assert_eq!(text(&refusal), "unavailable ");
    assert_eq!(refusal.error.retry_after_seconds(), Some(4));
    endpoint.closed = None;
    assert_eq!(
        text(&refused(&endpoint, &headers).await),
        "origin_not_allowed "
    );
    headers[0].1 = "";
    assert_eq!(
        text(&refused(&endpoint, &headers).await),
        "origin_not_allowed ",
        "a cookie without an origin"
    );
    headers[0].1 = "https://app.example";
    assert_eq!(text(&refused(&endpoint, &headers).await), "unavailable ");
    endpoint.sessions_down = false;
    assert_eq!(text(&refused(&endpoint, &headers).await), "unauthorized ");
    headers[1].1 = "good";
    let refusal = refused(&endpoint, &headers).await;
    assert_eq!(text(&refusal), "rate_limited ");
    assert_eq!(refusal.error.retry_after_seconds(), Some(7));
    endpoint.handshakes_left = true;
    assert_eq!(
        text(&refused(&endpoint, &headers).await),
        "validation_failed header:Sec-WebSocket-Protocol"
    );
    headers[2].1 = "";
    assert!(call(&endpoint, None, true, &headers).await.is_ok());
}

#[tokio::test]
async fn origins_are_checked_with_and_without_a_cookie() {
    for origin in [
        "null",
        "https://evil.example",
        "https://app.example|https://app.example",
    ] {
        for credential in [
            ("x-user-token", "good"),
            ("cookie", "good"),
            ("x-other", "1"),
        ] {
            let refusal = refused(&OPEN, &[credential, ("origin", origin)]).await;
            assert_eq!(text(&refusal), "origin_not_allowed ");
        }
    }
    for headers in [
        &[("x-user-token", "good")][..],
        &[("x-user-token", "good"), ("origin", "https://app.example")],
        &[("cookie", "good"), ("origin", "https://app.example")],
    ] {
        assert!(call(&OPEN, None, true, headers).await.is_ok());
    }
}

#[tokio::test]
async fn a_request_without_a_credential_is_treated_as_the_endpoint_says() {
    for (on_missing_credential, pending) in [
        (MissingCredential::Pending, Some(true)),
        (MissingCredential::Anonymous, Some(false)),
        (MissingCredential::Refused, None),
    ] {
        let endpoint = Endpoint {
            on_missing_credential,
            ..OPEN
        };
        let result = call(&endpoint, None, true, &[]).await;
        match pending {
            Some(pending) => assert_eq!(result.unwrap().pending, pending),
            None => assert_eq!(text(&result.unwrap_err()), "unauthorized "),
        }
        // A bad credential is refused everywhere.
        let refusal = refused(&endpoint, &[("x-user-token", "bad")]).await;
        assert_eq!(text(&refusal), "unauthorized ");
    }
}

#[tokio::test]
async fn a_bad_version_or_key_is_refused() {
    for (name, value) in [
        ("sec-websocket-version", ""),
        ("sec-websocket-version", "8"),
        ("sec-websocket-version", "13|13"),
        ("sec-websocket-key", ""),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZWE="),
        ("sec-websocket-key", "!!!!!!!!!!!!!!!!!!!!!!=="),
    ] {
        let refusal = refused(&OPEN, &[(name, value)]).await;
        assert_eq!(
            refusal.error.code(),
            Code::ValidationFailed,
            "{name} {value}"
        );
    }
}

#[tokio::test]
async fn headers_that_a_connection_would_keep_are_limited() {
    let long = "x".repeat(9_000);
    let refusal = refused(&OPEN, &[("x-trace", &long)]).await;
    assert_eq!(text(&refusal), "headers_too_large ");
    // A credential is not kept.
    let refusal = refused(&OPEN, &[("x-user-token", &long)]).await;
    assert_eq!(text(&refusal), "unauthorized ");
}
