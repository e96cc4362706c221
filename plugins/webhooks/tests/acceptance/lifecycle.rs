//! Pauses, rotation, tests, replays, and endpoints that fail for days.

use std::time::Duration;

use serde_json::json;

use crate::bed::Bed;
use crate::receiver::{Plan, Receiver};

#[tokio::test]
async fn a_paused_endpoint_gets_its_deliveries_later() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    let made = bed
        .endpoint(&receiver.url(), json!({ "isActive": false }))
        .await;
    assert_eq!(made["status"], "paused");
    bed.order("one").await;
    let held = bed.until("pending").await;
    assert_eq!(
        (&held["reason"], &held["nextRetryAt"]),
        (&json!("endpoint_disabled"), &json!(null))
    );
    bed.advance(Duration::from_hours(25));
    bed.order("two").await;
    let path = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    while bed.deliveries().await.len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let changed = bed
        .admin()
        .patch(&path, json!({ "status": "active" }))
        .await
        .unwrap();
    assert_eq!(changed.status(), 200, "{:?}", changed.text());
    let arrived = receiver.until(1).await;
    assert_eq!(
        arrived[0].json()["data"]["title"],
        "two",
        "the older one waits for a replay"
    );
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(receiver.count(), 1);
}

#[tokio::test]
async fn both_secrets_sign_during_the_overlap() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    let made = bed.endpoint(&receiver.url(), json!({})).await;
    let path = format!(
        "/webhooks/endpoints/{}/rotate-secret",
        made["id"].as_str().unwrap()
    );
    let rotated = bed
        .admin()
        .post(&path, json!({ "overlapSeconds": 60 }))
        .await
        .unwrap();
    assert_eq!(rotated.status(), 200, "{:?}", rotated.text());
    assert_eq!(rotated.header("cache-control"), Some("no-store"));
    let rotated = rotated.json().unwrap();
    assert_ne!(rotated["secret"], made["secret"]);
    assert!(rotated["previousExpiresAt"].is_string());
    bed.order("one").await;
    let arrived = receiver.until(1).await.remove(0);
    assert_eq!(arrived.header("webhook-signature").split(' ').count(), 2);
    assert_eq!(
        arrived
            .header("x-webhook-signature")
            .matches(",v1=")
            .count(),
        2
    );
    bed.advance(Duration::from_secs(61));
    bed.order("two").await;
    let arrived = receiver.until(2).await.remove(1);
    assert_eq!(arrived.header("webhook-signature").split(' ').count(), 1);
    for wrong in [
        json!({ "overlapSeconds": -1 }),
        json!({ "overlapSeconds": 604_801 }),
        json!({ "secret": "x" }),
    ] {
        let refused = bed.admin().post(&path, &wrong).await.unwrap();
        assert_eq!(refused.status(), 400, "{wrong}");
    }
}

#[tokio::test]
async fn rotations_at_the_same_time_all_answer_a_live_secret() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    let made = bed.endpoint(&receiver.url(), json!({})).await;
    let path = format!(
        "/webhooks/endpoints/{}/rotate-secret",
        made["id"].as_str().unwrap()
    );
    let (a, b) = (bed.admin(), bed.admin());
    let (first, second) = tokio::join!(a.post(&path, json!({})), b.post(&path, json!({})));
    assert_eq!(
        (first.unwrap().status(), second.unwrap().status()),
        (200, 200)
    );
    bed.order("one").await;
    let arrived = receiver.until(1).await.remove(0);
    assert_eq!(arrived.header("webhook-signature").split(' ').count(), 3);
}

#[tokio::test]
async fn a_test_is_sent_once_also_to_a_paused_endpoint() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    let made = bed
        .endpoint(&receiver.url(), json!({ "status": "paused" }))
        .await;
    let path = format!("/webhooks/endpoints/{}/test", made["id"].as_str().unwrap());
    let tested = bed.admin().post(&path, json!({})).await.unwrap();
    assert_eq!(tested.status(), 200, "{:?}", tested.text());
    let tested = tested.json().unwrap();
    assert_eq!(
        (&tested["status"], &tested["ok"], &tested["body"]),
        (&json!(200), &json!(true), &json!("an answer"))
    );
    let arrived = receiver.until(1).await.remove(0);
    assert_eq!(arrived.header("x-webhook-test"), "true");
    assert_eq!(
        arrived.json()["data"],
        json!({ "test": true, "endpointId": made["id"] })
    );
    receiver.next([Plan::status(500)]);
    let failed = bed
        .admin()
        .post(&path, json!({}))
        .await
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(
        (&failed["status"], &failed["ok"]),
        (&json!(500), &json!(false))
    );
    assert_eq!(bed.until("dead").await["isTest"], true);
    bed.advance(Duration::from_mins(1));
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(receiver.count(), 2, "a test is not repeated");
}

#[tokio::test]
async fn a_test_without_an_answer_is_502_and_names_no_address() {
    let bed = Bed::start().await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let made = bed
        .endpoint(&format!("http://127.0.0.1:{port}/"), json!({}))
        .await;
    let path = format!("/webhooks/endpoints/{}/test", made["id"].as_str().unwrap());
    let tested = bed.admin().post(&path, json!({})).await.unwrap();
    assert_eq!(tested.status(), 502);
    let body = tested.json().unwrap();
    assert_eq!(body["code"], "test_delivery_failed");
    assert_eq!(body["details"][0]["path"], "url");
    assert_eq!(body["details"][0]["code"], "connect");
    assert!(!tested.text().unwrap().contains("127.0.0.1"));
}

#[tokio::test]
async fn a_dead_delivery_is_replayed_with_the_same_id() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    bed.endpoint(&receiver.url(), json!({})).await;
    let abort = ("webhook-delivery", "abort-message".to_owned());
    receiver.next([Plan::Answer(400, vec![abort])]);
    bed.order("one").await;
    let dead = bed.until("dead").await;
    let path = format!(
        "/webhooks/deliveries/{}/replay",
        dead["id"].as_str().unwrap()
    );
    let replayed = bed.admin().post(&path, json!({})).await.unwrap();
    assert_eq!(replayed.status(), 200, "{:?}", replayed.text());
    assert_eq!(
        replayed.json().unwrap(),
        json!({ "replayed": true, "deliveryId": dead["id"] })
    );
    let arrived = receiver.until(2).await;
    assert_eq!(
        arrived[0].header("webhook-id"),
        arrived[1].header("webhook-id")
    );
    assert_eq!(bed.until("delivered").await["attempts"], 1);
    receiver.next([Plan::status(500)]);
    bed.order("two").await;
    let failed = bed.until("failed").await;
    let path = format!(
        "/webhooks/deliveries/{}/replay",
        failed["id"].as_str().unwrap()
    );
    assert_eq!(
        bed.admin().post(&path, json!({})).await.unwrap().status(),
        409
    );
    let unknown = bed
        .admin()
        .post("/webhooks/deliveries/none/replay", json!({}))
        .await
        .unwrap();
    assert_eq!(unknown.status(), 404);
    let foreign = bed
        .caller(Some("t2"), "admin")
        .post(&path, json!({}))
        .await
        .unwrap();
    assert_eq!(foreign.status(), 404);
}

#[tokio::test]
async fn an_endpoint_that_fails_for_five_days_is_disabled() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    let made = bed.endpoint(&receiver.url(), json!({})).await;
    receiver.always(Plan::status(500));
    let path = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    for attempt in 0..60 {
        let title = attempt.to_string();
        bed.order(&title).await;
        // The result is written before the clock moves on. The attempts of earlier orders may
        // disable the endpoint at any time.
        let newest = async || bed.deliveries().await.swap_remove(0);
        while bed.get(&path).await["status"] == "active"
            && (bed.deliveries().await.len() <= attempt || newest().await["status"] == "pending")
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bed.advance(Duration::from_hours(4));
        if bed.get(&path).await["status"] == "disabled" {
            assert!(
                attempt >= 29,
                "it failed for {attempt} times four hours only"
            );
            break;
        }
    }
    let endpoint = bed.get(&path).await;
    assert_eq!(
        (&endpoint["status"], &endpoint["disabledReason"]),
        (&json!("disabled"), &json!("failing"))
    );
    receiver.always(Plan::status(200));
    let before = receiver.count();
    let enabled = bed
        .admin()
        .patch(&path, json!({ "enabled": true }))
        .await
        .unwrap();
    assert_eq!(enabled.status(), 200, "{:?}", enabled.text());
    receiver.until(before + 1).await;
    // The result of the attempt ends the time of failures.
    for _ in 0..1_000 {
        if bed.get(&path).await["failingSince"].is_null() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let endpoint = bed.get(&path).await;
    assert_eq!(
        (&endpoint["status"], &endpoint["failingSince"]),
        (&json!("active"), &json!(null))
    );
}

#[tokio::test]
async fn a_deleted_endpoint_cancels_its_deliveries() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    let made = bed.endpoint(&receiver.url(), json!({})).await;
    receiver.next([Plan::status(500)]);
    bed.order("one").await;
    bed.until("failed").await;
    let path = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    assert_eq!(bed.admin().delete(&path).await.unwrap().status(), 204);
    assert_eq!(bed.until("cancelled").await["reason"], "endpoint_deleted");
}

#[tokio::test]
async fn no_route_leads_to_a_lease_or_a_transition() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    let made = bed.endpoint(&receiver.url(), json!({})).await;
    let id = made["id"].as_str().unwrap();
    for path in [
        "lease",
        "renew",
        "succeed",
        "free",
        "wake",
        "begin-recovery",
        "lock",
    ] {
        for path in [
            format!("/webhooks/endpoints/{path}"),
            format!("/webhooks/endpoints/{id}/{path}"),
        ] {
            let status = bed.admin().post(&path, json!({})).await.unwrap().status();
            assert!(matches!(status, 404 | 405), "{path}: {status}");
        }
    }
    for path in ["cancel", "hold", "release", "reset"] {
        let path = format!("/webhooks/deliveries/{path}");
        let status = bed.admin().post(&path, json!({})).await.unwrap().status();
        assert!(matches!(status, 404 | 405), "{path}: {status}");
    }
    let private = [
        "sealed",
        "leaseToken",
        "leaseUntil",
        "dueAt",
        "allowance",
        "heldUntil",
    ];
    let patch = |name: &str| json!({ name: "x" });
    for name in private {
        let path = format!("/webhooks/endpoints/{id}");
        let status = bed
            .admin()
            .patch(&path, patch(name))
            .await
            .unwrap()
            .status();
        assert_eq!(status, 400, "{name}");
    }
}

#[tokio::test]
async fn a_recovery_sends_what_an_endpoint_missed() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    let other = Receiver::start().await;
    bed.endpoint(&other.url(), json!({})).await;
    let began = linchpin::Timestamp::system_now().to_string();
    let abort = || Plan::Answer(400, vec![("webhook-delivery", "abort-message".to_owned())]);
    let made = bed
        .endpoint(
            &receiver.url(),
            json!({ "events": ["shop.orders.created"] }),
        )
        .await;
    receiver.next([abort()]);
    bed.order("dead").await;
    receiver.until(1).await;
    bed.order("delivered").await;
    receiver.until(2).await;
    let path = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    // An event that it wants from now on, and of which only the other endpoint has a delivery.
    let order = bed.order("paid").await;
    receiver.until(3).await;
    let pay = format!("/orders/{}/pay", order["id"].as_str().unwrap());
    assert_eq!(
        bed.admin()
            .patch(&pay, json!({ "paid": true }))
            .await
            .unwrap()
            .status(),
        200
    );
    // Three orders, the announcement of the dead delivery, and the payment.
    other.until(5).await;
    bed.admin()
        .patch(&path, json!({ "events": ["shop.orders.*"] }))
        .await
        .unwrap();
    while bed.get("/webhooks/deliveries?status=pending").await["items"] != json!([]) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let recover = format!("{path}/recover");
    let recovered = bed
        .admin()
        .post(&recover, json!({ "since": began }))
        .await
        .unwrap();
    assert_eq!(recovered.status(), 202, "{:?}", recovered.text());
    assert_eq!(recovered.json().unwrap()["queued"], 2);
    let arrived = receiver.until(5).await;
    let mut titles: Vec<String> = arrived[3..]
        .iter()
        .map(|one| format!("{} {}", one.json()["type"], one.json()["data"]["title"]))
        .collect();
    titles.sort();
    assert_eq!(
        titles,
        [
            r#""shop.orders.created" "dead""#,
            r#""shop.orders.pay" "paid""#
        ]
    );
    assert_eq!(
        arrived[0].header("webhook-id"),
        arrived[3].header("webhook-id")
    );
    // Nothing is left to recover.
    while bed.get("/webhooks/deliveries?status=pending").await["items"] != json!([]) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let again = bed
        .admin()
        .post(&recover, json!({ "since": began }))
        .await
        .unwrap();
    assert_eq!(again.json().unwrap()["queued"], 0);
    for wrong in [
        json!({}),
        json!({ "since": "2020-01-01T00:00:00.000Z" }),
        json!({ "since": began, "statuses": ["pending"] }),
        json!({ "since": began, "statuses": ["lost"] }),
    ] {
        let refused = bed.admin().post(&recover, &wrong).await.unwrap();
        assert_eq!(refused.status(), 400, "{wrong}: {:?}", refused.text());
    }
    let foreign = bed
        .caller(Some("t2"), "admin")
        .post(&recover, json!({ "since": began }))
        .await;
    assert_eq!(foreign.unwrap().status(), 404);
}

#[tokio::test]
async fn other_endpoints_are_told_of_dead_deliveries_and_disabled_endpoints() {
    let (bed, receiver, watcher) = (
        Bed::start().await,
        Receiver::start().await,
        Receiver::start().await,
    );
    let made = bed.endpoint(&receiver.url(), json!({})).await;
    bed.endpoint(&watcher.url(), json!({ "events": ["webhooks.*"] }))
        .await;
    receiver.next([Plan::status(410)]);
    bed.order("one").await;
    let arrived = watcher.until(2).await;
    let mut told: Vec<serde_json::Value> =
        arrived.iter().map(crate::receiver::Arrived::json).collect();
    told.sort_by_key(|body| body["type"].to_string());
    assert_eq!(told[0]["type"], "webhooks.delivery.dead");
    assert_eq!(
        (&told[0]["data"]["endpointId"], &told[0]["data"]["reason"]),
        (&made["id"], &json!("gone"))
    );
    assert_eq!(told[1]["type"], "webhooks.endpoint.disabled");
    assert_eq!(
        told[1]["data"],
        json!({ "endpointId": made["id"], "reason": "gone" })
    );
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(receiver.count(), 1, "an endpoint hears nothing of itself");
}

#[tokio::test]
async fn attempts_show_addresses_only_if_the_app_says_so() {
    for (shows, expected) in [(false, json!(null)), (true, json!("127.0.0.1"))] {
        let bed = Bed::with(|config| config.show_addresses = shows).await;
        let receiver = Receiver::start().await;
        bed.endpoint(&receiver.url(), json!({})).await;
        bed.order("one").await;
        let delivery = bed.until("delivered").await;
        let path = format!(
            "/webhooks/attempts?deliveryId={}",
            delivery["id"].as_str().unwrap()
        );
        assert_eq!(bed.get(&path).await["items"][0]["address"], expected);
    }
}

#[tokio::test]
async fn a_replay_neither_counts_as_a_failure_nor_heals() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    let made = bed.endpoint(&receiver.url(), json!({})).await;
    let endpoint = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    let abort = || {
        let header = ("webhook-delivery", "abort-message".to_owned());
        Plan::Answer(400, vec![header])
    };
    receiver.next([abort()]);
    bed.order("one").await;
    let dead = bed.until("dead").await;
    let before = bed.get(&endpoint).await;
    assert_eq!(before["consecutiveFailures"], 1);
    let path = format!("/webhooks/deliveries/{}", dead["id"].as_str().unwrap());
    for (plan, status) in [(abort(), "dead"), (Plan::status(200), "delivered")] {
        bed.advance(Duration::from_secs(2));
        receiver.next([plan]);
        let count = receiver.count();
        let replayed = bed.admin().post(&format!("{path}/replay"), json!({})).await;
        assert_eq!(replayed.unwrap().status(), 200);
        receiver.until(count + 1).await;
        bed.until(status).await;
        let after = bed.get(&endpoint).await;
        for fact in [
            "consecutiveFailures",
            "failingSince",
            "lastFailureAt",
            "lastSuccessAt",
        ] {
            assert_eq!(after[fact], before[fact], "{status}: {fact}");
        }
    }
    let attempts = bed.get(&format!("{path}/attempts")).await;
    let triggers: Vec<_> = attempts["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attempt| attempt["trigger"].as_str().unwrap())
        .collect();
    assert_eq!(triggers.iter().filter(|one| **one == "replay").count(), 2);
    assert_eq!(triggers.iter().filter(|one| **one == "schedule").count(), 1);
}

#[tokio::test]
async fn a_delivery_that_was_held_too_long_stops_no_other_and_is_recovered() {
    for ordered in [true, false] {
        let (bed, receiver) = (Bed::start().await, Receiver::start().await);
        let began = linchpin::Timestamp::system_now().to_string();
        let paused = json!({ "status": "paused", "ordered": ordered });
        let made = bed.endpoint(&receiver.url(), paused).await;
        let path = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
        bed.order("old").await;
        bed.until("pending").await;
        bed.advance(Duration::from_hours(25));
        let active = json!({ "status": "active" });
        assert_eq!(
            bed.admin().patch(&path, active).await.unwrap().status(),
            200
        );
        bed.order("new").await;
        let arrived = receiver.until(1).await;
        assert_eq!(arrived[0].json()["data"]["title"], "new");
        bed.until("delivered").await;
        let recover = bed
            .admin()
            .post(&format!("{path}/recover"), json!({ "since": began }))
            .await
            .unwrap();
        assert_eq!(recover.json().unwrap()["queued"], 1);
        let arrived = receiver.until(2).await;
        assert_eq!(arrived[1].json()["data"]["title"], "old");
    }
}
