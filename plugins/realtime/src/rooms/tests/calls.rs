//! Events from clients.

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

/// An event that could not be repeated without a second effect.
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
    // The refused one was not relayed.
    assert_eq!(event_soon(&bob).await, "typing alice");
    assert_eq!(next_event(&bob), "");
    node.app.stop().await.unwrap();
}
