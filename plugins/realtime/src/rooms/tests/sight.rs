//! Changes of who sees a record, by routes that the channel does not list.

use super::*;

fn card(published: bool) -> Value {
    json!({ "id": "c1", "boardId": "b1", "authorId": "alice", "published": published })
}

#[tokio::test]
async fn a_record_leaves_sight_without_an_event_that_the_channel_lists() {
    let node = node().await;
    let room = "boards:b1:live";
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    for connection in [&alice, &bob] {
        node.join(connection, room).await;
    }
    assert_eq!(next_event(&alice), "subscribed 0");
    assert_eq!(event_soon(&alice).await, "presence_join bob");
    assert_eq!(next_event(&bob), "subscribed 0");
    node.happens(room, "created", card(true), None).await;
    assert_eq!(event_soon(&bob).await, "created 1");
    node.happens(room, "quiet", card(false), Some(card(true)))
        .await;
    assert_eq!(event_soon(&bob).await, "hidden 2");
    // The next frame shows that the author gets nothing of the change.
    node.card("c2", "alice", true).await;
    assert_eq!(event_soon(&alice).await, "created 1");
    assert_eq!(event_soon(&alice).await, "created 3");
    // A replay does not show what was withdrawn.
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
async fn a_room_ends_when_access_is_taken_by_a_route_that_it_does_not_list() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    for connection in [&alice, &bob] {
        node.join(connection, "boards:b1:live").await;
    }
    assert_eq!(next_event(&alice), "subscribed 0");
    assert_eq!(event_soon(&alice).await, "presence_join bob");
    assert_eq!(next_event(&bob), "subscribed 0");
    let board = |open| json!({ "id": "b1", "open": open, "ownerId": "alice" });
    node.happens("boards:b1:live", "quiet", board(false), Some(board(true)))
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
    node.happens("boards:b1:live", "deleted", other(true), None)
        .await;
    assert_eq!(event_soon(&bob).await, "deleted 1");
    node.card("c1", "alice", true).await;
    assert_eq!(event_soon(&bob).await, "created 2");
    node.app.stop().await.unwrap();
}
