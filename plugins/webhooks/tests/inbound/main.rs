//! Tests of received webhooks with an app on SQLite. Independent libraries send the webhooks.
#![allow(missing_docs, clippy::unwrap_used)] // test entities, and tests that panic to fail

mod peers;
mod test_app;

use std::time::Duration;

use linchpin_webhooks::{Inbound, SigningSecret, Verifier};
use serde_json::json;

use crate::test_app::{SECRET, TestApp, now, signed};

/// The response to a new message.
fn received() -> serde_json::Value {
    json!({ "received": true })
}

fn duplicate() -> serde_json::Value {
    json!({ "received": true, "duplicate": true })
}

#[tokio::test]
async fn the_function_gets_a_repeated_message_once() {
    let mut test_app = TestApp::start().await;
    let body = r#"{"type":"invoice.paid"}"#;
    let headers = signed("msg_1", now(), body);
    assert_eq!(
        test_app.post("billing", &headers, body).await,
        (200, received())
    );
    let message = test_app.next().await;
    assert_eq!(message.provider, "billing");
    assert_eq!(message.message_id, "msg_1");
    assert_eq!(message.content_type.as_deref(), Some("application/json"));
    assert_eq!(message.body, body);
    let again = test_app.post("billing", &headers, body).await;
    assert_eq!(again, (200, duplicate()));
    // The sender sends the message again with a new timestamp.
    let later = signed("msg_1", now() - 5, body);
    assert_eq!(
        test_app.post("billing", &later, body).await,
        (200, duplicate())
    );
    // Another provider can use the same id.
    let other = test_app.post("other", &headers, body).await;
    assert_eq!(other, (200, received()));
    // The next message that the function gets is `msg_2`: repeated messages emit no event.
    let next = signed("msg_2", now(), "{}");
    assert_eq!(
        test_app.post("billing", &next, "{}").await,
        (200, received())
    );
    assert_eq!(test_app.next().await.message_id, "msg_2");
    test_app.expect_no_message().await;
}

#[tokio::test]
async fn concurrent_requests_with_the_same_message_emit_one_event() {
    let mut test_app = TestApp::start().await;
    let headers = signed("msg_1", now(), "{}");
    let calls = (0..8).map(|_| test_app.post("billing", &headers, "{}"));
    let answers = futures_util::future::join_all(calls).await;
    assert!(
        answers.iter().all(|(status, _)| *status == 200),
        "{answers:?}"
    );
    let new = answers.iter().filter(|(_, body)| *body == received());
    assert_eq!(new.count(), 1, "{answers:?}");
    test_app.next().await;
    test_app.expect_no_message().await;
}

#[tokio::test]
async fn all_invalid_signatures_get_the_same_response() {
    let mut test_app = TestApp::start().await;
    let good = signed("msg_1", now(), "{}");
    let old = signed("msg_1", now() - 301, "{}");
    let early = signed("msg_1", now() + 310, "{}");
    let without = |name: &str| {
        let kept = good.iter().filter(|(known, _)| *known != name);
        kept.cloned().collect::<Vec<_>>()
    };
    let mut texts = Vec::new();
    for (headers, body) in [
        (good.clone(), "{ }"),
        (old, "{}"),
        (early, "{}"),
        (without("webhook-id"), "{}"),
        (without("webhook-signature"), "{}"),
        (without("webhook-timestamp"), "{}"),
        (Vec::new(), "{}"),
        (Vec::new(), ""),
    ] {
        let (status, answer) = test_app.post("billing", &headers, body).await;
        assert_eq!(status, 400, "{answer}");
        assert_eq!(answer["code"], "invalid_signature", "{answer}");
        texts.push(answer["error"].to_string());
    }
    texts.dedup();
    assert_eq!(texts.len(), 1);
    let (status, answer) = test_app.post("nobody", &good, "{}").await;
    assert_eq!((status, answer["code"].as_str()), (404, Some("not_found")));
    test_app.expect_no_message().await;
}

#[tokio::test]
async fn a_body_above_1_mib_is_refused_and_one_of_1_mib_is_accepted() {
    let mut test_app = TestApp::start().await;
    // Text with a zero byte is stored as base64.
    for (id, byte) in [("msg_1", "x"), ("msg_2", "\0")] {
        let longest = byte.repeat(1 << 20);
        let headers = signed(id, now(), &longest);
        let answer = test_app.post("billing", &headers, &longest).await;
        assert_eq!(answer, (200, received()));
        assert_eq!(test_app.next().await.body, longest);
    }
    let long = "x".repeat((1 << 20) + 1);
    let headers = signed("msg_3", now(), &long);
    for chunked in [false, true] {
        let (status, answer) = test_app.send("billing", &headers, &long, chunked).await;
        assert_eq!(
            (status, answer["code"].as_str()),
            (413, Some("body_too_large"))
        );
    }
}

#[tokio::test]
async fn the_101st_request_in_a_minute_is_refused() {
    let test_app = TestApp::start().await;
    for _ in 0..100 {
        assert_eq!(test_app.post("billing", &[], "").await.0, 400);
    }
    let (status, answer) = test_app.post("billing", &[], "").await;
    assert_eq!(
        (status, answer["code"].as_str()),
        (429, Some("rate_limited"))
    );
    let wait: u64 = answer["retry-after"].as_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(test_app.post("other", &[], "").await.0, 400);
    test_app.advance(Duration::from_secs(61));
    assert_eq!(test_app.post("billing", &[], "").await.0, 400);
}

#[tokio::test]
async fn other_credentials_and_parameters_of_a_request_are_ignored() {
    let test_app = TestApp::start().await;
    let mut headers = signed("msg_1", now(), "{}");
    headers.push(("authorization", "Bearer nothing".to_owned()));
    headers.push(("cookie", "__Host-session=nothing".to_owned()));
    headers.push(("origin", "https://elsewhere.example".to_owned()));
    let answer = test_app
        .post("billing?source=test&source=b", &headers, "{}")
        .await;
    assert_eq!(answer, (200, received()));
}

#[tokio::test]
async fn the_route_is_in_the_openapi_document() {
    let test_app = TestApp::start().await;
    let document = test_app.document().await;
    let route = &document["paths"]["/webhooks/inbound/{provider}"]["post"];
    assert_eq!(route["operationId"], "webhooks_receive");
    assert_eq!(route["security"], json!([]));
    assert_eq!(route["requestBody"]["content"], json!({ "*/*": {} }));
    for status in ["200", "400", "404", "413", "429", "503"] {
        assert!(route["responses"][status].is_object(), "{status}: {route}");
    }
}

#[tokio::test]
async fn a_message_whose_event_cannot_be_stored_is_not_accepted() {
    let mut test_app = TestApp::start().await;
    let headers = signed("msg_1", now(), "{}");
    test_app.sql(
        "create trigger full before insert on linchpin_outbox begin select raise(abort, 'full'); end",
    )
    .await;
    let (status, answer) = test_app.post("billing", &headers, "{}").await;
    assert_eq!(
        (status, answer["code"].as_str()),
        (503, Some("unavailable"))
    );
    test_app.sql("drop trigger full").await;
    // The sender sends the message again.
    assert_eq!(
        test_app.post("billing", &headers, "{}").await,
        (200, received())
    );
    assert_eq!(test_app.next().await.message_id, "msg_1");
    test_app.expect_no_message().await;
}

#[tokio::test]
async fn invalid_providers_prevent_the_start() {
    let verifier = || Verifier::StandardWebhooks {
        secrets: vec![SigningSecret::parse(SECRET).unwrap()],
    };
    let none = Verifier::StandardWebhooks {
        secrets: Vec::new(),
    };
    for (inbound, text) in [
        (
            Inbound::new()
                .provider("a", verifier())
                .provider("a", verifier()),
            "two providers have this name",
        ),
        (
            Inbound::new().provider("A/b", verifier()),
            "the name of a provider must have 1 to 64",
        ),
        (Inbound::new().provider("a", none), "has no secret"),
    ] {
        let error = TestApp::app(tempfile::tempdir().unwrap().path(), inbound)
            .start()
            .await;
        let error = format!("{:?}", error.err().unwrap());
        assert!(error.contains(text), "{error}");
    }
}
