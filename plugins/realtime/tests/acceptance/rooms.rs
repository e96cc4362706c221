//! Tests of rooms: the events that each caller gets.

use linchpin::prelude::*;
use linchpin_realtime::channel;
use serde_json::json;

use crate::test_app::{Container, ContainerLive, TestApp, created, room};

/// Publishes a frame to a room from code, after all earlier commits.
///
/// Events of one stream are appended in the order of their commits, so a member that has received
/// this frame has received all earlier ones.
async fn mark(test_app: &TestApp, container: &str) {
    let cx = Cx::system("a test");
    let rooms = test_app.rooms();
    cx.transaction(async |cx| {
        let text = "mark".to_owned();
        rooms
            .room::<ContainerLive>(container)
            .publish(cx, ContainerLive::Announcement { text })
            .await
    })
    .await
    .unwrap();
}

/// Returns the events that a member gets until the next mark.
async fn events_until_mark(socket: &mut crate::socket::Socket) -> Vec<String> {
    let mut events = Vec::new();
    loop {
        let frame = socket.next().await;
        let event = frame["event"].as_str().unwrap();
        match event {
            "announcement" => return events,
            "presence_join" | "presence_leave" => {}
            event => events.push(event.to_owned()),
        }
    }
}

#[tokio::test]
async fn a_record_created_over_http_reaches_the_members_of_its_room() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let container = test_app.container(&ada, "public").await;
    let elsewhere = test_app.container(&ada, "public").await;
    let mut member = test_app.member(&bob, &room(&container)).await;
    let mut stranger = test_app.member(&bob, &room(&elsewhere)).await;

    let thread = test_app.draft(&ada, &container).await;
    test_app.publish(&ada, &thread).await;
    let frame = member.until("threads.publish").await;
    assert_eq!(frame["room"], room(&container));
    assert_eq!(frame["payload"]["id"], thread);
    assert_eq!(frame["payload"]["status"], "published");
    // The event of the creation of the draft also has an offset, but this member may not see the
    // draft.
    assert_eq!(frame["offset"], 2);
    assert!(frame["id"].as_str().is_some() && frame["at"].as_str().is_some());
    assert!(
        frame["payload"].get("note").is_none(),
        "a private field: {frame}"
    );

    mark(&test_app, &elsewhere).await;
    assert!(
        events_until_mark(&mut stranger).await.is_empty(),
        "another room"
    );
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_draft_reaches_only_its_owner() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let container = test_app.container(&ada, "public").await;
    let mut owner = test_app.member(&ada, &room(&container)).await;
    let mut other = test_app.member(&bob, &room(&container)).await;
    let thread = test_app.draft(&ada, &container).await;
    test_app.publish(&ada, &thread).await;
    mark(&test_app, &container).await;
    assert_eq!(
        events_until_mark(&mut owner).await,
        ["threads.created", "threads.publish"]
    );
    assert_eq!(events_until_mark(&mut other).await, ["threads.publish"]);
}

#[tokio::test]
async fn a_transaction_that_is_rolled_back_sends_nothing() {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let container = test_app.container(&ada, "public").await;
    let mut member = test_app.member(&ada, &room(&container)).await;
    let rooms = test_app.rooms();
    let failed = Cx::system("a test")
        .transaction(async |cx| {
            let text = "never".to_owned();
            rooms
                .room::<ContainerLive>(&*container)
                .publish(cx, ContainerLive::Announcement { text })
                .await?;
            Err::<(), _>(linchpin::Error::not_found())
        })
        .await;
    assert!(failed.is_err());
    let text = "at once".to_owned();
    rooms
        .room::<ContainerLive>(&*container)
        .publish(&Cx::system("a test"), ContainerLive::Announcement { text })
        .await
        .unwrap();
    let frame = member.until("announcement").await;
    assert_eq!(
        (frame["payload"]["text"].as_str(), &frame["offset"]),
        (Some("at once"), &json!(1))
    );
}

/// A channel that is not registered with the plugin.
#[channel(of = Container, name = "unlisted")]
enum Unlisted {
    #[publish]
    Announcement { text: String },
}

#[tokio::test]
async fn a_channel_that_is_not_listed_cannot_be_published_to() {
    let test_app = TestApp::start().await;
    let text = "lost".to_owned();
    let room = test_app.rooms().room::<Unlisted>("c1");
    let published = room
        .publish(&Cx::system("a test"), Unlisted::Announcement { text })
        .await;
    let cause = format!("{:?}", published.unwrap_err());
    let help = "channel `Unlisted` is not part of the app: add it with `.channel::<Unlisted>()`";
    assert!(cause.contains(help), "{cause}");
}

#[tokio::test]
async fn a_room_is_joined_once_and_left() {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let container = test_app.container(&ada, "public").await;
    let room = room(&container);
    let mut socket = test_app.connect(&ada).await;
    socket
        .send(json!({ "action": "subscribe", "room": room, "ref": "1" }))
        .await;
    let first = socket.until("subscribed").await;
    assert_eq!(
        (first["ref"].as_str(), first["offset"].as_u64()),
        (Some("1"), Some(0))
    );
    assert_eq!(first["epoch"].as_str().map(str::len), Some(16));
    assert_eq!(socket.join(&room).await["already"], true);

    test_app.draft(&ada, &container).await;
    mark(&test_app, &container).await;
    assert_eq!(
        events_until_mark(&mut socket).await,
        ["threads.created"],
        "the event arrives only once"
    );
    let mut other = test_app.member(&ada, &room).await;
    socket
        .send(json!({ "action": "unsubscribe", "room": room }))
        .await;
    socket.until("unsubscribed").await;
    mark(&test_app, &container).await;
    events_until_mark(&mut other).await;
    assert!(socket.pending().await.is_empty());
}

#[tokio::test]
async fn a_hidden_container_and_a_missing_one_have_the_same_refusal() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let container = test_app.container(&ada, "private").await;
    let mut socket = test_app.connect(&bob).await;
    for name in [room(&container), room("missing")] {
        socket
            .send(json!({ "action": "subscribe", "room": name }))
            .await;
        let denied = json!({ "event": "subscribe_denied", "room": name, "code": "not_found" });
        assert_eq!(socket.next().await, denied);
    }
    test_app.member(&ada, &room(&container)).await;
}

#[tokio::test]
async fn a_collection_has_a_stream_for_each_owner() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let mut ada_socket = test_app.member(&ada, "tasks:live").await;
    let mut bob_socket = test_app.member(&bob, "tasks:live").await;
    for title in ["one", "two"] {
        created(
            ada.http
                .post("/tasks", json!({ "title": title }))
                .await
                .unwrap(),
        );
    }
    created(
        bob.http
            .post("/tasks", json!({ "title": "three" }))
            .await
            .unwrap(),
    );
    for (offset, title) in [(1, "one"), (2, "two")] {
        let frame = ada_socket.next().await;
        assert_eq!(frame["payload"]["title"], title);
        assert_eq!(frame["offset"], offset);
    }
    let frame = bob_socket.next().await;
    assert_eq!(
        (frame["payload"]["title"].as_str(), &frame["offset"]),
        (Some("three"), &json!(1))
    );
}

#[tokio::test]
async fn a_container_that_becomes_invisible_ends_the_room() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let container = test_app.container(&ada, "public").await;
    let mut owner = test_app.member(&ada, &room(&container)).await;
    let mut other = test_app.member(&bob, &room(&container)).await;
    let path = format!("/containers/{container}");
    let done = ada
        .http
        .patch(&path, json!({ "visibility": "private" }))
        .await
        .unwrap();
    assert_eq!(done.status(), 200, "{:?}", done.text());
    let ended = other.until("unsubscribed").await;
    assert_eq!(
        (&ended["room"], &ended["code"]),
        (&json!(room(&container)), &json!("not_found"))
    );
    test_app.draft(&ada, &container).await;
    mark(&test_app, &container).await;
    assert_eq!(
        events_until_mark(&mut owner).await,
        ["containers.updated", "threads.created"]
    );
    assert!(other.pending().await.is_empty());
}

#[tokio::test]
async fn a_record_that_becomes_invisible_is_hidden() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let container = test_app.container(&ada, "public").await;
    let elsewhere = test_app.container(&ada, "public").await;
    let mut other = test_app.member(&bob, &room(&container)).await;
    let thread = test_app.draft(&ada, &container).await;
    test_app.publish(&ada, &thread).await;
    other.until("threads.publish").await;
    let path = format!("/threads/{thread}");
    for change in [
        json!({ "status": "draft" }),
        json!({ "status": "published" }),
        // The thread moves to another room.
        json!({ "containerId": elsewhere }),
    ] {
        let done = ada.http.patch(&path, change).await.unwrap();
        assert_eq!(done.status(), 200, "{:?}", done.text());
    }
    let hidden = |offset: u64| {
        json!({
            "event": "hidden",
            "room": room(&container),
            "payload": { "entity": "threads", "id": thread },
            "offset": offset,
        })
    };
    assert_eq!(other.next().await, hidden(3));
    assert_eq!(other.next().await["event"], "threads.updated");
    assert_eq!(other.next().await, hidden(5));
}
