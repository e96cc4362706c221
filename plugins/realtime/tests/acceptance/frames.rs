//! Tests of events from clients, and of frames that cannot be read.

use serde_json::{Value as Json, json};

use crate::socket::Socket;
use crate::test_app::{TestApp, room};

/// Sends an event and returns its acknowledgement.
async fn acked(socket: &mut Socket, event: Json) -> Json {
    let mut event = event;
    event["action"] = json!("event");
    event["ackId"] = json!("a");
    socket.send(event).await;
    let ack = socket.until("ack").await;
    assert_eq!(ack["ackId"], "a");
    ack
}

#[tokio::test]
async fn invalid_room_names_are_refused() {
    let test_app = TestApp::limited(|limits| limits.rooms = 2).await;
    let ada = test_app.user("ada").await;
    let mut socket = test_app.connect(&ada).await;
    let long = format!("containers:{}:live", "a".repeat(513));
    for name in ["x", "a:b", "containers:a%2f:live", &long] {
        socket
            .send(json!({ "action": "subscribe", "room": name }))
            .await;
        let denied = socket.next().await;
        assert_eq!(
            (&denied["event"], &denied["code"]),
            (&json!("subscribe_denied"), &json!("invalid_room")),
            "{name}"
        );
    }
    for _ in 0..2 {
        let container = test_app.container(&ada, "public").await;
        socket.join(&room(&container)).await;
    }
    let third = test_app.container(&ada, "public").await;
    socket
        .send(json!({ "action": "subscribe", "room": room(&third) }))
        .await;
    assert_eq!(
        socket.until("subscribe_denied").await["code"],
        "too_many_rooms"
    );
}

#[tokio::test]
async fn an_operation_runs_through_the_policy_of_its_route() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (
        test_app.user_with("ada", &["moderator"]).await,
        test_app.user("bob").await,
    );
    let container = test_app.container(&ada, "public").await;
    let elsewhere = test_app.container(&ada, "public").await;
    let thread = test_app.draft(&ada, &container).await;
    test_app.publish(&ada, &thread).await;
    let pin = |container: &str| json!({ "event": "pin", "room": room(container), "payload": { "id": thread } });
    let mut member = test_app.connect(&bob).await;
    let ack = acked(&mut member, pin(&container)).await;
    assert_eq!(
        (&ack["outcome"], &ack["error"]),
        (&json!("error"), &json!("forbidden"))
    );
    let unchanged = ada.http.get(&format!("/threads/{thread}")).await.unwrap();
    assert_eq!(unchanged.json().unwrap()["pinned"], false);

    let mut moderator = test_app.connect(&ada).await;
    let ack = acked(&mut moderator, pin(&elsewhere)).await;
    assert_eq!(
        ack["code"], "not_found",
        "the thread belongs to another room"
    );
    let ack = acked(&mut moderator, pin(&container)).await;
    assert_eq!(
        (&ack["outcome"], &ack["result"]["pinned"]),
        (&json!("ok"), &json!(true))
    );
    assert_eq!(ack["result"]["id"], thread);
}

#[tokio::test]
async fn an_unknown_event_always_has_an_answer() {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let container = test_app.container(&ada, "public").await;
    let mut socket = test_app.member(&ada, &room(&container)).await;
    let ack = acked(
        &mut socket,
        json!({ "event": "dance", "room": room(&container) }),
    )
    .await;
    assert_eq!(
        (&ack["outcome"], &ack["code"]),
        (&json!("error"), &json!("unknown_event"))
    );
    let frame = json!({ "action": "event", "event": "dance", "room": room(&container) });
    socket.send(frame).await;
    let error = socket.until("ws:error").await;
    assert_eq!(
        (&error["code"], &error["sourceEvent"]),
        (&json!("unknown_event"), &json!("dance"))
    );
    let typing = json!({
        "event": "typing", "room": room(&container), "payload": { "threadId": "t", "more": 1 },
    });
    let ack = acked(&mut socket, typing).await;
    assert_eq!(ack["code"], "validation_failed");
    assert_eq!(ack["details"][0]["path"], "more");
}

#[tokio::test]
async fn an_idempotency_key_has_one_effect() {
    let test_app = TestApp::start().await;
    let ada = test_app.user_with("ada", &["moderator"]).await;
    let container = test_app.container(&ada, "public").await;
    let thread = test_app.draft(&ada, &container).await;
    let pin = json!({
        "event": "pin", "room": room(&container), "payload": { "id": thread },
        "idempotencyKey": "once",
    });
    let mut results = Vec::new();
    for outcome in ["ok", "replayed"] {
        let mut socket = test_app.connect(&ada).await;
        let ack = acked(&mut socket, pin.clone()).await;
        assert_eq!(ack["outcome"], outcome, "{ack}");
        results.push(ack["result"].clone());
    }
    assert_eq!(results[0], results[1]);
}

#[tokio::test]
async fn a_relayed_frame_reaches_the_other_members() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let container = test_app.container(&ada, "public").await;
    let mut sender = test_app.member(&ada, &room(&container)).await;
    let mut member = test_app.member(&bob, &room(&container)).await;
    let mut outside = test_app.connect(&bob).await;
    let typing = json!({
        "event": "typing", "room": room(&container), "payload": { "threadId": "t" },
    });
    assert_eq!(acked(&mut sender, typing.clone()).await["outcome"], "ok");
    let frame = member.until("typing").await;
    assert_eq!(
        (&frame["from"], &frame["payload"]),
        (&json!(ada.id), &json!({ "threadId": "t" }))
    );
    assert!(frame.get("offset").is_none());
    assert!(
        sender
            .pending()
            .await
            .iter()
            .all(|frame| frame["event"] != "typing")
    );
    assert_eq!(acked(&mut outside, typing).await["code"], "not_subscribed");
}

#[tokio::test]
async fn malformed_frames_end_the_connection() {
    use tokio_tungstenite::tungstenite::Message;

    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let mut socket = test_app.connect(&ada).await;
    socket.text("ping").await;
    assert_eq!(socket.next().await, json!({ "event": "pong" }));
    futures_util::SinkExt::send(&mut socket.0, Message::binary(vec![1]))
        .await
        .unwrap();
    assert_eq!(
        socket.closed().await,
        (1003, "Binary not supported".to_owned())
    );

    let mut socket = test_app.connect(&ada).await;
    socket.text(&" ".repeat(65_537)).await;
    assert_eq!(
        socket.closed().await,
        (1009, "Message too large".to_owned())
    );

    let mut socket = test_app.connect(&ada).await;
    for _ in 0..10 {
        socket.text("{").await;
        assert_eq!(socket.next().await["code"], "malformed_json");
    }
    assert_eq!(socket.closed().await, (4400, "bad frames".to_owned()));
}
