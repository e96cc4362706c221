//! Tests of pauses, rotations of secrets, test deliveries, replays, recoveries, and endpoints that
//! fail for days.

use std::time::Duration;

use serde_json::json;

use crate::bed::TestApp;
use crate::receiver::{Plan, Receiver};

#[tokio::test]
async fn after_a_pause_only_deliveries_of_the_last_24_hours_are_sent() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let made = test_app
        .endpoint(&receiver.url(), json!({ "isActive": false }))
        .await;
    assert_eq!(made["status"], "paused");
    test_app.order("one").await;
    let waiting = test_app.until("pending").await;
    assert_eq!(
        (&waiting["reason"], &waiting["nextRetryAt"]),
        (&json!("endpoint_disabled"), &json!(null))
    );
    test_app.advance(Duration::from_hours(25));
    test_app.order("two").await;
    let path = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    while test_app.deliveries().await.len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let changed = test_app
        .admin()
        .patch(&path, json!({ "status": "active" }))
        .await
        .unwrap();
    assert_eq!(changed.status(), 200, "{:?}", changed.text());
    let arrived = receiver.until(1).await;
    assert_eq!(
        arrived[0].json()["data"]["title"],
        "two",
        "the delivery of 25 hours ago waits for a replay"
    );
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(receiver.count(), 1);
}

#[tokio::test]
async fn both_secrets_sign_during_the_overlap() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let made = test_app.endpoint(&receiver.url(), json!({})).await;
    let path = format!(
        "/webhooks/endpoints/{}/rotate-secret",
        made["id"].as_str().unwrap()
    );
    let rotated = test_app
        .admin()
        .post(&path, json!({ "overlapSeconds": 60 }))
        .await
        .unwrap();
    assert_eq!(rotated.status(), 200, "{:?}", rotated.text());
    assert_eq!(rotated.header("cache-control"), Some("no-store"));
    let rotated = rotated.json().unwrap();
    assert_ne!(rotated["secret"], made["secret"]);
    assert!(rotated["previousExpiresAt"].is_string());
    test_app.order("one").await;
    let arrived = receiver.until(1).await.remove(0);
    assert_eq!(arrived.header("webhook-signature").split(' ').count(), 2);
    assert_eq!(
        arrived
            .header("x-webhook-signature")
            .matches(",v1=")
            .count(),
        2
    );
    test_app.advance(Duration::from_secs(61));
    test_app.order("two").await;
    let arrived = receiver.until(2).await.remove(1);
    assert_eq!(arrived.header("webhook-signature").split(' ').count(), 1);
    for wrong in [
        json!({ "overlapSeconds": -1 }),
        json!({ "overlapSeconds": 604_801 }),
        json!({ "secret": "x" }),
    ] {
        let refused = test_app.admin().post(&path, &wrong).await.unwrap();
        assert_eq!(refused.status(), 400, "{wrong}");
    }
}

#[tokio::test]
async fn concurrent_rotations_all_return_a_valid_secret() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let made = test_app.endpoint(&receiver.url(), json!({})).await;
    let path = format!(
        "/webhooks/endpoints/{}/rotate-secret",
        made["id"].as_str().unwrap()
    );
    let (a, b) = (test_app.admin(), test_app.admin());
    let (first, second) = tokio::join!(a.post(&path, json!({})), b.post(&path, json!({})));
    assert_eq!(
        (first.unwrap().status(), second.unwrap().status()),
        (200, 200)
    );
    test_app.order("one").await;
    let arrived = receiver.until(1).await.remove(0);
    assert_eq!(arrived.header("webhook-signature").split(' ').count(), 3);
}

#[tokio::test]
async fn a_test_is_sent_once_also_to_a_paused_endpoint() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let made = test_app
        .endpoint(&receiver.url(), json!({ "status": "paused" }))
        .await;
    let path = format!("/webhooks/endpoints/{}/test", made["id"].as_str().unwrap());
    let tested = test_app.admin().post(&path, json!({})).await.unwrap();
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
    let failed = test_app
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
    assert_eq!(test_app.until("dead").await["isTest"], true);
    test_app.advance(Duration::from_mins(1));
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(receiver.count(), 2, "a test is not repeated");
}

#[tokio::test]
async fn a_test_without_an_answer_is_502_and_names_no_address() {
    let test_app = TestApp::start().await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let made = test_app
        .endpoint(&format!("http://127.0.0.1:{port}/"), json!({}))
        .await;
    let path = format!("/webhooks/endpoints/{}/test", made["id"].as_str().unwrap());
    let tested = test_app.admin().post(&path, json!({})).await.unwrap();
    assert_eq!(tested.status(), 502);
    let body = tested.json().unwrap();
    assert_eq!(body["code"], "test_delivery_failed");
    assert_eq!(body["details"][0]["path"], "url");
    assert_eq!(body["details"][0]["code"], "connect");
    assert!(!tested.text().unwrap().contains("127.0.0.1"));
}

#[tokio::test]
async fn a_dead_delivery_is_replayed_with_the_same_id() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    test_app.endpoint(&receiver.url(), json!({})).await;
    let abort = ("webhook-delivery", "abort-message".to_owned());
    receiver.next([Plan::Answer(400, vec![abort])]);
    test_app.order("one").await;
    let dead = test_app.until("dead").await;
    let path = format!(
        "/webhooks/deliveries/{}/replay",
        dead["id"].as_str().unwrap()
    );
    let replayed = test_app.admin().post(&path, json!({})).await.unwrap();
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
    assert_eq!(test_app.until("delivered").await["attempts"], 1);
    receiver.next([Plan::status(500)]);
    test_app.order("two").await;
    let failed = test_app.until("failed").await;
    let path = format!(
        "/webhooks/deliveries/{}/replay",
        failed["id"].as_str().unwrap()
    );
    assert_eq!(
        test_app
            .admin()
            .post(&path, json!({}))
            .await
            .unwrap()
            .status(),
        409
    );
    let unknown = test_app
        .admin()
        .post("/webhooks/deliveries/none/replay", json!({}))
        .await
        .unwrap();
    assert_eq!(unknown.status(), 404);
    let foreign = test_app
        .caller(Some("t2"), "admin")
        .post(&path, json!({}))
        .await
        .unwrap();
    assert_eq!(foreign.status(), 404);
}

#[tokio::test]
async fn an_endpoint_that_fails_for_five_days_is_disabled() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let made = test_app.endpoint(&receiver.url(), json!({})).await;
    receiver.always(Plan::status(500));
    let path = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    for attempt in 0..60 {
        let title = attempt.to_string();
        test_app.order(&title).await;
        // Waits until the result is written, because the clock may advance only after that. The
        // attempts of earlier orders may disable the endpoint at any time.
        let newest = async || test_app.deliveries().await.swap_remove(0);
        while test_app.get(&path).await["status"] == "active"
            && (test_app.deliveries().await.len() <= attempt
                || newest().await["status"] == "pending")
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        test_app.advance(Duration::from_hours(4));
        if test_app.get(&path).await["status"] == "disabled" {
            assert!(
                attempt >= 29,
                "it is disabled after {attempt} times 4 hours, before five days"
            );
            break;
        }
    }
    let endpoint = test_app.get(&path).await;
    assert_eq!(
        (&endpoint["status"], &endpoint["disabledReason"]),
        (&json!("disabled"), &json!("failing"))
    );
    receiver.always(Plan::status(200));
    let before = receiver.count();
    let enabled = test_app
        .admin()
        .patch(&path, json!({ "enabled": true }))
        .await
        .unwrap();
    assert_eq!(enabled.status(), 200, "{:?}", enabled.text());
    receiver.until(before + 1).await;
    // The successful attempt resets the time of failures.
    for _ in 0..6_000 {
        if test_app.get(&path).await["failingSince"].is_null() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let endpoint = test_app.get(&path).await;
    assert_eq!(
        (&endpoint["status"], &endpoint["failingSince"]),
        (&json!("active"), &json!(null))
    );
}

#[tokio::test]
async fn a_deleted_endpoint_cancels_its_deliveries() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let made = test_app.endpoint(&receiver.url(), json!({})).await;
    receiver.next([Plan::status(500)]);
    test_app.order("one").await;
    test_app.until("failed").await;
    let path = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    assert_eq!(test_app.admin().delete(&path).await.unwrap().status(), 204);
    assert_eq!(
        test_app.until("cancelled").await["reason"],
        "endpoint_deleted"
    );
}

#[tokio::test]
async fn leases_and_status_transitions_have_no_route() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let made = test_app.endpoint(&receiver.url(), json!({})).await;
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
            let status = test_app
                .admin()
                .post(&path, json!({}))
                .await
                .unwrap()
                .status();
            assert!(matches!(status, 404 | 405), "{path}: {status}");
        }
    }
    for path in ["cancel", "hold", "release", "reset"] {
        let path = format!("/webhooks/deliveries/{path}");
        let status = test_app
            .admin()
            .post(&path, json!({}))
            .await
            .unwrap()
            .status();
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
        let status = test_app
            .admin()
            .patch(&path, patch(name))
            .await
            .unwrap()
            .status();
        assert_eq!(status, 400, "{name}");
    }
}

#[tokio::test]
async fn a_recovery_sends_dead_deliveries_and_events_without_a_delivery() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let other = Receiver::start().await;
    test_app.endpoint(&other.url(), json!({})).await;
    let began = linchpin::Timestamp::system_now().to_string();
    let abort = || Plan::Answer(400, vec![("webhook-delivery", "abort-message".to_owned())]);
    let made = test_app
        .endpoint(
            &receiver.url(),
            json!({ "events": ["shop.orders.created"] }),
        )
        .await;
    receiver.next([abort()]);
    test_app.order("dead").await;
    receiver.until(1).await;
    test_app.order("delivered").await;
    receiver.until(2).await;
    let path = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    // Only the other endpoint has a delivery of the payment. This endpoint subscribes to it later.
    let order = test_app.order("paid").await;
    receiver.until(3).await;
    let pay = format!("/orders/{}/pay", order["id"].as_str().unwrap());
    assert_eq!(
        test_app
            .admin()
            .patch(&pay, json!({ "paid": true }))
            .await
            .unwrap()
            .status(),
        200
    );
    // The five messages: three orders, the event about the dead delivery, and the payment.
    other.until(5).await;
    test_app
        .admin()
        .patch(&path, json!({ "events": ["shop.orders.*"] }))
        .await
        .unwrap();
    while test_app.get("/webhooks/deliveries?status=pending").await["items"] != json!([]) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let recover = format!("{path}/recover");
    let recovered = test_app
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
    // There is nothing more to recover.
    while test_app.get("/webhooks/deliveries?status=pending").await["items"] != json!([]) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let again = test_app
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
        let refused = test_app.admin().post(&recover, &wrong).await.unwrap();
        assert_eq!(refused.status(), 400, "{wrong}: {:?}", refused.text());
    }
    let foreign = test_app
        .caller(Some("t2"), "admin")
        .post(&recover, json!({ "since": began }))
        .await;
    assert_eq!(foreign.unwrap().status(), 404);
}

#[tokio::test]
async fn a_recovery_after_its_lease_does_not_end_the_next_one() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let began = linchpin::Timestamp::system_now().to_string();
    let made = test_app.endpoint(&receiver.url(), json!({})).await;
    // The trigger simulates that the lease has ended during the recovery, and that another process
    // has begun the next recovery.
    let database = rusqlite::Connection::open(test_app.path()).unwrap();
    database.busy_timeout(Duration::from_secs(20)).unwrap();
    database
        .execute_batch(
            "CREATE TRIGGER next_recovery AFTER UPDATE OF recovering_until \
             ON webhooks_webhook_endpoints WHEN new.recovering_until IS NOT NULL BEGIN \
             UPDATE webhooks_webhook_endpoints \
             SET recovering_until = new.recovering_until + 1000 WHERE id = new.id; END",
        )
        .unwrap();
    let recover = format!(
        "/webhooks/endpoints/{}/recover",
        made["id"].as_str().unwrap()
    );
    for status in [202, 409] {
        let reply = test_app
            .admin()
            .post(&recover, json!({ "since": began }))
            .await
            .unwrap();
        assert_eq!(reply.status(), status, "{:?}", reply.text());
    }
}

#[tokio::test]
async fn other_endpoints_receive_reports_of_dead_deliveries_and_disabled_endpoints() {
    let (test_app, receiver, watcher) = (
        TestApp::start().await,
        Receiver::start().await,
        Receiver::start().await,
    );
    let made = test_app.endpoint(&receiver.url(), json!({})).await;
    test_app
        .endpoint(&watcher.url(), json!({ "events": ["webhooks.*"] }))
        .await;
    receiver.next([Plan::status(410)]);
    test_app.order("one").await;
    let arrived = watcher.until(2).await;
    let mut reports: Vec<serde_json::Value> =
        arrived.iter().map(crate::receiver::Arrived::json).collect();
    reports.sort_by_key(|body| body["type"].to_string());
    assert_eq!(reports[0]["type"], "webhooks.delivery.dead");
    assert_eq!(
        (
            &reports[0]["data"]["endpointId"],
            &reports[0]["data"]["reason"]
        ),
        (&made["id"], &json!("gone"))
    );
    assert_eq!(reports[1]["type"], "webhooks.endpoint.disabled");
    assert_eq!(
        reports[1]["data"],
        json!({ "endpointId": made["id"], "reason": "gone" })
    );
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(
        receiver.count(),
        1,
        "an endpoint gets no event about itself"
    );
}

#[tokio::test]
async fn attempts_show_ip_addresses_only_with_show_addresses() {
    for (shows, expected) in [(false, json!(null)), (true, json!("127.0.0.1"))] {
        let test_app = TestApp::with(|config| config.show_addresses = shows).await;
        let receiver = Receiver::start().await;
        test_app.endpoint(&receiver.url(), json!({})).await;
        test_app.order("one").await;
        let delivery = test_app.until("delivered").await;
        let path = format!(
            "/webhooks/attempts?deliveryId={}",
            delivery["id"].as_str().unwrap()
        );
        assert_eq!(test_app.get(&path).await["items"][0]["address"], expected);
    }
}

#[tokio::test]
async fn a_replay_changes_no_failure_counter() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let made = test_app.endpoint(&receiver.url(), json!({})).await;
    let endpoint = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    let abort = || {
        let header = ("webhook-delivery", "abort-message".to_owned());
        Plan::Answer(400, vec![header])
    };
    receiver.next([abort()]);
    test_app.order("one").await;
    let dead = test_app.until("dead").await;
    let before = test_app.get(&endpoint).await;
    assert_eq!(before["consecutiveFailures"], 1);
    let path = format!("/webhooks/deliveries/{}", dead["id"].as_str().unwrap());
    for (plan, status) in [(abort(), "dead"), (Plan::status(200), "delivered")] {
        test_app.advance(Duration::from_secs(2));
        receiver.next([plan]);
        let count = receiver.count();
        let replayed = test_app
            .admin()
            .post(&format!("{path}/replay"), json!({}))
            .await;
        assert_eq!(replayed.unwrap().status(), 200);
        receiver.until(count + 1).await;
        test_app.until(status).await;
        let after = test_app.get(&endpoint).await;
        for member in [
            "consecutiveFailures",
            "failingSince",
            "lastFailureAt",
            "lastSuccessAt",
        ] {
            assert_eq!(after[member], before[member], "{status}: {member}");
        }
    }
    let attempts = test_app.get(&format!("{path}/attempts")).await;
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
async fn an_expired_delivery_does_not_block_others_and_can_be_recovered() {
    for ordered in [true, false] {
        let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
        let began = linchpin::Timestamp::system_now().to_string();
        let paused = json!({ "status": "paused", "ordered": ordered });
        let made = test_app.endpoint(&receiver.url(), paused).await;
        let path = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
        test_app.order("old").await;
        test_app.until("pending").await;
        test_app.advance(Duration::from_hours(25));
        let active = json!({ "status": "active" });
        assert_eq!(
            test_app
                .admin()
                .patch(&path, active)
                .await
                .unwrap()
                .status(),
            200
        );
        test_app.order("new").await;
        let arrived = receiver.until(1).await;
        assert_eq!(arrived[0].json()["data"]["title"], "new");
        test_app.until("delivered").await;
        let recover = test_app
            .admin()
            .post(&format!("{path}/recover"), json!({ "since": began }))
            .await
            .unwrap();
        assert_eq!(recover.json().unwrap()["queued"], 1);
        let arrived = receiver.until(2).await;
        assert_eq!(arrived[1].json()["data"]["title"], "old");
    }
}
