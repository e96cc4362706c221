//! Tests of operations that change many records: the room of each record gets an event.

use linchpin::{Code, Cx};
use serde_json::{Value as Json, json};

use crate::socket::Socket;
use crate::test_app::{Status, TestApp, Thread, ThreadCreate, User};

/// The room of a container.
fn room(container: &str) -> String {
    format!("containers:{container}:batches")
}

/// Calls a batch operation. Returns the number of records and the id of the event.
async fn call(user: &User, path: &str, body: Json) -> (u64, String) {
    let done = user.http.post(path, body).await.unwrap();
    assert_eq!(done.status(), 200, "{:?}", done.text());
    let event = done.header("x-event-id").unwrap().to_owned();
    (done.json().unwrap().as_u64().unwrap(), event)
}

/// Returns the next frame, without its time.
async fn frame(socket: &mut Socket) -> Json {
    let mut frame = socket.next().await;
    frame.as_object_mut().unwrap().remove("at");
    frame
}

/// Returns a frame with a reference to a record.
fn reference_frame(room: &str, event: (&str, &str), thread: &str, offset: u64) -> Json {
    json!({
        "event": event.0, "room": room, "payload": null, "truncated": true,
        "payload_ref": { "entity": "threads", "id": thread }, "id": event.1, "offset": offset,
    })
}

fn hidden_frame(room: &str, thread: &str, offset: u64) -> Json {
    let payload = json!({ "entity": "threads", "id": thread });
    json!({ "event": "hidden", "room": room, "payload": payload, "offset": offset })
}

#[tokio::test]
async fn each_record_of_a_batch_reaches_members_of_its_room_who_may_see_it() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let one = test_app.container(&ada, "public").await;
    let two = test_app.container(&ada, "public").await;
    let (room_one, room_two) = (room(&one), room(&two));
    let ada_threads = [
        test_app.draft(&ada, &one).await,
        test_app.draft(&ada, &two).await,
    ];
    let bob_thread = test_app.draft(&bob, &one).await;
    let mut ada_one = test_app.member(&ada, &room_one).await;
    let mut bob_one = test_app.member(&bob, &room_one).await;
    let mut bob_two = test_app.member(&bob, &room_two).await;
    // Two threads of two rooms become visible. Ada cannot see the draft of bob.
    let body = json!({ "title": "first", "status": "published" });
    let (count, event) = call(&ada, "/threads/set-status", body).await;
    assert_eq!(count, 2);
    let event = ("threads.set-status", event.as_str());
    for socket in [&mut ada_one, &mut bob_one] {
        let expected = reference_frame(&room_one, event, &ada_threads[0], 1);
        assert_eq!(frame(socket).await, expected);
    }
    let expected = reference_frame(&room_two, event, &ada_threads[1], 1);
    assert_eq!(frame(&mut bob_two).await, expected);
    // Bob changes all threads that he can see: his own draft and the two of ada.
    let body = json!({ "title": "first", "status": "draft" });
    let (count, event) = call(&bob, "/threads/set-status", body).await;
    assert_eq!(count, 3);
    let event = ("threads.set-status", event.as_str());
    let mut bob_frames = [frame(&mut bob_one).await, frame(&mut bob_one).await];
    bob_frames.sort_by_key(|frame| frame["event"].as_str().unwrap().to_owned());
    assert_eq!(bob_frames[0]["event"], "hidden");
    assert_eq!(bob_frames[0]["payload"]["id"], ada_threads[0]);
    let offset = bob_frames[1]["offset"].as_u64().unwrap();
    assert_eq!(
        bob_frames[1],
        reference_frame(&room_one, event, &bob_thread, offset)
    );
    assert_eq!(
        frame(&mut bob_two).await,
        hidden_frame(&room_two, &ada_threads[1], 2)
    );
    let own = frame(&mut ada_one).await;
    assert_eq!(own["payload_ref"]["id"], ada_threads[0]);
    let (_, event) = call(&ada, "/threads/pin-all", json!({ "title": "first" })).await;
    let last = reference_frame(&room_one, ("threads.pin-all", &event), &ada_threads[0], 4);
    assert_eq!(frame(&mut ada_one).await, last, "no frame of bob's draft");
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_batch_moves_records_between_rooms_and_removes_them() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let one = test_app.container(&ada, "public").await;
    let two = test_app.container(&ada, "public").await;
    let (room_one, room_two) = (room(&one), room(&two));
    let thread = test_app.draft(&ada, &one).await;
    test_app.publish(&ada, &thread).await;
    // The publication has changed who may see the thread, so it is the first entry of the room's
    // stream. Clients get no event, because the channel does not list the operation.
    let mut in_one = test_app.member(&bob, &room_one).await;
    let mut in_two = test_app.member(&bob, &room_two).await;
    let body = json!({ "title": "first" });
    let (_, event) = call(&ada, "/threads/pin-all", body.clone()).await;
    let event = ("threads.pin-all", event.as_str());
    assert_eq!(
        frame(&mut in_one).await,
        reference_frame(&room_one, event, &thread, 2)
    );
    let to = json!({ "title": "first", "to": two });
    let (_, event) = call(&ada, "/threads/move-all", to).await;
    let event = ("threads.move-all", event.as_str());
    assert_eq!(
        frame(&mut in_one).await,
        hidden_frame(&room_one, &thread, 3)
    );
    assert_eq!(
        frame(&mut in_two).await,
        reference_frame(&room_two, event, &thread, 1)
    );
    let (_, event) = call(&ada, "/threads/clear", body).await;
    let event = ("threads.clear", event.as_str());
    assert_eq!(
        frame(&mut in_two).await,
        reference_frame(&room_two, event, &thread, 2)
    );
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_batch_that_closes_a_room_ends_its_subscriptions() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let container = test_app.container(&ada, "public").await;
    let room = room(&container);
    let mut owner = test_app.member(&ada, &room).await;
    let mut other = test_app.member(&bob, &room).await;
    let body = json!({ "name": "one", "visibility": "private" });
    assert_eq!(call(&ada, "/containers/set-visibility", body).await.0, 1);
    let ended = frame(&mut other).await;
    assert_eq!(ended["event"], "unsubscribed");
    assert_eq!(ended["code"], Code::NotFound.as_str());
    let frame_of_owner = frame(&mut owner).await;
    assert_eq!(frame_of_owner["event"], "containers.set-visibility");
    assert_eq!(frame_of_owner["payload_ref"]["id"], container);
    test_app.app.stop().await.unwrap();
}

/// The channel lists neither the update of a container nor that of a thread.
#[tokio::test]
async fn a_visibility_change_through_an_unlisted_route_reaches_the_room() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let container = test_app.container(&ada, "public").await;
    let room = room(&container);
    let thread = test_app.draft(&ada, &container).await;
    test_app.publish(&ada, &thread).await;
    let mut owner = test_app.member(&ada, &room).await;
    let mut other = test_app.member(&bob, &room).await;
    let patch = async |path: String, body: Json| {
        let done = ada.http.patch(&path, body).await.unwrap();
        assert_eq!(done.status(), 200, "{:?}", done.text());
    };
    let draft = json!({ "status": "draft" });
    patch(format!("/threads/{thread}"), draft).await;
    assert_eq!(frame(&mut other).await, hidden_frame(&room, &thread, 2));
    let private = json!({ "visibility": "private" });
    patch(format!("/containers/{container}"), private).await;
    let ended = frame(&mut other).await;
    assert_eq!(ended["event"], "unsubscribed");
    assert_eq!(ended["code"], Code::NotFound.as_str());
    // The owner gets only listed events.
    let (_, event) = call(&ada, "/threads/pin-all", json!({ "title": "first" })).await;
    let expected = reference_frame(&room, ("threads.pin-all", &event), &thread, 4);
    assert_eq!(frame(&mut owner).await, expected);
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_batch_of_several_events_sends_one_frame_for_each_record() {
    const COUNT: usize = 1_100;
    let test_app = TestApp::limited(|limits| limits.queue_frames = 4_096).await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let container = test_app.container(&ada, "public").await;
    let threads = test_app.app.adapter::<Thread>().unwrap();
    let cx = Cx::system("a test");
    let made = cx.transaction(async |cx| {
        let mut ids = Vec::with_capacity(COUNT);
        for _ in 0..COUNT {
            let thread = ThreadCreate {
                container_id: container.clone(),
                owner_id: ada.id.clone(),
                title: "many".to_owned(),
                status: Status::Published,
                pinned: None,
                note: None,
            };
            ids.push(threads.create(cx, thread).await?.id);
        }
        Ok(ids)
    });
    let mut all = made.await.unwrap();
    let mut member = test_app.member(&bob, &room(&container)).await;
    let body = json!({ "title": "many" });
    assert_eq!(call(&ada, "/threads/pin-all", body).await.0, COUNT as u64);
    let mut seen = Vec::with_capacity(COUNT);
    while seen.len() < COUNT {
        let frame = frame(&mut member).await;
        assert_eq!(frame["event"], "threads.pin-all");
        assert_eq!(frame["offset"], seen.len() + 1);
        seen.push(frame["payload_ref"]["id"].as_str().unwrap().to_owned());
    }
    seen.sort_unstable();
    all.sort_unstable();
    assert_eq!(seen, all);
    test_app.app.stop().await.unwrap();
}
