//! Events that come again, and changes of an endpoint while its deliveries wait.

use std::time::Duration;

use serde_json::json;

use crate::bed::Bed;
use crate::receiver::{Plan, Receiver};

const DELIVERIES: &str = "SELECT count(*) FROM webhooks_webhook_deliveries";
/// More than a page of a list has.
const ORDERS: i64 = 230;

async fn until(bed: &Bed, sql: &str, count: i64) {
    for _ in 0..2_000 {
        if bed.numbers(sql) == [count] {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{sql}: {:?}, and not {count}", bed.numbers(sql));
}

#[tokio::test]
async fn events_that_come_again_are_written_once() {
    let (bed, receiver) = (Bed::start().await, Receiver::start().await);
    let paused = json!({ "status": "paused" });
    bed.endpoint(&receiver.url(), paused).await;
    for _ in 0..ORDERS {
        bed.order("one").await;
    }
    until(&bed, DELIVERIES, ORDERS).await;
    // The process ended before it had stored how far it came.
    let file = bed.folder().join("app.db");
    let bed = bed
        .restarted_after(|| {
            let database = rusqlite::Connection::open(&file).unwrap();
            let back = "UPDATE linchpin_consumers SET seq = 0, had = '' WHERE name = 'webhooks'";
            assert_eq!(database.execute(back, []).unwrap(), 1);
        })
        .await;
    bed.order("another").await;
    until(&bed, DELIVERIES, ORDERS + 1).await;
}

#[tokio::test]
async fn a_delivery_that_waits_for_a_slot_is_not_sent_to_a_paused_endpoint() {
    let bed = Bed::with(|config| config.workers = 4).await;
    let (slow, other) = (Receiver::start().await, Receiver::start().await);
    slow.always(Plan::Late(Duration::from_millis(1_500), 200));
    for _ in 0..2 {
        bed.endpoint(&slow.url(), json!({})).await;
    }
    for title in ["one", "two"] {
        bed.order(title).await;
    }
    slow.until(4).await;
    let made = bed.endpoint(&other.url(), json!({})).await;
    bed.order("three").await;
    let leased = "SELECT count(*) FROM webhooks_webhook_endpoints WHERE lease_token IS NOT NULL";
    until(&bed, leased, 3).await;
    let path = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    let change = async |status: &str| {
        let changed = bed.admin().patch(&path, json!({ "status": status })).await;
        assert_eq!(changed.unwrap().status(), 200);
    };
    change("paused").await;
    slow.until(6).await;
    slow.idle().await;
    until(&bed, leased, 0).await;
    assert_eq!(other.count(), 0, "nothing is sent to a paused endpoint");
    change("active").await;
    other.until(1).await;
}
