//! Tests the states of a message on every store.

use std::time::Duration;

use linchpin_push::PushMessage;
use serde_json::json;

use crate::receiver::{Plan, Receiver};
use crate::server;
use crate::test_app::{Browser, TestApp};

#[tokio::test]
async fn messages_have_the_same_states_in_memory() {
    message_states(TestApp::at("memory:").await).await;
}

#[tokio::test]
async fn messages_have_the_same_states_on_sqlite() {
    message_states(TestApp::start().await).await;
}

#[tokio::test]
async fn messages_have_the_same_states_on_postgres() {
    message_states(TestApp::at(&server::fresh_url()).await).await;
}

/// Advances the clock until `count` requests have arrived. Before that, it waits until the results
/// of earlier requests are written. Otherwise the leases would end, and the messages would be sent
/// again.
async fn advance_until_arrived(
    test_app: &TestApp,
    service: &Receiver,
    step: Duration,
    count: usize,
) {
    for _ in 0..50 {
        test_app.until_idle().await;
        test_app.advance(step);
        for _ in 0..40 {
            if service.count() >= count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    panic!("{} of {count} requests arrived", service.count());
}

async fn message_states(test_app: TestApp) {
    let service = Receiver::start().await;
    let ada = test_app.user("ada");
    test_app
        .subscribe("ada", &Browser::new(), &service.url())
        .await;
    // A failed attempt is repeated, and the next attempt waits for the time in `retry-after`.
    let wait = ("retry-after", "600".to_owned());
    service.next([
        Plan::status(500),
        Plan::Answer(429, vec![wait]),
        Plan::status(201),
    ]);
    let message = PushMessage::new("ada", "Order").dedup_key("order");
    assert_eq!(test_app.send(&message).await, 1);
    service.until(1).await;
    advance_until_arrived(&test_app, &service, Duration::from_secs(10), 2).await;
    advance_until_arrived(&test_app, &service, Duration::from_mins(11), 3).await;
    // A newer message with the same key replaces a waiting one.
    let in_an_hour = test_app.now().millis() + 3_600_000;
    let in_an_hour = linchpin::Timestamp::from_millis(in_an_hour);
    for title in ["second", "third"] {
        let message = PushMessage::new("ada", title)
            .dedup_key("order")
            .at(in_an_hour);
        assert_eq!(test_app.send(&message).await, 1);
    }
    advance_until_arrived(&test_app, &service, Duration::from_hours(2), 4).await;
    // A subscription is removed after the push service has answered 410.
    let list = async || {
        ada.get("/__push/subscriptions")
            .await
            .unwrap()
            .json()
            .unwrap()
    };
    assert_eq!(list().await["items"].as_array().unwrap().len(), 1);
    service.always(Plan::status(410));
    test_app.send(&PushMessage::new("ada", "last")).await;
    service.until(5).await;
    for _ in 0..6_000 {
        if list().await["items"] == json!([]) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(list().await["items"], json!([]));
    assert_eq!(test_app.send(&PushMessage::new("ada", "nobody")).await, 0);
    assert_eq!(service.count(), 5, "the replaced message was not sent");
}
