//! Tests of presence, and of the renewal of leases.

use std::sync::atomic::AtomicI64;

use super::*;
use crate::engine::RENEWAL;

const ROOM: &str = "boards:b1:live";

/// Returns a clock for the engine, and the time that a test sets.
fn clock() -> (Arc<AtomicI64>, Arc<dyn Fn() -> Timestamp + Send + Sync>) {
    let millis = Arc::new(AtomicI64::new(Timestamp::system_now().millis()));
    let own = Arc::clone(&millis);
    let clock = move || Timestamp::from_millis(own.load(Ordering::SeqCst));
    (millis, Arc::new(clock))
}

/// Moves the clock forward by the time between two renewals, and renews.
async fn renew(node: &Node, clock: &AtomicI64) {
    let by = i64::try_from(RENEWAL.as_millis()).unwrap();
    clock.fetch_add(by, Ordering::SeqCst);
    node.hub.renew_presence().await;
}

async fn present(node: &Node) -> Vec<String> {
    let stream = Stream::new(ROOM, History::default());
    let present = node.engine.presence(&stream, 9).await.unwrap();
    present.users.into_iter().map(|one| one.user).collect()
}

#[tokio::test]
async fn users_of_this_node_stay_present_and_those_of_an_ended_node_leave() {
    let (millis, clock) = clock();
    let node = node_at(clock).await;
    // Another node of the app stops without leaving the room.
    let stream = Stream::new(ROOM, History::default());
    let ended = node.engine.another_node();
    ended.presence_enter(&stream, &["bob"]).await.unwrap();
    let alice = connect(&node, "1", "alice");
    node.join(&alice, ROOM).await;
    assert_eq!(next_event(&alice), "subscribed 0");
    for _ in 0..2 {
        renew(&node, &millis).await;
        assert_eq!(present(&node).await.len(), 2);
        assert_eq!(next_event(&alice), "");
    }
    renew(&node, &millis).await;
    assert_eq!(event_soon(&alice).await, "presence_leave bob");
    // An unavailable engine removes no user: the next renewal is a retry.
    node.engine.fail();
    renew(&node, &millis).await;
    node.engine.recover();
    renew(&node, &millis).await;
    renew(&node, &millis).await;
    assert_eq!(present(&node).await, ["alice"]);
    assert_eq!(next_event(&alice), "");
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn users_that_the_engine_has_lost_arrive_again() {
    let (millis, clock) = clock();
    let node = node_at(clock).await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    for connection in [&alice, &bob] {
        node.join(connection, ROOM).await;
    }
    assert_eq!(next_event(&alice), "subscribed 0");
    assert_eq!(event_soon(&alice).await, "presence_join bob");
    assert_eq!(next_event(&bob), "subscribed 0");
    node.engine.flush();
    assert!(present(&node).await.is_empty());
    renew(&node, &millis).await;
    assert_eq!(present(&node).await, ["alice", "bob"]);
    assert_eq!(event_soon(&alice).await, "presence_join bob");
    // bob gets the arrival, although his snapshot already contained alice.
    assert_eq!(event_soon(&bob).await, "presence_join alice");
    assert_eq!(
        (next_event(&alice), next_event(&bob)),
        (String::new(), String::new())
    );
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn presence_is_per_user_and_not_per_connection() {
    let node = node().await;
    let bob = connect(&node, "0", "bob");
    let room = "boards:b1:live";
    node.join(&bob, room).await;
    let present = frame(&bob).unwrap()["presence"].clone();
    assert_eq!(present["count"], 1);
    let (one, two) = (connect(&node, "1", "alice"), connect(&node, "2", "alice"));
    node.join(&one, room).await;
    assert_eq!(frame(&one).unwrap()["presence"]["count"], 2);
    node.join(&two, room).await;
    assert_eq!(event_soon(&bob).await, "presence_join alice");
    let present = node.hub.presence(&bob, room, None).await.unwrap();
    assert!(present.as_str().contains(r#""count":2,"truncated":false"#));
    tokio::time::pause();
    node.hub.ended(&one);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(next_event(&bob), "", "alice has another connection");
    // alice leaves and returns within the grace period.
    node.hub.unsubscribe(&two, room).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    node.join(&two, room).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(next_event(&bob), "");
    node.hub.ended(&two);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(next_event(&bob), "");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(next_event(&bob), "presence_leave alice");
}
