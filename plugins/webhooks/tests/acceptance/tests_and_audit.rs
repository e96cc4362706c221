//! Tests of the test route, the audit of manager actions, and deliveries that cannot be sent.

use std::time::Duration;

use linchpin::Cx;
use linchpin::audit::{AuditEntryListQuery, AuditLog};
use serde_json::{Value as Json, json};

use crate::bed::TestApp;
use crate::receiver::{Plan, Receiver};

fn path_of(endpoint: &Json) -> String {
    format!("/webhooks/endpoints/{}", endpoint["id"].as_str().unwrap())
}

#[tokio::test]
async fn a_test_sends_the_example_of_an_event() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let made = test_app.endpoint(&receiver.url(), json!({})).await;
    let path = format!("{}/test", path_of(&made));
    let event = "shop.orders.created";
    let tested = test_app
        .admin()
        .post(&path, json!({ "event": event }))
        .await;
    let tested = tested.unwrap();
    assert_eq!(tested.status(), 200, "{:?}", tested.text());
    let body = tested.json().unwrap();
    assert_eq!((&body["status"], &body["ok"]), (&json!(200), &json!(true)));
    assert!(
        body["body"].is_string() && body["durationMs"].is_u64(),
        "{body}"
    );
    let arrived = receiver.until(1).await;
    assert_eq!(arrived[0].header("x-webhook-test"), "true");
    assert_eq!(arrived[0].header("x-webhook-event"), event);
    let described = test_app
        .get(&format!("/webhooks/event-types/{event}"))
        .await;
    let sent = arrived[0].json();
    assert_eq!(sent["data"], described["example"]["data"]);
    assert_eq!(sent["type"], event);
    for wrong in ["nothing.happened", "shop.*", "*"] {
        let refused = test_app
            .admin()
            .post(&path, json!({ "event": wrong }))
            .await;
        let refused = refused.unwrap();
        assert_eq!(refused.status(), 400, "{wrong}");
        let problem = &refused.json().unwrap()["details"][0];
        assert_eq!(
            (&problem["path"], &problem["code"]),
            (&json!("event"), &json!("enum"))
        );
    }
    // A recovery does not send examples as if they were events.
    let since = json!({ "since": an_hour_ago(), "statuses": ["dead", "delivered"] });
    let other = test_app.endpoint(&receiver.url(), json!({})).await;
    let recover = format!("{}/recover", path_of(&other));
    let recovered = test_app.admin().post(&recover, since).await.unwrap();
    assert_eq!(recovered.status(), 202, "{:?}", recovered.text());
    assert_eq!(recovered.json().unwrap()["queued"], 0);
}

fn an_hour_ago() -> String {
    let now = linchpin::Timestamp::system_now().millis();
    linchpin::Timestamp::from_millis(now - 3_600_000).to_string()
}

#[tokio::test]
async fn an_endpoint_is_tested_at_most_ten_times_a_minute() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let first = test_app.endpoint(&receiver.url(), json!({})).await;
    let second = test_app.endpoint(&receiver.url(), json!({})).await;
    let test = async |endpoint: &Json| {
        let path = format!("{}/test", path_of(endpoint));
        test_app.admin().post(&path, json!({})).await.unwrap()
    };
    for at in 0..10 {
        assert_eq!(test(&first).await.status(), 200, "test {at}");
    }
    let refused = test(&first).await;
    assert_eq!(refused.status(), 429);
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(test(&second).await.status(), 200, "another endpoint");
    assert_eq!(receiver.count(), 11);
    test_app.advance(Duration::from_secs(61));
    assert_eq!(test(&first).await.status(), 200, "after a minute");
}

#[tokio::test]
async fn replays_recoveries_rotations_and_tests_are_audited() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let made = test_app.endpoint(&receiver.url(), json!({})).await;
    let (path, id) = (path_of(&made), made["id"].as_str().unwrap());
    test_app.order("one").await;
    let delivery = test_app.until("delivered").await["id"].clone();
    let delivery = delivery.as_str().unwrap();
    let admin = test_app.admin();
    let log = test_app.app.adapters().provided::<AuditLog>().unwrap();
    let entries = async || {
        let query = AuditEntryListQuery::default();
        log.list(&Cx::system("test"), query).await.unwrap().items
    };
    assert!(entries().await.is_empty());
    let replay = format!("/webhooks/deliveries/{delivery}/replay");
    for (path, body, status, action, target) in [
        (&replay, json!({}), 200, "replay_delivery", delivery),
        (&format!("{path}/test"), json!({}), 200, "test_endpoint", id),
        (
            &format!("{path}/rotate-secret"),
            json!({}),
            200,
            "rotate_secret",
            id,
        ),
        (
            &format!("{path}/recover"),
            json!({ "since": an_hour_ago() }),
            202,
            "recover_endpoint",
            id,
        ),
    ] {
        let before = entries().await.len();
        let done = admin.post(path, &body).await.unwrap();
        assert_eq!(done.status(), status, "{path}: {:?}", done.text());
        let entries = entries().await;
        assert_eq!(entries.len(), before + 1, "{path}");
        let entry = &entries[0];
        assert_eq!((&*entry.action, &*entry.target_id), (action, target));
        assert_eq!(entry.tenant_id.as_deref(), Some("t1"));
        assert_eq!(entry.actor_id.as_deref(), Some("user-of-t1"));
        let text = format!("{entry:?}");
        assert!(!text.contains("whsec_"), "{text}");
    }
    // A refused action writes no entry.
    let before = entries().await.len();
    let unknown = "/webhooks/deliveries/none/replay";
    assert_eq!(admin.post(unknown, json!({})).await.unwrap().status(), 404);
    assert_eq!(entries().await.len(), before);
}

#[tokio::test]
async fn a_delivery_without_its_message_is_cancelled() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    test_app.endpoint(&receiver.url(), json!({})).await;
    receiver.next([Plan::status(500)]);
    test_app.order("one").await;
    let failed = test_app.until("failed").await;
    let database = rusqlite::Connection::open(test_app.path()).unwrap();
    let tables =
        "SELECT name FROM sqlite_master WHERE name LIKE '%webhook%message%' AND type = 'table'";
    let table: String = database.query_row(tables, [], |row| row.get(0)).unwrap();
    let removed = database.execute(&format!("DELETE FROM \"{table}\""), []);
    assert_eq!(removed.unwrap(), 1);
    // The clock advances by more than a lease, because the other connection may have blocked the
    // write of the worker.
    test_app.advance(Duration::from_secs(70));
    let cancelled = test_app.until("cancelled").await;
    assert_eq!(cancelled["id"], failed["id"]);
    assert_eq!(cancelled["reason"], "message_missing");
    assert!(cancelled["nextRetryAt"].is_null(), "{cancelled}");
    assert_eq!(receiver.count(), 1);
    let one = format!("/webhooks/deliveries/{}", failed["id"].as_str().unwrap());
    assert!(test_app.get(&one).await["payload"].is_null());
}
