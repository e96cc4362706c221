//! Tests of events that the plugin consumes twice, and of changes of an endpoint while its
//! deliveries wait.

use std::time::Duration;

use serde_json::json;

use crate::bed::TestApp;
use crate::receiver::{Plan, Receiver};

const DELIVERIES: &str = "SELECT count(*) FROM webhooks_webhook_deliveries";
/// More orders than a page of a list contains.
const ORDERS: i64 = 230;

async fn until(test_app: &TestApp, sql: &str, count: i64) {
    for _ in 0..6_000 {
        if test_app.numbers(sql) == [count] {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{sql}: {:?}, and not {count}", test_app.numbers(sql));
}

#[tokio::test]
async fn events_that_are_consumed_twice_have_one_delivery_each() {
    let (test_app, receiver) = (TestApp::start().await, Receiver::start().await);
    let paused = json!({ "status": "paused" });
    test_app.endpoint(&receiver.url(), paused).await;
    for _ in 0..ORDERS {
        test_app.order("one").await;
    }
    until(&test_app, DELIVERIES, ORDERS).await;
    // This simulates a process that ended before it stored its position.
    let file = test_app.folder().join("app.db");
    let test_app = test_app
        .restarted_after(|| {
            let database = rusqlite::Connection::open(&file).unwrap();
            let back = "UPDATE linchpin_consumers SET seq = 0, had = '' WHERE name = 'webhooks'";
            assert_eq!(database.execute(back, []).unwrap(), 1);
        })
        .await;
    test_app.order("another").await;
    until(&test_app, DELIVERIES, ORDERS + 1).await;
}

#[tokio::test]
async fn a_delivery_that_waits_for_a_slot_is_not_sent_to_a_paused_endpoint() {
    let test_app = TestApp::with(|config| config.workers = 4).await;
    let (slow, other) = (Receiver::start().await, Receiver::start().await);
    slow.always(Plan::Late(Duration::from_millis(1_500), 200));
    for _ in 0..2 {
        test_app.endpoint(&slow.url(), json!({})).await;
    }
    for title in ["one", "two"] {
        test_app.order(title).await;
    }
    slow.until(4).await;
    let made = test_app.endpoint(&other.url(), json!({})).await;
    test_app.order("three").await;
    let leased = "SELECT count(*) FROM webhooks_webhook_endpoints WHERE lease_token IS NOT NULL";
    until(&test_app, leased, 3).await;
    let path = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    let change = async |status: &str| {
        let changed = test_app
            .admin()
            .patch(&path, json!({ "status": status }))
            .await;
        assert_eq!(changed.unwrap().status(), 200);
    };
    change("paused").await;
    slow.until(6).await;
    slow.idle().await;
    until(&test_app, leased, 0).await;
    assert_eq!(other.count(), 0, "nothing is sent to a paused endpoint");
    change("active").await;
    other.until(1).await;
}
