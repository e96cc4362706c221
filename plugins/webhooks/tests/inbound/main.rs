//! Webhooks of other services, received by an app on SQLite. The senders are libraries that others
//! wrote.
#![allow(missing_docs, clippy::unwrap_used)] // cases that fail

mod bed;
mod peers;

use std::time::Duration;

use linchpin_webhooks::{Inbound, SigningSecret, Verifier};
use serde_json::json;

use crate::bed::{Bed, SECRET, now, signed};

/// The members of the response to a message that is new.
fn received() -> serde_json::Value {
    json!({ "received": true })
}

fn duplicate() -> serde_json::Value {
    json!({ "received": true, "duplicate": true })
}

#[tokio::test]
async fn a_message_is_passed_on_once() {
    let mut bed = Bed::start().await;
    let body = r#"{"type":"invoice.paid"}"#;
    let headers = signed("msg_1", now(), body);
    assert_eq!(bed.post("billing", &headers, body).await, (200, received()));
    let message = bed.next().await;
    assert_eq!(message.provider, "billing");
    assert_eq!(message.message_id, "msg_1");
    assert_eq!(message.content_type.as_deref(), Some("application/json"));
    assert_eq!(message.body, body);
    let again = bed.post("billing", &headers, body).await;
    assert_eq!(again, (200, duplicate()));
    // The sender tries again with a new timestamp.
    let later = signed("msg_1", now() - 5, body);
    assert_eq!(bed.post("billing", &later, body).await, (200, duplicate()));
    // Another provider has ids of its own.
    let other = bed.post("other", &headers, body).await;
    assert_eq!(other, (200, received()));
    // The next message comes next: the repeated ones made no event.
    let next = signed("msg_2", now(), "{}");
    assert_eq!(bed.post("billing", &next, "{}").await, (200, received()));
    assert_eq!(bed.next().await.message_id, "msg_2");
    bed.is_quiet().await;
}

#[tokio::test]
async fn requests_at_the_same_time_make_one_event() {
    let mut bed = Bed::start().await;
    let headers = signed("msg_1", now(), "{}");
    let calls = (0..8).map(|_| bed.post("billing", &headers, "{}"));
    let answers = futures_util::future::join_all(calls).await;
    assert!(
        answers.iter().all(|(status, _)| *status == 200),
        "{answers:?}"
    );
    let new = answers.iter().filter(|(_, body)| *body == received());
    assert_eq!(new.count(), 1, "{answers:?}");
    bed.next().await;
    bed.is_quiet().await;
}

#[tokio::test]
async fn a_wrong_signature_has_one_answer() {
    let mut bed = Bed::start().await;
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
        let (status, answer) = bed.post("billing", &headers, body).await;
        assert_eq!(status, 400, "{answer}");
        assert_eq!(answer["code"], "invalid_signature", "{answer}");
        texts.push(answer["error"].to_string());
    }
    texts.dedup();
    assert_eq!(texts.len(), 1);
    let (status, answer) = bed.post("nobody", &good, "{}").await;
    assert_eq!((status, answer["code"].as_str()), (404, Some("not_found")));
    bed.is_quiet().await;
}

#[tokio::test]
async fn a_long_body_is_refused_and_the_longest_is_taken() {
    let mut bed = Bed::start().await;
    // Text with a zero byte is stored in another form than other text.
    for (id, byte) in [("msg_1", "x"), ("msg_2", "\0")] {
        let longest = byte.repeat(1 << 20);
        let headers = signed(id, now(), &longest);
        let answer = bed.post("billing", &headers, &longest).await;
        assert_eq!(answer, (200, received()));
        assert_eq!(bed.next().await.body, longest);
    }
    let long = "x".repeat((1 << 20) + 1);
    let headers = signed("msg_3", now(), &long);
    for chunked in [false, true] {
        let (status, answer) = bed.send("billing", &headers, &long, chunked).await;
        assert_eq!(
            (status, answer["code"].as_str()),
            (413, Some("body_too_large"))
        );
    }
}

#[tokio::test]
async fn the_101st_request_in_a_minute_waits() {
    let bed = Bed::start().await;
    for _ in 0..100 {
        assert_eq!(bed.post("billing", &[], "").await.0, 400);
    }
    let (status, answer) = bed.post("billing", &[], "").await;
    assert_eq!(
        (status, answer["code"].as_str()),
        (429, Some("rate_limited"))
    );
    let wait: u64 = answer["retry-after"].as_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(bed.post("other", &[], "").await.0, 400);
    bed.advance(Duration::from_secs(61));
    assert_eq!(bed.post("billing", &[], "").await.0, 400);
}

#[tokio::test]
async fn other_credentials_and_parameters_of_a_request_do_not_matter() {
    let bed = Bed::start().await;
    let mut headers = signed("msg_1", now(), "{}");
    headers.push(("authorization", "Bearer nothing".to_owned()));
    headers.push(("cookie", "__Host-session=nothing".to_owned()));
    headers.push(("origin", "https://elsewhere.example".to_owned()));
    let answer = bed
        .post("billing?source=test&source=b", &headers, "{}")
        .await;
    assert_eq!(answer, (200, received()));
}

#[tokio::test]
async fn the_route_is_in_the_document() {
    let bed = Bed::start().await;
    let document = bed.document().await;
    let route = &document["paths"]["/webhooks/inbound/{provider}"]["post"];
    assert_eq!(route["operationId"], "webhooks_receive");
    assert_eq!(route["security"], json!([]));
    assert_eq!(route["requestBody"]["content"], json!({ "*/*": {} }));
    for status in ["200", "400", "404", "413", "429", "503"] {
        assert!(route["responses"][status].is_object(), "{status}: {route}");
    }
}

#[tokio::test]
async fn a_message_without_an_event_is_not_taken() {
    let mut bed = Bed::start().await;
    let headers = signed("msg_1", now(), "{}");
    bed.sql(
        "create trigger full before insert on linchpin_outbox begin select raise(abort, 'full'); end",
    )
    .await;
    let (status, answer) = bed.post("billing", &headers, "{}").await;
    assert_eq!(
        (status, answer["code"].as_str()),
        (503, Some("unavailable"))
    );
    bed.sql("drop trigger full").await;
    // The sender tries again.
    assert_eq!(bed.post("billing", &headers, "{}").await, (200, received()));
    assert_eq!(bed.next().await.message_id, "msg_1");
    bed.is_quiet().await;
}

#[tokio::test]
async fn mistakes_stop_the_start() {
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
            "a provider's name has",
        ),
        (Inbound::new().provider("a", none), "has no secret"),
    ] {
        let error = Bed::app(tempfile::tempdir().unwrap().path(), inbound)
            .start()
            .await;
        let error = format!("{:?}", error.err().unwrap());
        assert!(error.contains(text), "{error}");
    }
}
