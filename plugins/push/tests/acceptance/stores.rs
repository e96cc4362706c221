//! The life of a message on every store.

use std::time::Duration;

use linchpin_push::PushMessage;
use serde_json::json;

use crate::bed::{Bed, Browser};
use crate::receiver::{Plan, Receiver};
use crate::server;

#[tokio::test]
async fn the_life_of_a_message_in_memory() {
    the_life_of_a_message(Bed::at("memory:").await).await;
}

#[tokio::test]
async fn the_life_of_a_message_on_sqlite() {
    the_life_of_a_message(Bed::start().await).await;
}

#[tokio::test]
async fn the_life_of_a_message_on_postgres() {
    the_life_of_a_message(Bed::at(&server::fresh_url()).await).await;
}

/// Moves the clock on until so many requests have arrived. The results of those before are written
/// first: else the leases would end, and the messages would be sent again.
async fn later(bed: &Bed, service: &Receiver, step: Duration, count: usize) {
    for _ in 0..50 {
        bed.until_idle().await;
        bed.advance(step);
        for _ in 0..40 {
            if service.count() >= count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    panic!("{} of {count} requests arrived", service.count());
}

async fn the_life_of_a_message(bed: Bed) {
    let service = Receiver::start().await;
    let ada = bed.user("ada");
    bed.subscribe("ada", &Browser::new(), &service.url()).await;
    // An error is tried again, and a service that asks for it is left alone.
    let wait = ("retry-after", "600".to_owned());
    service.next([
        Plan::status(500),
        Plan::Answer(429, vec![wait]),
        Plan::status(201),
    ]);
    let message = PushMessage::new("ada", "Order").dedup_key("order");
    assert_eq!(bed.send(&message).await, 1);
    service.until(1).await;
    later(&bed, &service, Duration::from_secs(10), 2).await;
    later(&bed, &service, Duration::from_mins(11), 3).await;
    // A newer message of the same key replaces one that waits.
    let far = bed.now().millis() + 3_600_000;
    let far = linchpin::Timestamp::from_millis(far);
    for title in ["second", "third"] {
        let message = PushMessage::new("ada", title).dedup_key("order").at(far);
        assert_eq!(bed.send(&message).await, 1);
    }
    later(&bed, &service, Duration::from_hours(2), 4).await;
    // A browser that is gone is removed.
    let list = async || {
        ada.get("/__push/subscriptions")
            .await
            .unwrap()
            .json()
            .unwrap()
    };
    assert_eq!(list().await["items"].as_array().unwrap().len(), 1);
    service.always(Plan::status(410));
    bed.send(&PushMessage::new("ada", "last")).await;
    service.until(5).await;
    for _ in 0..1_000 {
        if list().await["items"] == json!([]) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(list().await["items"], json!([]));
    assert_eq!(bed.send(&PushMessage::new("ada", "nobody")).await, 0);
    assert_eq!(service.count(), 5, "the replaced message was not sent");
}
