//! Deliveries: what is sent, how it is signed, and what follows from each answer.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use linchpin_webhooks::WebhooksConfig;
use serde_json::{Value as Json, json};

use crate::bed::Bed;
use crate::receiver::{Arrived, Plan, Receiver};

/// The signature that a receiver computes.
pub fn expected(secret: &Json, arrived: &Arrived) -> String {
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
async fn a_committed_event_is_sent_signed_with_exactly_three_members() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    let headers = json!({ "X-Own": "mine" });
    let made = bed
        .endpoint(&receiver.url(), json!({ "headers": headers }))
        .await;
    let order = bed.order("a \"quoted\" title, ü").await;
    let arrived = receiver.until(1).await.remove(0);
    assert_eq!(
        arrived.header("webhook-signature"),
        expected(&made["secret"], &arrived)
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
        "a private field left the app"
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
    let delivery = bed.until("delivered").await;
    assert_eq!(delivery["attempts"], 1);
    assert_eq!(delivery["id"], arrived.header("x-webhook-delivery"));
    let attempts = bed
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
    let bed = Bed::with(|config| config.compat_headers = false).await;
    let receiver = Receiver::start().await;
    bed.endpoint(&receiver.url(), json!({})).await;
    bed.order("one").await;
    let arrived = receiver.until(1).await.remove(0);
    let names = arrived
        .headers
        .keys()
        .filter(|name| name.as_str().starts_with("x-webhook-"));
    assert_eq!(names.count(), 0);
    assert!(!arrived.header("webhook-signature").is_empty());
}

#[tokio::test]
async fn only_wanted_events_of_the_own_tenant_are_sent() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    bed.endpoint(
        &receiver.url(),
        json!({ "events": ["shop.orders.pay", "shop.orders.deleted"] }),
    )
    .await;
    let order = bed.order("one").await;
    let foreign = bed.caller(Some("t2"), "admin");
    let made = foreign
        .post("/orders", json!({ "title": "theirs" }))
        .await
        .unwrap()
        .json()
        .unwrap();
    let theirs = format!("/orders/{}", made["id"].as_str().unwrap());
    assert_eq!(foreign.delete(&theirs).await.unwrap().status(), 204);
    let ours = format!("/orders/{}", order["id"].as_str().unwrap());
    let paid = bed
        .admin()
        .patch(&format!("{ours}/pay"), json!({ "paid": true }))
        .await
        .unwrap();
    assert_eq!(paid.status(), 200, "{:?}", paid.text());
    bed.admin().delete(&ours).await.unwrap();
    let arrived = receiver.until(2).await;
    let types: Vec<String> = arrived
        .iter()
        .map(|one| one.json()["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(types, ["shop.orders.pay", "shop.orders.deleted"]);
    assert_eq!(bed.deliveries().await.len(), 2);
}

#[tokio::test]
async fn a_failed_delivery_is_tried_again_with_the_same_id_and_bytes() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    let made = bed.endpoint(&receiver.url(), json!({})).await;
    receiver.next([Plan::status(500), Plan::status(503)]);
    bed.order("one").await;
    let failed = bed.until("failed").await;
    assert_eq!(failed["lastAttempt"]["statusCode"], 500);
    let wait = |delivery: &Json| {
        let at = |name: &str| {
            linchpin::Timestamp::parse(delivery[name].as_str().unwrap())
                .unwrap()
                .millis()
        };
        at("nextRetryAt") - at("lastAttemptAt")
    };
    assert!((5_000..=6_100).contains(&wait(&failed)), "{failed}");
    bed.advance(Duration::from_secs(7));
    receiver.until(2).await;
    // The time of the next attempt outlives a restart.
    let bed = bed.restarted().await;
    let mut failed = bed.until("failed").await;
    while failed["attempts"] != 2 {
        failed = bed.until("failed").await;
    }
    assert!((300_000..=361_000).contains(&wait(&failed)), "{failed}");
    bed.advance(Duration::from_secs(290));
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(receiver.count(), 2, "it is not due yet");
    bed.advance(Duration::from_secs(75));
    let arrived = receiver.until(3).await;
    let delivered = bed.until("delivered").await;
    assert_eq!(delivered["attempts"], 3);
    for one in &arrived {
        assert_eq!(one.header("webhook-id"), arrived[0].header("webhook-id"));
        assert_eq!(one.body, arrived[0].body);
        assert_eq!(
            one.header("webhook-signature"),
            expected(&made["secret"], one)
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
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    bed.endpoint(&receiver.url(), json!({})).await;
    receiver.always(Plan::status(500));
    bed.order("one").await;
    for attempt in 1..=8 {
        receiver.until(attempt).await;
        // The result is written before the clock moves on.
        while bed.deliveries().await[0]["attempts"] != attempt {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bed.advance(Duration::from_hours(13));
    }
    let dead = bed.until("dead").await;
    assert_eq!(
        (&dead["reason"], &dead["attempts"]),
        (&json!("exhausted"), &json!(8))
    );
    bed.advance(Duration::from_hours(24));
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(receiver.count(), 8);
}

#[tokio::test]
async fn answers_that_end_a_delivery_at_once() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    let made = bed.endpoint(&receiver.url(), json!({})).await;
    let abort = ("webhook-delivery", "abort-message".to_owned());
    receiver.next([
        Plan::Answer(422, vec![abort]),
        Plan::status(404),
        Plan::status(410),
    ]);
    bed.order("one").await;
    assert_eq!(bed.until("dead").await["reason"], "aborted");
    bed.order("two").await;
    // 404 is tried again, and 410 then ends the endpoint.
    bed.until("failed").await;
    bed.advance(Duration::from_secs(7));
    assert_eq!(bed.until("dead").await["reason"], "gone");
    let endpoint = bed
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
    bed.order("three").await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(bed.deliveries().await.len(), 2);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (bed, receiver, other) = (
        Bed::start().await,
        Receiver::start().await,
        Receiver::start().await,
    );
    bed.endpoint(&receiver.url(), json!({})).await;
    receiver.always(Plan::Answer(302, vec![("location", other.url())]));
    bed.order("one").await;
    let failed = bed.until("failed").await;
    assert_eq!(failed["lastAttempt"]["errorKind"], "redirect");
    assert_eq!(other.count(), 0);
}

#[tokio::test]
async fn retry_after_holds_the_endpoint_and_no_other() {
    let (bed, receiver, other) = (
        Bed::start().await,
        Receiver::start().await,
        Receiver::start().await,
    );
    bed.endpoint(&receiver.url(), json!({})).await;
    bed.endpoint(&other.url(), json!({})).await;
    receiver.next([Plan::Answer(503, vec![("retry-after", "600".to_owned())])]);
    bed.order("one").await;
    receiver.until(1).await;
    other.until(1).await;
    bed.order("two").await;
    other.until(2).await;
    bed.advance(Duration::from_secs(500));
    bed.order("three").await;
    other.until(3).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(receiver.count(), 1, "the endpoint is held");
    bed.advance(Duration::from_secs(110));
    receiver.until(4).await;
}

#[tokio::test]
async fn the_rate_and_the_attempts_at_once_are_bounded() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    bed.endpoint(
        &receiver.url(),
        json!({ "maxPerSecond": 20, "maxInFlight": 3 }),
    )
    .await;
    receiver.always(Plan::Late(Duration::from_millis(30), 200));
    let began = std::time::Instant::now();
    for n in 0..30 {
        bed.order(&n.to_string()).await;
    }
    receiver.until(30).await;
    let most = 20.0 + 20.0 * began.elapsed().as_secs_f64() + 1.0;
    assert!((receiver.count() as f64) <= most);
    assert!(receiver.most_at_once() <= 3, "{}", receiver.most_at_once());
}

#[tokio::test]
async fn an_ordered_endpoint_waits_for_its_first_delivery() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    bed.endpoint(&receiver.url(), json!({ "ordered": true }))
        .await;
    receiver.next([Plan::status(500)]);
    for title in ["one", "two", "three"] {
        bed.order(title).await;
    }
    receiver.until(1).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(receiver.count(), 1, "the others wait");
    bed.advance(Duration::from_secs(7));
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
    let (bed, slow, fast) = (
        Bed::start().await,
        Receiver::start().await,
        Receiver::start().await,
    );
    bed.endpoint(&slow.url(), json!({ "maxInFlight": 50 }))
        .await;
    bed.endpoint(&fast.url(), json!({})).await;
    slow.always(Plan::Late(Duration::from_mins(10), 200));
    for n in 0..40 {
        bed.order(&n.to_string()).await;
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
    let (bed, slow, fast) = (
        Bed::with(slots).await,
        Receiver::start().await,
        Receiver::start().await,
    );
    slow.always(Plan::Late(Duration::from_mins(10), 200));
    let theirs = bed.caller(Some("t2"), "admin");
    for n in 0..40 {
        let url = format!("{}/{n}", slow.url());
        let body = json!({ "url": url, "events": ["*"] });
        let made = theirs.post("/webhooks/endpoints", body).await.unwrap();
        assert_eq!(made.status(), 201, "{:?}", made.text());
    }
    for n in 0..4 {
        let body = json!({ "title": n.to_string() });
        assert_eq!(theirs.post("/orders", body).await.unwrap().status(), 201);
    }
    slow.until(2).await;
    bed.endpoint(&fast.url(), json!({})).await;
    for n in 0..4 {
        bed.order(&n.to_string()).await;
    }
    fast.until(4).await;
    assert_eq!(
        slow.most_at_once(),
        2,
        "a tenant takes at most half of the slots"
    );
}

#[tokio::test]
async fn more_endpoints_than_a_page_of_a_list_get_an_event() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    for n in 0..105 {
        bed.endpoint(&format!("{}/{n}", receiver.url()), json!({}))
            .await;
    }
    bed.order("for all").await;
    receiver.until(105).await;
}

#[tokio::test]
async fn a_large_record_is_sent_whole_up_to_256_kib() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    bed.endpoint(
        &receiver.url(),
        json!({ "events": ["shop.articles.updated"] }),
    )
    .await;
    for (at, (size, whole)) in [(200_000, true), (270_000, false)].into_iter().enumerate() {
        let article = json!({ "title": "x".repeat(size), "status": "draft" });
        let made = bed.admin().post("/articles", article).await.unwrap();
        let made = made.json().unwrap();
        let id = made["id"].as_str().unwrap();
        let path = format!("/articles/{id}");
        let published = json!({ "status": "published" });
        assert_eq!(
            bed.admin().patch(&path, published).await.unwrap().status(),
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
