//! Tests of clients that resume, and of presence.

use serde_json::{Value as Json, json};

use crate::socket::Socket;
use crate::test_app::{TestApp, room};

/// Joins a room from a position. Returns the answer.
async fn resume(socket: &mut Socket, room: &str, epoch: &Json, offset: u64) -> Json {
    let since = json!({ "epoch": epoch, "offset": offset });
    socket
        .send(json!({ "action": "subscribe", "room": room, "since": since }))
        .await;
    socket.until("subscribed").await
}

#[tokio::test]
async fn missed_frames_arrive_once_and_in_order() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let container = test_app.container(&ada, "public").await;
    let room = room(&container);
    let mut socket = test_app.connect(&bob).await;
    let joined = socket.join(&room).await;
    drop(socket);
    for number in 1..=5 {
        test_app.announce(&container, &number.to_string()).await;
    }
    let mut socket = test_app.connect(&bob).await;
    let more = async {
        for number in 6..=200 {
            test_app.announce(&container, &number.to_string()).await;
            tokio::task::yield_now().await;
        }
    };
    let resumed = async {
        let answer = resume(&mut socket, &room, &joined["epoch"], 0).await;
        assert_eq!(
            (&answer["recovered"], &answer["offset"]),
            (&json!(true), &json!(0))
        );
        assert!(answer["replayed"].as_u64().unwrap() >= 5);
        for number in 1..=200 {
            let frame = socket.until("announcement").await;
            assert_eq!(frame["offset"], number);
            assert_eq!(frame["payload"]["text"], json!(number.to_string()));
        }
    };
    tokio::join!(resumed, more);
}

#[tokio::test]
async fn more_frames_than_fit_into_the_queue_are_replayed() {
    let test_app = TestApp::limited(|limits| limits.queue_frames = 16).await;
    let ada = test_app.user("ada").await;
    let container = test_app.container(&ada, "public").await;
    let room = room(&container);
    let epoch = test_app.connect(&ada).await.join(&room).await["epoch"].clone();
    for number in 1..=90 {
        test_app.announce(&container, &number.to_string()).await;
    }
    let mut socket = test_app.connect(&ada).await;
    let answer = resume(&mut socket, &room, &epoch, 0).await;
    assert_eq!(answer["recovered"], json!(true));
    for number in 1..=90 {
        let frame = socket.until("announcement").await;
        assert_eq!(frame["offset"], number);
    }
}

#[tokio::test]
async fn a_refused_position_has_a_reason() {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let container = test_app.container(&ada, "public").await;
    let room = room(&container);
    let epoch = test_app.connect(&ada).await.join(&room).await["epoch"].clone();
    // The channel keeps 100 frames.
    for number in 0..105 {
        test_app.announce(&container, &number.to_string()).await;
    }
    let other = json!("0123456789abcdef");
    for (epoch, offset, reason) in [
        (&other, 1, "epoch_changed"),
        (&epoch, 1, "history_unavailable"),
        (&epoch, 106, "offset_ahead"),
    ] {
        let mut socket = test_app.connect(&ada).await;
        let answer = resume(&mut socket, &room, epoch, offset).await;
        assert_eq!(
            (&answer["recovered"], &answer["reason"]),
            (&json!(false), &json!(reason))
        );
        assert_eq!(answer["offset"], 105, "at the top");
    }
}

#[tokio::test]
async fn several_rooms_are_recovered_by_one_frame() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let mut socket = test_app.connect(&bob).await;
    let mut rooms = Vec::new();
    for number in 0..3 {
        let container = test_app.container(&ada, "public").await;
        let epoch = socket.join(&room(&container)).await["epoch"].clone();
        rooms.push((
            container,
            if number == 1 {
                json!("0123456789abcdef")
            } else {
                epoch
            },
        ));
    }
    drop(socket);
    for (container, _) in &rooms {
        test_app.announce(container, "missed").await;
    }
    let path = format!("/containers/{}", rooms[2].0);
    let done = ada
        .http
        .patch(&path, json!({ "visibility": "private" }))
        .await
        .unwrap();
    assert_eq!(done.status(), 200);
    let mut socket = test_app.connect(&bob).await;
    let positions: Vec<Json> = rooms
        .iter()
        .map(|(id, epoch)| json!({ "room": room(id), "epoch": epoch, "offset": 0 }))
        .collect();
    socket
        .send(json!({ "action": "recover", "rooms": positions, "ref": "r" }))
        .await;
    let mut failed = Vec::new();
    let recovered = loop {
        let frame = socket.next().await;
        match frame["event"].as_str().unwrap() {
            "recover_failed" => failed.push((frame["room"].clone(), frame["reason"].clone())),
            "recovered" => break frame,
            _ => {}
        }
    };
    assert_eq!(
        failed,
        [
            (json!(room(&rooms[1].0)), json!("epoch_changed")),
            (json!(room(&rooms[2].0)), json!("denied")),
        ]
    );
    assert_eq!(
        (&recovered["replayed"], &recovered["ref"]),
        (&json!(1), &json!("r"))
    );
    assert_eq!(recovered["rooms"], json!([room(&rooms[0].0)]));
}

#[tokio::test]
async fn a_client_that_lost_its_rights_gets_no_replay() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let container = test_app.container(&ada, "public").await;
    let room = room(&container);
    let epoch = test_app.connect(&bob).await.join(&room).await["epoch"].clone();
    test_app.announce(&container, "missed").await;
    let path = format!("/containers/{container}");
    ada.http
        .patch(&path, json!({ "visibility": "private" }))
        .await
        .unwrap();
    let mut socket = test_app.connect(&bob).await;
    let since = json!({ "epoch": epoch, "offset": 0 });
    socket
        .send(json!({ "action": "subscribe", "room": room, "since": since }))
        .await;
    let denied = json!({ "event": "subscribe_denied", "room": room, "code": "not_found" });
    assert_eq!(socket.next().await, denied);
    assert!(socket.pending().await.is_empty());
}

#[tokio::test]
async fn a_restart_with_the_memory_engine_changes_the_epoch() {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let container = test_app.container(&ada, "public").await;
    let room = room(&container);
    let mut socket = test_app.connect(&ada).await;
    let epoch = socket.join(&room).await["epoch"].clone();
    test_app.announce(&container, "before").await;
    socket.until("announcement").await;
    let (test_app, closed) = tokio::join!(test_app.restart(), socket.closed());
    assert_eq!(closed, (1012, "restart".to_owned()));
    let mut socket = test_app.connect(&ada).await;
    let answer = resume(&mut socket, &room, &epoch, 1).await;
    assert_eq!(answer["reason"], "epoch_changed");
}

#[tokio::test]
async fn a_user_in_two_tabs_is_present_once() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let container = test_app.container(&ada, "public").await;
    let room = room(&container);
    let mut witness = test_app.member(&bob, &room).await;
    let one = test_app.member(&ada, &room).await;
    assert_eq!(
        witness.until("presence_join").await["userId"],
        json!(ada.id)
    );
    let mut two = test_app.connect(&ada).await;
    let users = two.join(&room).await["presence"].clone();
    assert_eq!(
        (&users["count"], &users["truncated"]),
        (&json!(2), &json!(false))
    );
    drop(one);
    test_app.wait_for_connections(2).await;
    assert!(
        witness.pending().await.is_empty(),
        "the other tab is still there"
    );
    drop(two);
    assert_eq!(
        witness.until("presence_leave").await["userId"],
        json!(ada.id)
    );
    witness
        .send(json!({ "action": "presence", "room": room, "ref": "p" }))
        .await;
    let present = witness.next().await;
    assert_eq!(
        (&present["count"], &present["ref"]),
        (&json!(1), &json!("p"))
    );
}
