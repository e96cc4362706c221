//! Tests of deliveries: the requests, their signatures, and the result of each response.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use linchpin_webhooks::WebhooksConfig;
use serde_json::{Value as Json, json};

use crate::bed::TestApp;
use crate::receiver::{Arrived, Plan, Receiver};

/// The signature that a receiver computes.
pub fn expected_signature(secret: &Json, arrived: &Arrived) -> String {
    let encoded = secret.as_str().unwrap().strip_prefix("whsec_").unwrap();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &STANDARD.decode(encoded).unwrap());
    let head = format!(
        "{}.{}.",
        arrived.header("webhook-id"),
        arrived.header("webhook-timestamp")
    );
    let tag = hmac::sign(&key, &[head.as_bytes(), &arrived.body].concat());
    format!("v1,{}", STANDARD.encode(tag))
}

#[tokio::test]
async fn a_delivery_is_signed_and_its_body_has_exactly_three_members() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let headers = json!({ "X-Own": "mine" });
    let made = test_app
        .endpoint(&receiver.url(), json!({ "headers": headers }))
        .await;
    let order = test_app.order("a \"quoted\" title, ü").await;
    let arrived = receiver.until(1).await.remove(0);
    assert_eq!(
        arrived.header("webhook-signature"),
        expected_signature(&made["secret"], &arrived)
    );
    let body = arrived.json();
    let members: BTreeSet<&str> = body
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(members, BTreeSet::from(["type", "timestamp", "data"]));
    assert_eq!(body["type"], "shop.orders.created");
    assert_eq!(body["data"], order);
    assert!(
        body["data"].get("margin").is_none(),
        "the private field `margin` is in the payload"
    );
    assert!(
        arrived
            .body
            .starts_with(b"{\"type\":\"shop.orders.created\",\"timestamp\":\"")
    );
    for (name, value) in [
        ("content-type", "application/json"),
        ("user-agent", "Linchpin-Webhooks/1"),
        ("accept-encoding", "identity"),
        ("x-own", "mine"),
        ("x-webhook-event", "shop.orders.created"),
        ("x-webhook-attempt", "1"),
    ] {
        assert_eq!(arrived.header(name), value, "{name}");
    }
    assert!(arrived.header("x-webhook-signature").starts_with("t="));
    assert!(arrived.headers.get("x-webhook-test").is_none());
    let delivery = test_app.until("delivered").await;
    assert_eq!(delivery["attempts"], 1);
    assert_eq!(delivery["id"], arrived.header("x-webhook-delivery"));
    let attempts = test_app
        .get(&format!(
            "/webhooks/attempts?deliveryId={}",
            delivery["id"].as_str().unwrap()
        ))
        .await;
    assert_eq!(attempts["items"][0]["statusCode"], 200);
    assert_eq!(attempts["items"][0]["responseBody"], "an answer");
}

#[tokio::test]
async fn compatibility_headers_can_be_turned_off() {
    let test_app = TestApp::with(|config| config.compat_headers = false).await;
    let receiver = Receiver::start().await;
    test_app.endpoint(&receiver.url(), json!({})).await;
    test_app.order("one").await;
    let arrived = receiver.until(1).await.remove(0);
    let names = arrived
        .headers
        .keys()
        .filter(|name| name.as_str().starts_with("x-webhook-"));
    assert_eq!(names.count(), 0);
    assert!(!arrived.header("webhook-signature").is_empty());
}

#[tokio::test]
async fn only_subscribed_events_of_the_endpoints_tenant_are_sent() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    test_app
        .endpoint(
            &receiver.url(),
            json!({ "events": ["shop.orders.pay", "shop.orders.deleted"] }),
        )
        .await;
    let order = test_app.order("one").await;
    let other_tenant = test_app.caller(Some("t2"), "admin");
    let made = other_tenant
        .post("/orders", json!({ "title": "theirs" }))
        .await
        .unwrap()
        .json()
        .unwrap();
    let their_path = format!("/orders/{}", made["id"].as_str().unwrap());
    assert_eq!(
        other_tenant.delete(&their_path).await.unwrap().status(),
        204
    );
    let our_path = format!("/orders/{}", order["id"].as_str().unwrap());
    let paid = test_app
        .admin()
        .patch(&format!("{our_path}/pay"), json!({ "paid": true }))
        .await
        .unwrap();
    assert_eq!(paid.status(), 200, "{:?}", paid.text());
    test_app.admin().delete(&our_path).await.unwrap();
    let arrived = receiver.until(2).await;
    let types: Vec<String> = arrived
        .iter()
        .map(|one| one.json()["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(types, ["shop.orders.pay", "shop.orders.deleted"]);
    assert_eq!(test_app.deliveries().await.len(), 2);
}

#[tokio::test]
async fn a_failed_delivery_is_sent_again_with_the_same_id_and_bytes() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let made = test_app.endpoint(&receiver.url(), json!({})).await;
    receiver.next([Plan::status(500), Plan::status(503)]);
    test_app.order("one").await;
    let failed = test_app.until("failed").await;
    assert_eq!(failed["lastAttempt"]["statusCode"], 500);
    let wait = |delivery: &Json| {
        let at = |name: &str| {
            linchpin::Timestamp::parse(delivery[name].as_str().unwrap())
                .unwrap()
                .millis()
        };
        at("nextRetryAt") - at("lastAttemptAt")
    };
    // The first pauses are 5 s and 300 s (`WebhooksConfig::schedule`), lengthened by up to 20 %
    // (`delivery/outcome.rs`).
    assert!((5_000..=6_100).contains(&wait(&failed)), "{failed}");
    test_app.advance(Duration::from_secs(7));
    receiver.until(2).await;
    // The time of the next attempt is stored, so it is the same after a restart.
    let test_app = test_app.restarted().await;
    let mut failed = test_app.until("failed").await;
    while failed["attempts"] != 2 {
        failed = test_app.until("failed").await;
    }
    assert!((300_000..=361_000).contains(&wait(&failed)), "{failed}");
    test_app.advance(Duration::from_secs(290));
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(receiver.count(), 2, "the third attempt is not due yet");
    test_app.advance(Duration::from_secs(75));
    let arrived = receiver.until(3).await;
    let delivered = test_app.until("delivered").await;
    assert_eq!(delivered["attempts"], 3);
    for one in &arrived {
        assert_eq!(one.header("webhook-id"), arrived[0].header("webhook-id"));
        assert_eq!(one.body, arrived[0].body);
        assert_eq!(
            one.header("webhook-signature"),
            expected_signature(&made["secret"], one)
        );
    }
    let times: BTreeSet<&str> = arrived
        .iter()
        .map(|one| one.header("webhook-timestamp"))
        .collect();
    assert_eq!(times.len(), 3);
}

#[tokio::test]
async fn after_eight_attempts_a_delivery_is_dead() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    test_app.endpoint(&receiver.url(), json!({})).await;
    receiver.always(Plan::status(500));
    test_app.order("one").await;
    for attempt in 1..=8 {
        receiver.until(attempt).await;
        // Waits until the result is written, because the clock may advance only after that.
        while test_app.deliveries().await[0]["attempts"] != attempt {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        test_app.advance(Duration::from_hours(13));
    }
    let dead = test_app.until("dead").await;
    assert_eq!(
        (&dead["reason"], &dead["attempts"]),
        (&json!("exhausted"), &json!(8))
    );
    test_app.advance(Duration::from_hours(24));
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(receiver.count(), 8);
}

#[tokio::test]
async fn an_abort_header_and_status_410_end_a_delivery() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let made = test_app.endpoint(&receiver.url(), json!({})).await;
    let abort = ("webhook-delivery", "abort-message".to_owned());
    receiver.next([
        Plan::Answer(422, vec![abort]),
        Plan::status(404),
        Plan::status(410),
    ]);
    test_app.order("one").await;
    assert_eq!(test_app.until("dead").await["reason"], "aborted");
    test_app.order("two").await;
    // After 404 there is another attempt. After 410 the endpoint is disabled.
    test_app.until("failed").await;
    test_app.advance(Duration::from_secs(7));
    assert_eq!(test_app.until("dead").await["reason"], "gone");
    let endpoint = test_app
        .get(&format!(
            "/webhooks/endpoints/{}",
            made["id"].as_str().unwrap()
        ))
        .await;
    assert_eq!(
        (&endpoint["status"], &endpoint["disabledReason"]),
        (&json!("disabled"), &json!("gone"))
    );
    // No delivery is written for a disabled endpoint.
    test_app.order("three").await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(test_app.deliveries().await.len(), 2);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (test_app, receiver, other) = (
        TestApp::start().await,
        Receiver::start().await,
        Receiver::start().await,
    );
    test_app.endpoint(&receiver.url(), json!({})).await;
    receiver.always(Plan::Answer(302, vec![("location", other.url())]));
    test_app.order("one").await;
    let failed = test_app.until("failed").await;
    assert_eq!(failed["lastAttempt"]["errorKind"], "redirect");
    assert_eq!(other.count(), 0);
}

#[tokio::test]
async fn the_retry_after_header_pauses_only_its_endpoint() {
    let (test_app, receiver, other) = (
        TestApp::start().await,
        Receiver::start().await,
        Receiver::start().await,
    );
    test_app.endpoint(&receiver.url(), json!({})).await;
    test_app.endpoint(&other.url(), json!({})).await;
    receiver.next([Plan::Answer(503, vec![("retry-after", "600".to_owned())])]);
    test_app.order("one").await;
    receiver.until(1).await;
    other.until(1).await;
    test_app.order("two").await;
    other.until(2).await;
    test_app.advance(Duration::from_secs(500));
    test_app.order("three").await;
    other.until(3).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(receiver.count(), 1, "the endpoint is paused for 600 s");
    test_app.advance(Duration::from_secs(110));
    receiver.until(4).await;
}

#[tokio::test]
async fn the_rate_and_the_number_of_concurrent_attempts_are_limited() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    test_app
        .endpoint(
            &receiver.url(),
            json!({ "maxPerSecond": 20, "maxInFlight": 3 }),
        )
        .await;
    receiver.always(Plan::Late(Duration::from_millis(30), 200));
    let began = std::time::Instant::now();
    for n in 0..30 {
        test_app.order(&n.to_string()).await;
    }
    receiver.until(30).await;
    // A burst of 20, then 20 per second; one more for the time of the measurement.
    let most = 20.0 + 20.0 * began.elapsed().as_secs_f64() + 1.0;
    assert!((receiver.count() as f64) <= most);
    assert!(receiver.most_at_once() <= 3, "{}", receiver.most_at_once());
}

#[tokio::test]
async fn an_ordered_endpoint_sends_later_deliveries_after_the_failed_one() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    test_app
        .endpoint(&receiver.url(), json!({ "ordered": true }))
        .await;
    receiver.next([Plan::status(500)]);
    for title in ["one", "two", "three"] {
        test_app.order(title).await;
    }
    receiver.until(1).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(
        receiver.count(),
        1,
        "the later deliveries wait for the failed one"
    );
    test_app.advance(Duration::from_secs(7));
    let arrived = receiver.until(4).await;
    let titles: Vec<String> = arrived
        .iter()
        .map(|one| one.json()["data"]["title"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(titles, ["one", "one", "two", "three"]);
    assert_eq!(receiver.most_at_once(), 1);
}

#[tokio::test]
async fn a_slow_endpoint_does_not_delay_others() {
    let (test_app, slow, fast) = (
        TestApp::start().await,
        Receiver::start().await,
        Receiver::start().await,
    );
    test_app
        .endpoint(&slow.url(), json!({ "maxInFlight": 50 }))
        .await;
    test_app.endpoint(&fast.url(), json!({})).await;
    slow.always(Plan::Late(Duration::from_mins(10), 200));
    for n in 0..40 {
        test_app.order(&n.to_string()).await;
    }
    fast.until(40).await;
    assert!(
        slow.most_at_once() <= 16,
        "one endpoint takes at most half of the slots"
    );
}

#[tokio::test]
async fn a_tenant_with_many_slow_endpoints_does_not_delay_others() {
    let slots = |config: &mut WebhooksConfig| config.workers = 4;
    let (test_app, slow, fast) = (
        TestApp::with(slots).await,
        Receiver::start().await,
        Receiver::start().await,
    );
    slow.always(Plan::Late(Duration::from_mins(10), 200));
    let other_tenant = test_app.caller(Some("t2"), "admin");
    for n in 0..40 {
        let url = format!("{}/{n}", slow.url());
        let body = json!({ "url": url, "events": ["*"] });
        let made = other_tenant
            .post("/webhooks/endpoints", body)
            .await
            .unwrap();
        assert_eq!(made.status(), 201, "{:?}", made.text());
    }
    for n in 0..4 {
        let body = json!({ "title": n.to_string() });
        assert_eq!(
            other_tenant.post("/orders", body).await.unwrap().status(),
            201
        );
    }
    slow.until(2).await;
    test_app.endpoint(&fast.url(), json!({})).await;
    for n in 0..4 {
        test_app.order(&n.to_string()).await;
    }
    fast.until(4).await;
    assert_eq!(
        slow.most_at_once(),
        2,
        "a tenant takes at most half of the slots"
    );
}

#[tokio::test]
async fn an_event_is_delivered_to_more_endpoints_than_a_list_page_contains() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    for n in 0..105 {
        test_app
            .endpoint(&format!("{}/{n}", receiver.url()), json!({}))
            .await;
    }
    test_app.order("for all").await;
    receiver.until(105).await;
}

#[tokio::test]
async fn a_large_record_is_sent_whole_up_to_256_kib() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    test_app
        .endpoint(
            &receiver.url(),
            json!({ "events": ["shop.articles.updated"] }),
        )
        .await;
    for (at, (size, whole)) in [(200_000, true), (270_000, false)].into_iter().enumerate() {
        let article = json!({ "title": "x".repeat(size), "status": "draft" });
        let made = test_app.admin().post("/articles", article).await.unwrap();
        let made = made.json().unwrap();
        let id = made["id"].as_str().unwrap();
        let path = format!("/articles/{id}");
        let published = json!({ "status": "published" });
        assert_eq!(
            test_app
                .admin()
                .patch(&path, published)
                .await
                .unwrap()
                .status(),
            200
        );
        let arrived = receiver.until(at + 1).await.remove(at);
        let body = arrived.json();
        if whole {
            assert_eq!(body["data"]["title"].as_str().unwrap().len(), size);
            assert_eq!(arrived.header("x-webhook-truncated"), "");
        } else {
            assert_eq!(body["data"], Json::Null);
            assert_eq!(
                body["dataRef"],
                json!({ "entity": "shop_articles", "id": id })
            );
            assert_eq!(arrived.header("x-webhook-truncated"), "true");
        }
    }
}
