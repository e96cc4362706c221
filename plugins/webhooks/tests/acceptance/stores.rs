//! The life of a delivery on every store.

use std::time::Duration;

use serde_json::json;

use crate::bed::Bed;
use crate::receiver::{Plan, Receiver};
use crate::server;

#[tokio::test]
async fn the_life_of_a_delivery_in_memory() {
    the_life_of_a_delivery(Bed::at("memory:", |_| {}).await).await;
}

#[tokio::test]
async fn the_life_of_a_delivery_on_sqlite() {
    the_life_of_a_delivery(Bed::start().await).await;
}

#[tokio::test]
async fn the_life_of_a_delivery_on_postgres() {
    the_life_of_a_delivery(Bed::at(&server::fresh_url(), |_| {}).await).await;
}

async fn the_life_of_a_delivery(bed: Bed) {
    let receiver = Receiver::start().await;
    let ordered = json!({ "ordered": true });
    let made = bed.endpoint(&receiver.url(), ordered).await;
    let endpoint = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    // The second order waits for the first, which fails once.
    receiver.next([Plan::status(500)]);
    bed.order("first").await;
    bed.until("failed").await;
    bed.order("second").await;
    while bed.deliveries().await.len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bed.advance(Duration::from_secs(10));
    let arrived = receiver.until(3).await;
    let titles: Vec<_> = arrived
        .iter()
        .map(|one| one.json()["data"]["title"].clone())
        .collect();
    assert_eq!(titles, ["first", "first", "second"]);
    assert_eq!(arrived[0].body, arrived[1].body);
    let delivered = bed.until("delivered").await;
    let path = format!("/webhooks/deliveries/{}", delivered["id"].as_str().unwrap());
    assert_eq!(bed.get(&path).await["payload"]["data"]["title"], "second");
    assert_eq!(bed.attempts(&path, 1).await.len(), 1);
    // A pause holds, and an active endpoint gets what was held.
    let status = async |status: &str| {
        let changed = bed
            .admin()
            .patch(&endpoint, json!({ "status": status }))
            .await;
        assert_eq!(changed.unwrap().status(), 200);
    };
    status("paused").await;
    bed.order("third").await;
    let held = bed.until("pending").await;
    assert_eq!(held["reason"], "endpoint_disabled");
    status("active").await;
    receiver.until(4).await;
    bed.until("delivered").await;
    // A replay, a recovery that finds nothing, a rotation and the end.
    let replay = bed.admin().post(&format!("{path}/replay"), json!({})).await;
    assert_eq!(replay.unwrap().status(), 200);
    receiver.until(5).await;
    let since = json!({ "since": "2020-01-01T00:00:00Z" });
    let far = bed
        .admin()
        .post(&format!("{endpoint}/recover"), since)
        .await;
    assert_eq!(far.unwrap().status(), 400, "more than 14 days ago");
    let rotated = bed
        .admin()
        .post(&format!("{endpoint}/rotate-secret"), json!({}))
        .await;
    assert_eq!(rotated.unwrap().status(), 200);
    bed.attempts(&path, 2).await;
    let page = bed
        .get(&format!(
            "{endpoint}/deliveries?pageSize=2&status=delivered"
        ))
        .await;
    assert_eq!(
        (page["items"].as_array().unwrap().len(), &page["hasMore"]),
        (2, &json!(true))
    );
    receiver.next([Plan::status(500)]);
    bed.order("fourth").await;
    bed.until("failed").await;
    assert_eq!(bed.admin().delete(&endpoint).await.unwrap().status(), 204);
    assert_eq!(bed.until("cancelled").await["reason"], "endpoint_deleted");
}
