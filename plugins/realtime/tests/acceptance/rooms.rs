//! Rooms: which callers get which events.

use linchpin::prelude::*;
use linchpin_realtime::channel;
use serde_json::json;

use crate::bed::{Bed, Container, ContainerLive, created, room};

/// Sends a frame to a room from code, after everything that was committed before.
///
/// Events of one stream are appended in the order of their commits, so a member that has got this
/// frame has got all earlier ones.
async fn mark(bed: &Bed, container: &str) {
    let cx = Cx::system("a test");
    let rooms = bed.rooms();
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

/// The events that a member gets until the next mark.
async fn heard(socket: &mut crate::socket::Socket) -> Vec<String> {
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
    let bed = Bed::start().await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let container = bed.container(&ada, "public").await;
    let elsewhere = bed.container(&ada, "public").await;
    let mut member = bed.member(&bob, &room(&container)).await;
    let mut stranger = bed.member(&bob, &room(&elsewhere)).await;

    let thread = bed.draft(&ada, &container).await;
    bed.publish(&ada, &thread).await;
    let frame = member.until("threads.publish").await;
    assert_eq!(frame["room"], room(&container));
    assert_eq!(frame["payload"]["id"], thread);
    assert_eq!(frame["payload"]["status"], "published");
    // The creation of the draft has an offset, too, but was not for this member.
    assert_eq!(frame["offset"], 2);
    assert!(frame["id"].as_str().is_some() && frame["at"].as_str().is_some());
    assert!(
        frame["payload"].get("note").is_none(),
        "a private field: {frame}"
    );

    mark(&bed, &elsewhere).await;
    assert!(heard(&mut stranger).await.is_empty(), "another room");
    bed.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_draft_reaches_only_its_owner() {
    let bed = Bed::start().await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let container = bed.container(&ada, "public").await;
    let mut owner = bed.member(&ada, &room(&container)).await;
    let mut other = bed.member(&bob, &room(&container)).await;
    let thread = bed.draft(&ada, &container).await;
    bed.publish(&ada, &thread).await;
    mark(&bed, &container).await;
    assert_eq!(
        heard(&mut owner).await,
        ["threads.created", "threads.publish"]
    );
    assert_eq!(heard(&mut other).await, ["threads.publish"]);
}

#[tokio::test]
async fn a_transaction_that_is_rolled_back_sends_nothing() {
    let bed = Bed::start().await;
    let ada = bed.user("ada").await;
    let container = bed.container(&ada, "public").await;
    let mut member = bed.member(&ada, &room(&container)).await;
    let rooms = bed.rooms();
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

/// A channel that no list of the plugin contains.
#[channel(of = Container, name = "unlisted")]
enum Unlisted {
    #[publish]
    Announcement { text: String },
}

#[tokio::test]
async fn a_channel_that_is_not_listed_cannot_be_published_to() {
    let bed = Bed::start().await;
    let text = "lost".to_owned();
    let room = bed.rooms().room::<Unlisted>("c1");
    let published = room
        .publish(&Cx::system("a test"), Unlisted::Announcement { text })
        .await;
    let cause = format!("{:?}", published.unwrap_err());
    let help = "channel `Unlisted` is not part of the app: add it by `.channel::<Unlisted>()`";
    assert!(cause.contains(help), "{cause}");
}

#[tokio::test]
async fn a_room_is_joined_once_and_left() {
    let bed = Bed::start().await;
    let ada = bed.user("ada").await;
    let container = bed.container(&ada, "public").await;
    let room = room(&container);
    let mut socket = bed.connect(&ada).await;
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

    bed.draft(&ada, &container).await;
    mark(&bed, &container).await;
    assert_eq!(heard(&mut socket).await, ["threads.created"], "once");
    let mut other = bed.member(&ada, &room).await;
    socket
        .send(json!({ "action": "unsubscribe", "room": room }))
        .await;
    socket.until("unsubscribed").await;
    mark(&bed, &container).await;
    heard(&mut other).await;
    assert!(socket.pending().await.is_empty());
}

#[tokio::test]
async fn a_hidden_container_and_a_missing_one_are_the_same() {
    let bed = Bed::start().await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let container = bed.container(&ada, "private").await;
    let mut socket = bed.connect(&bob).await;
    for name in [room(&container), room("missing")] {
        socket
            .send(json!({ "action": "subscribe", "room": name }))
            .await;
        let denied = json!({ "event": "subscribe_denied", "room": name, "code": "not_found" });
        assert_eq!(socket.next().await, denied);
    }
    bed.member(&ada, &room(&container)).await;
}

#[tokio::test]
async fn a_collection_has_a_stream_for_each_owner() {
    let bed = Bed::start().await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let mut of_ada = bed.member(&ada, "tasks:live").await;
    let mut of_bob = bed.member(&bob, "tasks:live").await;
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
        let frame = of_ada.next().await;
        assert_eq!(frame["payload"]["title"], title);
        assert_eq!(frame["offset"], offset);
    }
    let frame = of_bob.next().await;
    assert_eq!(
        (frame["payload"]["title"].as_str(), &frame["offset"]),
        (Some("three"), &json!(1))
    );
}

#[tokio::test]
async fn a_container_that_leaves_sight_ends_the_room() {
    let bed = Bed::start().await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let container = bed.container(&ada, "public").await;
    let mut owner = bed.member(&ada, &room(&container)).await;
    let mut other = bed.member(&bob, &room(&container)).await;
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
    bed.draft(&ada, &container).await;
    mark(&bed, &container).await;
    assert_eq!(
        heard(&mut owner).await,
        ["containers.updated", "threads.created"]
    );
    assert!(other.pending().await.is_empty());
}

#[tokio::test]
async fn a_record_that_leaves_sight_is_hidden() {
    let bed = Bed::start().await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let container = bed.container(&ada, "public").await;
    let elsewhere = bed.container(&ada, "public").await;
    let mut other = bed.member(&bob, &room(&container)).await;
    let thread = bed.draft(&ada, &container).await;
    bed.publish(&ada, &thread).await;
    other.until("threads.publish").await;
    let path = format!("/threads/{thread}");
    for change in [
        json!({ "status": "draft" }),
        json!({ "status": "published" }),
        // To another room.
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
