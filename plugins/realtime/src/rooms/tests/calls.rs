//! Tests of events from clients.

use super::*;

fn call(event: &str, more: &Value) -> Box<crate::protocol::EventCall> {
    let mut frame = json!({ "action": "event", "event": event, "room": "boards:b1:live" });
    for (name, value) in more.as_object().unwrap() {
        frame[name] = value.clone();
    }
    match ClientFrame::parse(&frame.to_string()) {
        Ok(ClientFrame::Event(call)) => call,
        other => panic!("{other:?}"),
    }
}

/// Without an idempotent operation, a repeated event would have a second effect despite its key.
#[tokio::test]
async fn a_key_without_an_idempotent_operation_is_refused() {
    let node = node().await;
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    let room = "boards:b1:live";
    for connection in [&alice, &bob] {
        node.join(connection, room).await;
    }
    assert_eq!(next_event(&bob), "subscribed 0");
    let cards = node.app.adapter::<Card>().unwrap();
    let card = CardCreate {
        id: "c1".to_owned(),
        board_id: "b1".to_owned(),
        author_id: "alice".to_owned(),
        published: false,
    };
    cards.create(&Cx::system("a test"), card).await.unwrap();
    for (event, payload) in [("typing", Value::Null), ("publish", json!({ "id": "c1" }))] {
        let keyed = json!({ "payload": payload, "idempotencyKey": "once" });
        let refused = node.hub.event(&alice, &call(event, &keyed)).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), linchpin::Code::ValidationFailed, "{event}");
        let problem = &refused.details()[0];
        assert_eq!(
            (&*problem.path, problem.code),
            ("idempotencyKey", "not_allowed")
        );
        let plain = call(event, &json!({ "payload": payload }));
        let done = node.hub.event(&alice, &plain).await.unwrap();
        assert!(!done.replayed);
    }
    // The refused event was not relayed.
    assert_eq!(event_soon(&bob).await, "typing alice");
    assert_eq!(next_event(&bob), "");
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_relayed_frame_reaches_the_other_members() {
    let node = node().await;
    // The limit of relayed frames refills over time.
    tokio::time::pause();
    let (alice, bob) = (connect(&node, "1", "alice"), connect(&node, "2", "bob"));
    let room = "boards:b1:live";
    let call = |event: &str, payload: &str| {
        let text = format!(
            r#"{{"action":"event","event":"{event}","room":"{room}","payload":{payload},"ackId":1}}"#
        );
        match ClientFrame::parse(&text) {
            Ok(ClientFrame::Event(call)) => call,
            other => panic!("{other:?}"),
        }
    };
    let failed = node.hub.event(&alice, &call("typing", "null")).await;
    assert_eq!(failed.unwrap_err().code().as_str(), "not_subscribed");
    for connection in [&alice, &bob] {
        node.join(connection, room).await;
    }
    assert_eq!(next_event(&alice), "subscribed 0");
    assert_eq!(event_soon(&alice).await, "presence_join bob");
    assert_eq!(next_event(&bob), "subscribed 0");
    let done = node
        .hub
        .event(&alice, &call("typing", "null"))
        .await
        .unwrap();
    assert_eq!(done.result, "null");
    assert_eq!(event_soon(&bob).await, "typing alice");
    assert_eq!(next_event(&alice), "");
    for _ in 0..9 {
        node.hub
            .event(&alice, &call("typing", "null"))
            .await
            .unwrap();
    }
    let failed = node.hub.event(&alice, &call("typing", "null")).await;
    assert_eq!(failed.unwrap_err().code().as_str(), "rate_limited");
    let failed = node.hub.event(&alice, &call("unknown", "null")).await;
    assert_eq!(failed.unwrap_err().code().as_str(), "unknown_event");
    // An operation on a record of another room or of no room is refused.
    let failed = node
        .hub
        .event(&alice, &call("publish", r#"{"id":"c1"}"#))
        .await;
    assert_eq!(failed.unwrap_err().code().as_str(), "not_found");
    let failed = node.hub.event(&alice, &call("publish", "{}")).await;
    assert_eq!(failed.unwrap_err().code().as_str(), "validation_failed");
    node.app.stop().await.unwrap();
}
