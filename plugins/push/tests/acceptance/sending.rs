//! Tests of the delivery of messages to browsers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linchpin::Cx;
use linchpin_push::{Priority, PushMessage};
use serde_json::json;

use crate::receiver::{Plan, Receiver};
use crate::test_app::{Browser, TestApp};

/// The test app, a push service, and a browser of `ada` there.
async fn start() -> (TestApp, Receiver, Browser) {
    let (test_app, service) = (TestApp::start().await, Receiver::start().await);
    let browser = Browser::new();
    test_app.subscribe("ada", &browser, &service.url()).await;
    (test_app, service, browser)
}

fn order() -> PushMessage {
    PushMessage::new("ada", "Order")
        .body("Text")
        .url("/orders/1")
}

#[tokio::test]
async fn a_request_has_the_headers_of_web_push() {
    let (test_app, service, _) = start().await;
    for (message, ttl, urgency) in [
        (order().priority(Priority::Low), "43200", "low"),
        (order(), "86400", "normal"),
        (
            order().priority(Priority::High).dedup_key("k"),
            "259200",
            "high",
        ),
        (
            order().priority(Priority::High).quiet(true),
            "259200",
            "low",
        ),
        (
            order().priority(Priority::Urgent).quiet(true),
            "86400",
            "high",
        ),
        (order().ttl(Duration::ZERO), "0", "normal"),
    ] {
        let before = service.count();
        assert_eq!(test_app.send(&message).await, 1);
        let arrived = service.until(before + 1).await.remove(before);
        assert_eq!(arrived.header("ttl"), ttl);
        assert_eq!(arrived.header("urgency"), urgency);
        assert_eq!(arrived.header("content-encoding"), "aes128gcm");
        assert_eq!(arrived.header("content-type"), "application/octet-stream");
        // Short messages are padded to 512 bytes; encryption adds 103.
        assert_eq!(arrived.header("content-length"), "615");
        // Only a message with a `dedup_key` has a topic.
        let topic = arrived.header("topic");
        assert_eq!(
            topic.len(),
            if ttl == "259200" && urgency == "high" {
                32
            } else {
                0
            }
        );
    }
    test_app.until("ada", "sent").await;
    assert_eq!(
        test_app.deliveries("ada")[0]["message"],
        "",
        "the text of a sent message is not stored"
    );
}

#[tokio::test]
async fn a_subscription_that_is_gone_is_removed_and_others_get_the_message() {
    for status in [404, 410] {
        let (test_app, service, _) = start().await;
        let other = Receiver::start().await;
        test_app
            .subscribe("ada", &Browser::new(), &other.url())
            .await;
        service.always(Plan::status(status));
        // This message is not due yet. It is given up because its subscription is removed.
        let later = order().at(linchpin_worker::later(
            test_app.now(),
            Duration::from_hours(1),
        ));
        test_app.send(&later).await;
        assert_eq!(test_app.send(&order()).await, 2);
        other.until(1).await;
        let dead = async || {
            let all = test_app.deliveries("ada");
            let dead = all.iter().filter(|one| one["reason"] == "gone").count();
            (dead, test_app.subscriptions("ada").len())
        };
        for _ in 0..6_000 {
            if dead().await == (2, 1) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(dead().await, (2, 1), "{status}");
        assert_eq!(test_app.subscriptions("ada")[0]["endpoint"], other.url());
    }
}

#[tokio::test]
async fn a_refused_message_is_given_up_and_the_subscription_is_kept() {
    let (test_app, service, _) = start().await;
    for (status, reason) in [
        (413, "payload_too_large"),
        (400, "rejected"),
        (401, "rejected"),
        (403, "rejected"),
    ] {
        service.next([Plan::status(status)]);
        test_app.send(&order()).await;
        let dead = test_app.until("ada", "dead").await;
        assert_eq!(dead["reason"], reason, "{status}");
        assert_eq!(
            (&dead["providerStatus"], &dead["attempts"]),
            (&json!(status), &json!(1))
        );
        let count = service.count();
        test_app.send(&order()).await;
        service.until(count + 1).await;
        test_app.until("ada", "sent").await;
    }
    assert_eq!(test_app.subscriptions("ada").len(), 1);
    assert_eq!(test_app.subscriptions("ada")[0]["failureCount"], 0);
}

#[tokio::test]
async fn a_failing_message_is_tried_five_times() {
    let (test_app, service, _) = start().await;
    service.always(Plan::status(500));
    test_app.send(&order().ttl(Duration::from_hours(24))).await;
    for (count, pause) in [(1, 5), (2, 60), (3, 600), (4, 3_600)] {
        service.until(count).await;
        let failed = loop {
            let failed = test_app.until("ada", "failed").await;
            if failed["attempts"] == count {
                break failed;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let at = failed["nextRetryAt"].as_i64().unwrap() - test_app.now().millis();
        let (least, most) = (pause * 800 - 2_000, pause * 1_200);
        assert!((least..=most).contains(&at), "{pause} s: {at} ms");
        test_app.advance(Duration::from_secs(pause.unsigned_abs() * 12 / 10 + 1));
    }
    let dead = test_app.until("ada", "dead").await;
    assert_eq!(
        (&dead["reason"], &dead["attempts"]),
        (&json!("exhausted"), &json!(5))
    );
    let bodies: Vec<_> = service.arrived().into_iter().map(|one| one.body).collect();
    assert_eq!(bodies.len(), 5);
    for (at, body) in bodies.iter().enumerate() {
        assert!(
            !bodies[..at].contains(body),
            "each attempt is encrypted with new keys"
        );
    }
    assert_eq!(test_app.subscriptions("ada")[0]["failureCount"], 5);
}

#[tokio::test]
async fn a_message_is_not_sent_again_after_its_lifetime() {
    let (test_app, service, _) = start().await;
    service.always(Plan::status(500));
    test_app.send(&order().ttl(Duration::from_secs(20))).await;
    test_app.until("ada", "failed").await;
    test_app.advance(Duration::from_secs(30));
    let dead = test_app.until("ada", "dead").await;
    assert_eq!(dead["reason"], "expired");
    assert_eq!(service.count(), 1);
    // If the next attempt would be after the lifetime of the message, the message is given up
    // immediately.
    test_app.send(&order().ttl(Duration::from_secs(1))).await;
    service.until(2).await;
    let dead = test_app.until("ada", "dead").await;
    assert_eq!(
        (&dead["reason"], &dead["providerStatus"]),
        (&json!("expired"), &json!(500))
    );
}

#[tokio::test]
async fn no_message_is_sent_during_the_pause_that_a_push_service_requests() {
    for (status, header, seconds) in [
        (429, Some("120"), 120),
        (503, None, 60),
        (503, Some("999999"), 3_600),
    ] {
        let (test_app, service, _) = start().await;
        test_app
            .subscribe("bob", &Browser::new(), &format!("{}/bob", service.url()))
            .await;
        let headers = header.map(|value| ("retry-after", value.to_owned()));
        service.next([Plan::Answer(status, headers.into_iter().collect())]);
        test_app.send(&order()).await;
        service.until(1).await;
        let is_postponed = async || {
            let waiting = test_app.until("ada", "pending").await;
            waiting["nextRetryAt"].as_i64().unwrap() > test_app.now().millis()
        };
        while !is_postponed().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The pause applies to the whole push service, for all users.
        test_app.send(&PushMessage::new("bob", "x")).await;
        test_app.advance(Duration::from_secs(seconds - 5));
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(service.count(), 1, "{status}");
        test_app.advance(Duration::from_secs(6));
        service.until(3).await;
        let sent = test_app.until("ada", "sent").await;
        assert_eq!(sent["attempts"], 1, "a pause does not count as an attempt");
        test_app.until("bob", "sent").await;
    }
}

#[tokio::test]
async fn a_newer_message_replaces_one_that_waits() {
    let (test_app, service, _) = start().await;
    let at = linchpin_worker::later(test_app.now(), Duration::from_hours(1));
    test_app.send(&order().dedup_key("one").at(at)).await;
    test_app.send(&order().dedup_key("two").at(at)).await;
    test_app
        .send(&order().body("newer").dedup_key("one").at(at))
        .await;
    let waiting = test_app.deliveries("ada");
    assert_eq!(waiting.len(), 2, "{waiting:?}");
    assert!(waiting[0]["message"].as_str().unwrap().contains("newer"));
    assert_eq!(service.count(), 0);
    test_app.advance(Duration::from_hours(1));
    service.until(2).await;
}

#[tokio::test]
async fn a_message_of_an_event_is_sent_to_each_browser_once() {
    let (test_app, service, _) = start().await;
    assert_eq!(test_app.send(&order().event("e1")).await, 1);
    assert_eq!(test_app.send(&order().event("e1")).await, 0);
    let other = format!("{}/other", service.url());
    test_app.subscribe("ada", &Browser::new(), &other).await;
    assert_eq!(
        test_app.send(&order().event("e1")).await,
        1,
        "only the new browser gets the message"
    );
    service.until(2).await;
    assert_eq!(test_app.deliveries("ada").len(), 2);
}

#[tokio::test]
async fn a_message_of_a_rolled_back_transaction_is_not_sent() {
    let (test_app, service, _) = start().await;
    let queue = test_app.queue();
    let failed = Cx::system("a test")
        .transaction(async |cx| {
            assert_eq!(queue.send(cx, &order()).await?, 1);
            Err::<(), _>(linchpin::Error::not_found())
        })
        .await;
    assert!(failed.is_err());
    test_app.send(&order().body("the next one")).await;
    test_app.until("ada", "sent").await;
    assert_eq!((test_app.deliveries("ada").len(), service.count()), (1, 1));
}

#[tokio::test]
async fn a_message_that_is_no_longer_wanted_is_not_sent() {
    let is_read = Arc::new(AtomicBool::new(true));
    let is_read_now = Arc::clone(&is_read);
    let test_app = TestApp::with(|push| {
        push.wanted(move |_, waiting| {
            let read = is_read_now.load(Ordering::Relaxed);
            async move { Ok(!(read && waiting.notification_id.as_deref() == Some("n1"))) }
        })
    })
    .await;
    let service = Receiver::start().await;
    test_app
        .subscribe("ada", &Browser::new(), &service.url())
        .await;
    test_app.send(&order().notification("n1")).await;
    let dead = test_app.until("ada", "dead").await;
    assert_eq!(dead["reason"], "suppressed");
    assert_eq!(service.count(), 0);
    is_read.store(false, Ordering::Relaxed);
    test_app.send(&order().notification("n1")).await;
    test_app.until("ada", "sent").await;
}

#[tokio::test]
async fn an_error_in_the_wanted_check_postpones_one_message_only() {
    let fails = Arc::new(AtomicBool::new(true));
    let fails_now = Arc::clone(&fails);
    let test_app = TestApp::with(|push| {
        push.wanted(move |_, waiting| {
            let fails = fails_now.load(Ordering::Relaxed) && waiting.notification_id.is_some();
            async move {
                if fails {
                    Err(linchpin::Error::internal("no answer"))
                } else {
                    Ok(true)
                }
            }
        })
    })
    .await;
    let service = Receiver::start().await;
    test_app
        .subscribe("ada", &Browser::new(), &service.url())
        .await;
    let at = linchpin_worker::later(test_app.now(), Duration::from_secs(5));
    test_app.send(&order().notification("n1").at(at)).await;
    test_app.send(&order().at(at)).await;
    test_app.advance(Duration::from_secs(6));
    test_app.until("ada", "sent").await;
    test_app.until_idle().await;
    let postponed = &test_app.deliveries("ada")[1];
    assert_eq!(postponed["status"], "pending");
    assert_eq!(postponed["attempts"], 0);
    assert_eq!(service.count(), 1);
    fails.store(false, Ordering::Relaxed);
    test_app.advance(Duration::from_secs(31));
    service.until(2).await;
}

#[tokio::test]
async fn a_message_that_is_too_long_is_given_up_immediately() {
    let (test_app, service, _) = start().await;
    test_app
        .send(&PushMessage::new("ada", "x".repeat(5_000)))
        .await;
    let dead = test_app.until("ada", "dead").await;
    assert_eq!(dead["reason"], "payload_too_large");
    test_app.send(&order().body("x".repeat(100_000))).await;
    let arrived = service.until(1).await;
    assert_eq!(arrived[0].header("content-length"), "4096");
}

#[tokio::test]
async fn no_message_is_sent_to_an_address_that_is_no_longer_allowed() {
    let (test_app, service, _) = start().await;
    // The network was allowed when the browser subscribed.
    let test_app = {
        let keys = test_app.keys.clone();
        test_app
            .restarted_with(keys, |push| {
                push.configure(|config| config.allow_cidrs.clear())
            })
            .await
    };
    test_app.send(&order()).await;
    let dead = test_app.until("ada", "dead").await;
    assert_eq!(dead["reason"], "blocked_address");
    assert_eq!(service.count(), 0);
}

#[tokio::test]
async fn only_sent_messages_of_the_same_user_can_be_acknowledged() {
    let (test_app, service, _) = start().await;
    let (ada, bob) = (test_app.user("ada"), test_app.user("bob"));
    let ack = async |user: &linchpin::testing::Client, id: &str| {
        let path = format!("/__push/ack/{id}");
        user.post(&path, json!({})).await.unwrap()
    };
    let at = linchpin_worker::later(test_app.now(), Duration::from_hours(1));
    test_app.send(&order().at(at)).await;
    let id = test_app.deliveries("ada")[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(ack(&ada, &id).await.status(), 404, "it is not sent yet");
    test_app.advance(Duration::from_hours(1));
    service.until(1).await;
    test_app.until("ada", "sent").await;
    assert_eq!(ack(&bob, &id).await.status(), 404);
    for _ in 0..2 {
        let answer = ack(&ada, &id).await;
        assert_eq!(
            (answer.status(), answer.json().unwrap()),
            (200, json!({ "ok": true }))
        );
    }
    assert_eq!(test_app.deliveries("ada")[0]["status"], "delivered");
    assert_eq!(ack(&bob, &id).await.status(), 404);
    assert_eq!(ack(&ada, "unknown").await.status(), 404);
}

#[tokio::test]
async fn a_user_can_test_own_browsers_at_most_five_times_an_hour() {
    let (test_app, service, _) = start().await;
    let ada = test_app.user("ada");
    for count in 1..=5 {
        let answer = ada.post("/__push/test", json!({})).await.unwrap();
        assert_eq!(
            (answer.status(), answer.json().unwrap()),
            (202, json!({ "queued": 1 }))
        );
        service.until(count).await;
    }
    let answer = ada.post("/__push/test", json!({})).await.unwrap();
    assert_eq!(answer.status(), 429);
    assert!(answer.header("retry-after").is_some());
    let none = test_app
        .user("bob")
        .post("/__push/test", json!({}))
        .await
        .unwrap();
    assert_eq!(none.json().unwrap(), json!({ "queued": 0 }));
}

#[tokio::test]
async fn a_result_after_the_end_of_the_lease_changes_nothing() {
    let (test_app, service, _) = start().await;
    service.next([Plan::Late(Duration::from_millis(500), 200)]);
    test_app.send(&order()).await;
    service.until(1).await;
    test_app.take_leases();
    // The response arrives after 500 ms. By then another worker has the lease, so the result is not
    // written.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let waiting = &test_app.deliveries("ada")[0];
    assert_eq!(
        (&waiting["status"], &waiting["attempts"]),
        (&json!("pending"), &json!(0))
    );
    assert_eq!(service.count(), 1);
    // The other worker has died: its lease ends.
    test_app.advance(Duration::from_secs(61));
    service.until(2).await;
    test_app.until("ada", "sent").await;
}

#[tokio::test]
async fn a_session_that_ends_during_a_request_gets_no_further_message() {
    let (test_app, service, _) = start().await;
    service.next([Plan::Late(Duration::from_millis(400), 201)]);
    test_app.send(&order()).await;
    service.until(1).await;
    // This message waits for the end of the request.
    assert_eq!(test_app.send(&PushMessage::new("ada", "x")).await, 1);
    let watches = linchpin::http::SessionWatches::of(test_app.app.adapters());
    let cx = linchpin::Cx::system("a test");
    watches.session_ended(&cx, "ada", "ada").await.unwrap();
    service.idle().await;
    test_app.advance(Duration::from_secs(61));
    // When the message to another browser has arrived, a worker has also checked this subscription.
    test_app
        .subscribe("bob", &Browser::new(), &format!("{}/bob", service.url()))
        .await;
    test_app.send(&PushMessage::new("bob", "x")).await;
    test_app.until("bob", "sent").await;
    assert_eq!(service.count(), 2);
    assert_eq!(test_app.subscriptions("ada")[0]["status"], "suspended");
    assert_eq!(test_app.deliveries("ada")[0]["status"], "pending");
}

#[tokio::test]
async fn a_late_response_for_the_previous_user_keeps_the_subscription_of_the_next() {
    let test_app = TestApp::start().await;
    let (service, browser) = (Receiver::start().await, Browser::new());
    test_app.subscribe("ada", &browser, &service.url()).await;
    service.next([Plan::Late(Duration::from_millis(400), 410)]);
    test_app.send(&order()).await;
    service.until(1).await;
    test_app.subscribe("bob", &browser, &service.url()).await;
    service.idle().await;
    test_app.send(&PushMessage::new("bob", "x")).await;
    test_app.until("bob", "sent").await;
    assert_eq!(test_app.subscriptions("bob").len(), 1);
    assert!(test_app.subscriptions("ada").is_empty());
}
