//! Tests of changes of visibility by routes that the channel does not list.

use super::*;

fn card(published: bool) -> Value {
    json!({ "id": "c1", "boardId": "b1", "authorId": "alice", "published": published })
}

#[tokio::test]
async fn a_record_that_becomes_invisible_through_an_unlisted_event_is_hidden() {
    let node = node().await;
    let room = "boards:b1:live";
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    for connection in [&alice, &bob] {
        node.join(connection, room).await;
    }
    assert_eq!(next_event(&alice), "subscribed 0");
    assert_eq!(event_soon(&alice).await, "presence_join bob");
    assert_eq!(next_event(&bob), "subscribed 0");
    node.append_event(room, "created", card(true), None).await;
    assert_eq!(event_soon(&bob).await, "created 1");
    node.append_event(room, "quiet", card(false), Some(card(true)))
        .await;
    assert_eq!(event_soon(&bob).await, "hidden 2");
    // The next frame of the author is the next event: the author gets no frame of the change.
    node.card("c2", "alice", true).await;
    assert_eq!(event_soon(&alice).await, "created 1");
    assert_eq!(event_soon(&alice).await, "created 3");
    // A replay does not contain the hidden record.
    let carol = connect(&node, "3", "carol");
    let stream = Stream::new(room, History::default());
    let top = node.engine.top(&stream).await.unwrap();
    let since = Position::new(top.epoch.as_str(), 0);
    node.join_from(&carol, room, Some(since)).await;
    assert_eq!(next_event(&carol), "subscribed 0");
    assert_eq!(next_event(&carol), "hidden 2");
    assert_eq!(next_event(&carol), "created 3");
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_room_ends_when_an_unlisted_route_revokes_access() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    for connection in [&alice, &bob] {
        node.join(connection, "boards:b1:live").await;
    }
    assert_eq!(next_event(&alice), "subscribed 0");
    assert_eq!(event_soon(&alice).await, "presence_join bob");
    assert_eq!(next_event(&bob), "subscribed 0");
    let board = |open| json!({ "id": "b1", "open": open, "ownerId": "alice" });
    node.append_event("boards:b1:live", "quiet", board(false), Some(board(true)))
        .await;
    assert_eq!(event_soon(&bob).await, "unsubscribed not_found");
    node.card("c1", "alice", true).await;
    assert_eq!(event_soon(&alice).await, "created 2");
    assert_eq!(next_event(&bob), "");
    node.app.stop().await.unwrap();
}

/// An event about another record of the room's entity, such as a reply in a thread.
#[tokio::test]
async fn another_record_of_the_same_entity_does_not_end_the_room() {
    let node = node().await;
    let bob = connect(&node, "2", "bob");
    node.join(&bob, "boards:b1:live").await;
    assert_eq!(next_event(&bob), "subscribed 0");
    let other = |open| json!({ "id": "b9", "open": open, "ownerId": "bob" });
    node.append_event("boards:b1:live", "deleted", other(true), None)
        .await;
    assert_eq!(event_soon(&bob).await, "deleted 1");
    node.card("c1", "alice", true).await;
    assert_eq!(event_soon(&bob).await, "created 2");
    node.app.stop().await.unwrap();
}
