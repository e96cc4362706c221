//! Tests of the delivery of events to the members of a room.

use super::*;

#[tokio::test]
async fn an_event_reaches_only_members_who_may_read_its_record() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    for connection in [&alice, &bob] {
        assert_eq!(node.join(connection, "boards:b1:live").await, "Fresh");
    }
    assert_eq!(next_event(&alice), "subscribed 0");
    assert_eq!(event_soon(&alice).await, "presence_join bob");
    assert_eq!(next_event(&bob), "subscribed 0");
    let draft = node.card("c1", "alice", false).await;
    let open = node.card("c2", "alice", true).await;
    assert_eq!(event_soon(&alice).await, format!("created {draft}"));
    assert_eq!(event_soon(&alice).await, format!("created {open}"));
    assert_eq!(event_soon(&bob).await, format!("created {open}"));
    assert_eq!(next_event(&bob), "");
    // A card becomes invisible to other members.
    let state = json!({ "id": "c2", "boardId": "b1", "authorId": "alice", "published": false });
    let before = json!({ "id": "c2", "boardId": "b1", "authorId": "alice", "published": true });
    let offset = node
        .append_event("boards:b1:live", "updated", state, Some(before))
        .await;
    assert_eq!(event_soon(&alice).await, format!("updated {offset}"));
    let hidden = loop {
        match frame(&bob) {
            Some(hidden) => break hidden,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert_eq!(
        hidden,
        json!({
            "event": "hidden", "room": "boards:b1:live", "offset": offset,
            "payload": { "entity": Card::DESC.storage_name, "id": "c2" },
        })
    );
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_room_whose_record_becomes_invisible_or_is_deleted_ends() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    for connection in [&alice, &bob] {
        node.join(connection, "boards:b1:live").await;
    }
    assert_eq!(next_event(&alice), "subscribed 0");
    assert_eq!(event_soon(&alice).await, "presence_join bob");
    assert_eq!(next_event(&bob), "subscribed 0");
    let board = |open| json!({ "id": "b1", "open": open, "ownerId": "alice" });
    node.append_event("boards:b1:live", "updated", board(false), Some(board(true)))
        .await;
    assert_eq!(event_soon(&bob).await, "unsubscribed not_found");
    assert_eq!(event_soon(&alice).await, "updated 1");
    node.append_event("boards:b1:live", "deleted", board(false), None)
        .await;
    assert_eq!(event_soon(&alice).await, "deleted 2");
    assert_eq!(event_soon(&alice).await, "unsubscribed not_found");
    assert!(node.hub.live_rooms().is_empty());
    assert_eq!(
        (next_event(&alice), next_event(&bob)),
        (String::new(), String::new())
    );
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_malformed_frame_is_not_delivered() {
    let node = node().await;
    let alice = connect(&node, "1", "alice");
    let room = "boards:b1:live";
    node.join(&alice, room).await;
    assert_eq!(next_event(&alice), "subscribed 0");
    let append = |id: &str, frame: &'static [u8]| Append {
        stream: Stream::new(room, History::default()),
        event: EventId::new(id).unwrap(),
        frame: bytes::Bytes::from_static(frame),
        fence: None,
    };
    let broken = [
        append("x1", b"not json"),
        // The state lacks the fields that conditions read.
        append("x2", br#"{"event":"e","payload":null,"id":"x2","at":"","about":{"entity":"cards","record":"c","state":{}}}"#),
        append("x3", br#"{"event":"e","payload":null,"id":"x3","at":"","about":{"entity":"unknown","record":"c","state":{}}}"#),
        append("x4", br#"{"event":"said","payload":null,"id":"x4","at":""}"#),
    ];
    node.engine.append(&broken).await.unwrap();
    assert_eq!(event_soon(&alice).await, "said 4");
    assert_eq!(next_event(&alice), "");
    assert_eq!(
        alice.push(ServerFrame::pong(None), Class::Durable),
        crate::connection::Pushed::Queued
    );
    node.app.stop().await.unwrap();
}
