//! Tests of the limits of connections, rooms and joins.

use super::*;

#[tokio::test]
async fn rooms_per_connection_and_connections_per_user_are_limited() {
    let node = node().await;
    let alice = connect(&node, "1", "alice");
    for room in ["boards:b1:live", "boards:b2:live", "chores:live"] {
        assert_eq!(node.join(&alice, room).await, "Fresh");
    }
    add_board(&node.app, "b3", true, None).await;
    assert_eq!(node.join(&alice, "boards:b3:live").await, "too_many_rooms");
    let again = node.join(&alice, "boards:b1:live").await;
    assert_eq!(again, "Fresh");
    let _second = connect(&node, "2", "alice");
    assert_eq!(alice.closing(), None);
    let _third = connect(&node, "3", "alice");
    assert_eq!(alice.closing(), Some(Close::Replaced));
    node.hub.ended(&alice);
    assert!(node.hub.live_rooms().is_empty());
    assert_eq!(node.hub.connections(), 2);
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn joins_of_a_channel_have_its_declared_limit() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    for _ in 0..3 {
        assert_eq!(node.join(&alice, "chores:live").await, "Fresh");
        // A second join of the same room is not counted.
        assert_eq!(node.join(&alice, "chores:live").await, "Fresh");
        node.hub.unsubscribe(&alice, "chores:live").await;
    }
    assert_eq!(node.join(&alice, "chores:live").await, "rate_limited");
    assert_eq!(node.join(&bob, "chores:live").await, "Fresh");
    node.app.stop().await.unwrap();
}
