//! Tests of joins, and of clients that resume.

use super::*;

#[tokio::test]
async fn hidden_and_missing_rooms_have_the_same_refusal() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    assert_eq!(node.join(&alice, "boards:b2:live").await, "Fresh");
    assert!(next_event(&alice).starts_with("subscribed"));
    for room in ["boards:b2:live", "boards:none:live"] {
        assert_eq!(node.join(&bob, room).await, "not_found");
    }
    for room in [
        "x",
        "a:b",
        "boards:live",
        "boards:b1:other",
        "boards:%61:live",
    ] {
        assert_eq!(node.join(&bob, room).await, "invalid_room");
    }
    // A refused join leaves no live room.
    assert_eq!(node.hub.live_rooms().len(), 1);
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_client_resumes_after_its_position_or_starts_at_the_top() {
    let node = node().await;
    let alice = connect(&node, "1", "alice");
    let room = "boards:b1:live";
    for i in 0..4 {
        node.card(
            &format!("c{i}"),
            if i == 2 { "bob" } else { "alice" },
            false,
        )
        .await;
    }
    let stream = Stream::new(room, History::default());
    let top = node.engine.top(&stream).await.unwrap();
    let at = |offset| Position::new(top.epoch.as_str(), offset);
    assert_eq!(
        node.join_from(&alice, room, Some(at(1))).await,
        "Recovered(2)"
    );
    assert_eq!(next_event(&alice), "subscribed 1");
    assert_eq!(
        (next_event(&alice), next_event(&alice)),
        ("created 2".into(), "created 4".into())
    );
    node.card("c5", "alice", false).await;
    assert_eq!(event_soon(&alice).await, "created 5");
    node.hub.unsubscribe(&alice, room).await;
    node.card("c6", "alice", false).await;
    node.card("c7", "alice", false).await;
    for (since, reason) in [
        (Position::new("another epoch...", 6), "EpochChanged"),
        (at(1), "HistoryUnavailable"),
        (at(99), "OffsetAhead"),
    ] {
        assert_eq!(
            node.join_from(&alice, room, Some(since)).await,
            format!("Reset({reason})")
        );
        assert!(next_event(&alice).starts_with("subscribed 7 "));
        node.hub.unsubscribe(&alice, room).await;
    }
    assert_eq!(next_event(&alice), "");
    // A record that was published and hidden again is not disclosed later.
    let bob = connect(&node, "2", "bob");
    let card = |published| json!({ "id": "c8", "boardId": "b1", "authorId": "alice", "published": published });
    node.append_event(room, "updated", card(true), Some(card(false)))
        .await;
    node.append_event(room, "updated", card(false), Some(card(true)))
        .await;
    assert_eq!(
        node.join_from(&bob, room, Some(at(7))).await,
        "Recovered(1)"
    );
    assert_eq!(next_event(&bob), "subscribed 7");
    assert_eq!(next_event(&bob), "hidden 9");
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_collection_has_one_stream_for_each_partition() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    for connection in [&alice, &bob] {
        assert_eq!(node.join(connection, "chores:live").await, "Fresh");
        assert_eq!(next_event(connection), "subscribed 0");
    }
    let names: Vec<String> = node
        .hub
        .live_rooms()
        .iter()
        .map(|live| live.stream.name().to_owned())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains(&stream_name("chores:live", &[Some("alice".to_owned())])));
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_late_subscription_does_not_repeat_replayed_frames() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    let room = "boards:b1:live";
    node.join(&alice, room).await;
    assert!(next_event(&alice).starts_with("subscribed"));
    let start = node
        .engine
        .top(&Stream::new(room, History::default()))
        .await;
    // The node does not receive these frames, but a read of the stream returns them.
    node.engine.cut();
    node.card("c1", "alice", true).await;
    node.card("c2", "alice", true).await;
    let since = Position::new(start.unwrap().epoch.as_str(), 0);
    let joined = node.join_from(&bob, room, Some(since)).await;
    assert_eq!(joined, "Recovered(2)");
    assert!(next_event(&bob).starts_with("subscribed"));
    assert_eq!(next_event(&bob), "created 1");
    assert_eq!(next_event(&bob), "created 2");
    node.engine.recover();
    node.card("c3", "alice", true).await;
    let mut of_alice = Vec::new();
    while of_alice.last().is_none_or(|last| last != "created 3") {
        let event = event_soon(&alice).await;
        assert!(!event.is_empty(), "{of_alice:?}");
        if event.starts_with("created") {
            of_alice.push(event);
        }
    }
    assert_eq!(of_alice, ["created 1", "created 2", "created 3"]);
    assert_eq!(event_soon(&bob).await, "created 3");
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_change_during_a_join_is_checked_again() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    let room = "boards:b1:live";
    node.join(&alice, room).await;
    assert!(next_event(&alice).starts_with("subscribed"));
    node.engine.cut();
    let state = |open: bool| json!({ "id": "b1", "open": open, "ownerId": "alice" });
    node.append_event(room, "updated", state(false), Some(state(true)))
        .await;
    // The event is in the stream, but the check of the join still sees the open board.
    assert_eq!(node.join(&bob, room).await, "Fresh");
    assert!(next_event(&bob).starts_with("subscribed"));
    let boards = node.app.adapter::<Board>().unwrap();
    let closed = BoardPatch {
        open: Some(false),
        ..BoardPatch::default()
    };
    let cx = Cx::system("a test");
    boards.update(&cx, "b1", closed, None).await.unwrap();
    node.engine.recover();
    assert_eq!(event_soon(&bob).await, "unsubscribed not_found");
    node.app.stop().await.unwrap();
}
