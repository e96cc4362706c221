//! Messages on their way to browsers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linchpin::Cx;
use linchpin_push::{Priority, PushMessage};
use serde_json::json;

use crate::bed::{Bed, Browser};
use crate::receiver::{Plan, Receiver};

/// The test app, a push service, and a browser of `ada` there.
async fn start() -> (Bed, Receiver, Browser) {
    let (bed, service) = (Bed::start().await, Receiver::start().await);
    let browser = Browser::new();
    bed.subscribe("ada", &browser, &service.url()).await;
    (bed, service, browser)
}

fn order() -> PushMessage {
    PushMessage::new("ada", "Order")
        .body("Text")
        .url("/orders/1")
}

#[tokio::test]
async fn a_request_has_the_headers_of_web_push() {
    let (bed, service, _) = start().await;
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
        assert_eq!(bed.send(&message).await, 1);
        let arrived = service.until(before + 1).await.remove(before);
        assert_eq!(arrived.header("ttl"), ttl);
        assert_eq!(arrived.header("urgency"), urgency);
        assert_eq!(arrived.header("content-encoding"), "aes128gcm");
        assert_eq!(arrived.header("content-type"), "application/octet-stream");
        assert_eq!(arrived.header("content-length"), "615");
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
    bed.until("ada", "sent").await;
    assert_eq!(
        bed.deliveries("ada")[0]["message"],
        "",
        "what was sent is not kept"
    );
}

#[tokio::test]
async fn a_subscription_that_is_gone_is_removed_and_others_get_the_message() {
    for status in [404, 410] {
        let (bed, service, _) = start().await;
        let other = Receiver::start().await;
        bed.subscribe("ada", &Browser::new(), &other.url()).await;
        service.always(Plan::status(status));
        // A message that waits ends with its subscription.
        let later = order().at(linchpin_worker::later(bed.now(), Duration::from_hours(1)));
        bed.send(&later).await;
        assert_eq!(bed.send(&order()).await, 2);
        other.until(1).await;
        let dead = async || {
            let all = bed.deliveries("ada");
            let dead = all.iter().filter(|one| one["reason"] == "gone").count();
            (dead, bed.subscriptions("ada").len())
        };
        for _ in 0..1_000 {
            if dead().await == (2, 1) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(dead().await, (2, 1), "{status}");
        assert_eq!(bed.subscriptions("ada")[0]["endpoint"], other.url());
    }
}

#[tokio::test]
async fn a_refusal_ends_the_message_and_keeps_the_subscription() {
    let (bed, service, _) = start().await;
    for (status, reason) in [
        (413, "payload_too_large"),
        (400, "rejected"),
        (401, "rejected"),
        (403, "rejected"),
    ] {
        service.next([Plan::status(status)]);
        bed.send(&order()).await;
        let dead = bed.until("ada", "dead").await;
        assert_eq!(dead["reason"], reason, "{status}");
        assert_eq!(
            (&dead["providerStatus"], &dead["attempts"]),
            (&json!(status), &json!(1))
        );
        let count = service.count();
        bed.send(&order()).await;
        service.until(count + 1).await;
        bed.until("ada", "sent").await;
    }
    assert_eq!(bed.subscriptions("ada").len(), 1);
    assert_eq!(bed.subscriptions("ada")[0]["failureCount"], 0);
}

#[tokio::test]
async fn a_failure_is_tried_five_times() {
    let (bed, service, _) = start().await;
    service.always(Plan::status(500));
    bed.send(&order().ttl(Duration::from_hours(24))).await;
    for (count, pause) in [(1, 5), (2, 60), (3, 600), (4, 3_600)] {
        service.until(count).await;
        let failed = loop {
            let failed = bed.until("ada", "failed").await;
            if failed["attempts"] == count {
                break failed;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let at = failed["nextRetryAt"].as_i64().unwrap() - bed.now().millis();
        let (least, most) = (pause * 800 - 2_000, pause * 1_200);
        assert!((least..=most).contains(&at), "{pause} s: {at} ms");
        bed.advance(Duration::from_secs(pause.unsigned_abs() * 12 / 10 + 1));
    }
    let dead = bed.until("ada", "dead").await;
    assert_eq!(
        (&dead["reason"], &dead["attempts"]),
        (&json!("exhausted"), &json!(5))
    );
    let bodies: Vec<_> = service.arrived().into_iter().map(|one| one.body).collect();
    assert_eq!(bodies.len(), 5);
    for (at, body) in bodies.iter().enumerate() {
        assert!(
            !bodies[..at].contains(body),
            "each attempt is encrypted anew"
        );
    }
    assert_eq!(bed.subscriptions("ada")[0]["failureCount"], 5);
}

#[tokio::test]
async fn a_retry_after_the_time_of_the_message_is_not_made() {
    let (bed, service, _) = start().await;
    service.always(Plan::status(500));
    bed.send(&order().ttl(Duration::from_secs(20))).await;
    bed.until("ada", "failed").await;
    bed.advance(Duration::from_secs(30));
    let dead = bed.until("ada", "dead").await;
    assert_eq!(dead["reason"], "expired");
    assert_eq!(service.count(), 1);
    // A message that would be tried again too late ends at once.
    bed.send(&order().ttl(Duration::from_secs(1))).await;
    service.until(2).await;
    let dead = bed.until("ada", "dead").await;
    assert_eq!(
        (&dead["reason"], &dead["providerStatus"]),
        (&json!("expired"), &json!(500))
    );
}

#[tokio::test]
async fn a_push_service_that_asks_for_a_pause_gets_it() {
    for (status, header, seconds) in [
        (429, Some("120"), 120),
        (503, None, 60),
        (503, Some("999999"), 3_600),
    ] {
        let (bed, service, _) = start().await;
        bed.subscribe("bob", &Browser::new(), &format!("{}/bob", service.url()))
            .await;
        let headers = header.map(|value| ("retry-after", value.to_owned()));
        service.next([Plan::Answer(status, headers.into_iter().collect())]);
        bed.send(&order()).await;
        service.until(1).await;
        let held = async || {
            let held = bed.until("ada", "pending").await;
            held["nextRetryAt"].as_i64().unwrap() > bed.now().millis()
        };
        while !held().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The whole service waits, for all users.
        bed.send(&PushMessage::new("bob", "x")).await;
        bed.advance(Duration::from_secs(seconds - 5));
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(service.count(), 1, "{status}");
        bed.advance(Duration::from_secs(6));
        service.until(3).await;
        let sent = bed.until("ada", "sent").await;
        assert_eq!(sent["attempts"], 1, "the pause is no attempt");
        bed.until("bob", "sent").await;
    }
}

#[tokio::test]
async fn a_newer_message_replaces_one_that_waits() {
    let (bed, service, _) = start().await;
    let at = linchpin_worker::later(bed.now(), Duration::from_hours(1));
    bed.send(&order().dedup_key("one").at(at)).await;
    bed.send(&order().dedup_key("two").at(at)).await;
    bed.send(&order().body("newer").dedup_key("one").at(at))
        .await;
    let waiting = bed.deliveries("ada");
    assert_eq!(waiting.len(), 2, "{waiting:?}");
    assert!(waiting[0]["message"].as_str().unwrap().contains("newer"));
    assert_eq!(service.count(), 0);
    bed.advance(Duration::from_hours(1));
    service.until(2).await;
}

#[tokio::test]
async fn a_message_of_one_event_is_sent_once() {
    let (bed, service, _) = start().await;
    assert_eq!(bed.send(&order().event("e1")).await, 1);
    assert_eq!(bed.send(&order().event("e1")).await, 0);
    let other = format!("{}/other", service.url());
    bed.subscribe("ada", &Browser::new(), &other).await;
    assert_eq!(
        bed.send(&order().event("e1")).await,
        1,
        "the browser that is new"
    );
    service.until(2).await;
    assert_eq!(bed.deliveries("ada").len(), 2);
}

#[tokio::test]
async fn a_message_of_a_transaction_that_fails_is_not_sent() {
    let (bed, service, _) = start().await;
    let queue = bed.queue();
    let failed = Cx::system("a test")
        .transaction(async |cx| {
            assert_eq!(queue.send(cx, &order()).await?, 1);
            Err::<(), _>(linchpin::Error::not_found())
        })
        .await;
    assert!(failed.is_err());
    bed.send(&order().body("the next one")).await;
    bed.until("ada", "sent").await;
    assert_eq!((bed.deliveries("ada").len(), service.count()), (1, 1));
}

#[tokio::test]
async fn a_message_that_is_not_wanted_any_more_is_not_sent() {
    let is_read = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&is_read);
    let bed = Bed::with(|push| {
        push.wanted(move |_, waiting| {
            let read = asked.load(Ordering::Relaxed);
            async move { Ok(!(read && waiting.notification_id.as_deref() == Some("n1"))) }
        })
    })
    .await;
    let service = Receiver::start().await;
    bed.subscribe("ada", &Browser::new(), &service.url()).await;
    bed.send(&order().notification("n1")).await;
    let dead = bed.until("ada", "dead").await;
    assert_eq!(dead["reason"], "suppressed");
    assert_eq!(service.count(), 0);
    is_read.store(false, Ordering::Relaxed);
    bed.send(&order().notification("n1")).await;
    bed.until("ada", "sent").await;
}

#[tokio::test]
async fn an_error_of_the_app_postpones_one_message_and_no_other() {
    let fails = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&fails);
    let bed = Bed::with(|push| {
        push.wanted(move |_, waiting| {
            let fails = asked.load(Ordering::Relaxed) && waiting.notification_id.is_some();
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
    bed.subscribe("ada", &Browser::new(), &service.url()).await;
    let at = linchpin_worker::later(bed.now(), Duration::from_secs(5));
    bed.send(&order().notification("n1").at(at)).await;
    bed.send(&order().at(at)).await;
    bed.advance(Duration::from_secs(6));
    bed.until("ada", "sent").await;
    bed.until_idle().await;
    let postponed = &bed.deliveries("ada")[1];
    assert_eq!(postponed["status"], "pending");
    assert_eq!(postponed["attempts"], 0);
    assert_eq!(service.count(), 1);
    fails.store(false, Ordering::Relaxed);
    bed.advance(Duration::from_secs(31));
    service.until(2).await;
}

#[tokio::test]
async fn a_message_that_is_too_long_is_dead_at_once() {
    let (bed, service, _) = start().await;
    bed.send(&PushMessage::new("ada", "x".repeat(5_000))).await;
    let dead = bed.until("ada", "dead").await;
    assert_eq!(dead["reason"], "payload_too_large");
    bed.send(&order().body("x".repeat(100_000))).await;
    let arrived = service.until(1).await;
    assert_eq!(arrived[0].header("content-length"), "4096");
}

#[tokio::test]
async fn an_address_that_is_forbidden_now_gets_nothing() {
    let (bed, service, _) = start().await;
    // The network was allowed when the browser subscribed.
    let bed = {
        let keys = bed.keys.clone();
        bed.restarted_with(keys, |push| {
            push.configure(|config| config.allow_cidrs.clear())
        })
        .await
    };
    bed.send(&order()).await;
    let dead = bed.until("ada", "dead").await;
    assert_eq!(dead["reason"], "blocked_address");
    assert_eq!(service.count(), 0);
}

#[tokio::test]
async fn a_browser_acknowledges_own_messages() {
    let (bed, service, _) = start().await;
    let (ada, bob) = (bed.user("ada"), bed.user("bob"));
    let ack = async |user: &linchpin::testing::Client, id: &str| {
        let path = format!("/__push/ack/{id}");
        user.post(&path, json!({})).await.unwrap()
    };
    let at = linchpin_worker::later(bed.now(), Duration::from_hours(1));
    bed.send(&order().at(at)).await;
    let id = bed.deliveries("ada")[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(ack(&ada, &id).await.status(), 404, "it is not sent yet");
    bed.advance(Duration::from_hours(1));
    service.until(1).await;
    bed.until("ada", "sent").await;
    assert_eq!(ack(&bob, &id).await.status(), 404);
    for _ in 0..2 {
        let answer = ack(&ada, &id).await;
        assert_eq!(
            (answer.status(), answer.json().unwrap()),
            (200, json!({ "ok": true }))
        );
    }
    assert_eq!(bed.deliveries("ada")[0]["status"], "delivered");
    assert_eq!(ack(&bob, &id).await.status(), 404);
    assert_eq!(ack(&ada, "unknown").await.status(), 404);
}

#[tokio::test]
async fn a_user_tests_own_browsers_five_times_an_hour() {
    let (bed, service, _) = start().await;
    let ada = bed.user("ada");
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
    let none = bed
        .user("bob")
        .post("/__push/test", json!({}))
        .await
        .unwrap();
    assert_eq!(none.json().unwrap(), json!({ "queued": 0 }));
}

#[tokio::test]
async fn a_result_after_the_end_of_the_lease_changes_nothing() {
    let (bed, service, _) = start().await;
    service.next([Plan::Late(Duration::from_millis(500), 200)]);
    bed.send(&order()).await;
    service.until(1).await;
    bed.take_leases();
    // The answer has come long before this message, which waits for the other worker.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let waiting = &bed.deliveries("ada")[0];
    assert_eq!(
        (&waiting["status"], &waiting["attempts"]),
        (&json!("pending"), &json!(0))
    );
    assert_eq!(service.count(), 1);
    // That worker has died.
    bed.advance(Duration::from_secs(61));
    service.until(2).await;
    bed.until("ada", "sent").await;
}

#[tokio::test]
async fn a_session_that_ends_during_a_request_gets_no_further_message() {
    let (bed, service, _) = start().await;
    service.next([Plan::Late(Duration::from_millis(400), 201)]);
    bed.send(&order()).await;
    service.until(1).await;
    // This one waits for the end of the request.
    assert_eq!(bed.send(&PushMessage::new("ada", "x")).await, 1);
    let watches = linchpin::http::SessionWatches::of(bed.app.adapters());
    let cx = linchpin::Cx::system("a test");
    watches.session_ended(&cx, "ada", "ada").await.unwrap();
    service.idle().await;
    bed.advance(Duration::from_secs(61));
    // A worker has looked once another browser has its message.
    bed.subscribe("bob", &Browser::new(), &format!("{}/bob", service.url()))
        .await;
    bed.send(&PushMessage::new("bob", "x")).await;
    bed.until("bob", "sent").await;
    assert_eq!(service.count(), 2);
    assert_eq!(bed.subscriptions("ada")[0]["status"], "suspended");
    assert_eq!(bed.deliveries("ada")[0]["status"], "pending");
}

#[tokio::test]
async fn an_answer_to_the_user_before_removes_no_browser_of_the_next_user() {
    let bed = Bed::start().await;
    let (service, browser) = (Receiver::start().await, Browser::new());
    bed.subscribe("ada", &browser, &service.url()).await;
    service.next([Plan::Late(Duration::from_millis(400), 410)]);
    bed.send(&order()).await;
    service.until(1).await;
    bed.subscribe("bob", &browser, &service.url()).await;
    service.idle().await;
    bed.send(&PushMessage::new("bob", "x")).await;
    bed.until("bob", "sent").await;
    assert_eq!(bed.subscriptions("bob").len(), 1);
    assert!(bed.subscriptions("ada").is_empty());
}
