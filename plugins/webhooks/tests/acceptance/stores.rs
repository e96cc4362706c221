//! Tests the states of a delivery on every store.

use std::time::Duration;

use serde_json::json;

use crate::bed::TestApp;
use crate::receiver::{Plan, Receiver};
use crate::server;

#[tokio::test]
async fn deliveries_have_the_same_states_in_memory() {
    delivery_states(TestApp::at("memory:", |_| {}).await).await;
}

#[tokio::test]
async fn deliveries_have_the_same_states_on_sqlite() {
    delivery_states(TestApp::start().await).await;
}

#[tokio::test]
async fn deliveries_have_the_same_states_on_postgres() {
    delivery_states(TestApp::at(&server::fresh_url(), |_| {}).await).await;
}

async fn delivery_states(test_app: TestApp) {
    let receiver = Receiver::start().await;
    let ordered = json!({ "ordered": true });
    let made = test_app.endpoint(&receiver.url(), ordered).await;
    let endpoint = format!("/webhooks/endpoints/{}", made["id"].as_str().unwrap());
    // The second order waits for the first, which fails once.
    receiver.next([Plan::status(500)]);
    test_app.order("first").await;
    test_app.until("failed").await;
    test_app.order("second").await;
    while test_app.deliveries().await.len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    test_app.advance(Duration::from_secs(10));
    let arrived = receiver.until(3).await;
    let titles: Vec<_> = arrived
        .iter()
        .map(|one| one.json()["data"]["title"].clone())
        .collect();
    assert_eq!(titles, ["first", "first", "second"]);
    assert_eq!(arrived[0].body, arrived[1].body);
    let delivered = test_app.until("delivered").await;
    let path = format!("/webhooks/deliveries/{}", delivered["id"].as_str().unwrap());
    assert_eq!(
        test_app.get(&path).await["payload"]["data"]["title"],
        "second"
    );
    assert_eq!(test_app.attempts(&path, 1).await.len(), 1);
    // A pause holds deliveries. After the pause they are sent.
    let status = async |status: &str| {
        let changed = test_app
            .admin()
            .patch(&endpoint, json!({ "status": status }))
            .await;
        assert_eq!(changed.unwrap().status(), 200);
    };
    status("paused").await;
    test_app.order("third").await;
    let waiting = test_app.until("pending").await;
    assert_eq!(waiting["reason"], "endpoint_disabled");
    status("active").await;
    receiver.until(4).await;
    test_app.until("delivered").await;
    // A replay, a refused recovery, a rotation, and the deletion of the endpoint.
    let replay = test_app
        .admin()
        .post(&format!("{path}/replay"), json!({}))
        .await;
    assert_eq!(replay.unwrap().status(), 200);
    receiver.until(5).await;
    let since = json!({ "since": "2020-01-01T00:00:00Z" });
    let refused = test_app
        .admin()
        .post(&format!("{endpoint}/recover"), since)
        .await;
    assert_eq!(refused.unwrap().status(), 400, "more than 14 days ago");
    let rotated = test_app
        .admin()
        .post(&format!("{endpoint}/rotate-secret"), json!({}))
        .await;
    assert_eq!(rotated.unwrap().status(), 200);
    test_app.attempts(&path, 2).await;
    let page = test_app
        .get(&format!(
            "{endpoint}/deliveries?pageSize=2&status=delivered"
        ))
        .await;
    assert_eq!(
        (page["items"].as_array().unwrap().len(), &page["hasMore"]),
        (2, &json!(true))
    );
    receiver.next([Plan::status(500)]);
    test_app.order("fourth").await;
    test_app.until("failed").await;
    assert_eq!(
        test_app.admin().delete(&endpoint).await.unwrap().status(),
        204
    );
    assert_eq!(
        test_app.until("cancelled").await["reason"],
        "endpoint_deleted"
    );
}
