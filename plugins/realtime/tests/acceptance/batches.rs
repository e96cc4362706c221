//! Operations that change many records: the room of each record gets an event.

use linchpin::{Code, Cx};
use serde_json::{Value as Json, json};

use crate::bed::{Bed, Status, Thread, ThreadCreate, User};
use crate::socket::Socket;

/// The room of a container.
fn room(container: &str) -> String {
    format!("containers:{container}:batches")
}

/// Calls a batch; returns the number of records and the id of the event.
async fn call(user: &User, path: &str, body: Json) -> (u64, String) {
    let done = user.http.post(path, body).await.unwrap();
    assert_eq!(done.status(), 200, "{:?}", done.text());
    let event = done.header("x-event-id").unwrap().to_owned();
    (done.json().unwrap().as_u64().unwrap(), event)
}

/// The next frame, without its time.
async fn frame(socket: &mut Socket) -> Json {
    let mut frame = socket.next().await;
    frame.as_object_mut().unwrap().remove("at");
    frame
}

/// A frame that refers to a record.
fn refers(room: &str, event: (&str, &str), thread: &str, offset: u64) -> Json {
    json!({
        "event": event.0, "room": room, "payload": null, "truncated": true,
        "payload_ref": { "entity": "threads", "id": thread }, "id": event.1, "offset": offset,
    })
}

fn hidden(room: &str, thread: &str, offset: u64) -> Json {
    let payload = json!({ "entity": "threads", "id": thread });
    json!({ "event": "hidden", "room": room, "payload": payload, "offset": offset })
}

#[tokio::test]
async fn each_record_of_a_batch_reaches_its_room_and_only_who_may_see_it() {
    let bed = Bed::start().await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let one = bed.container(&ada, "public").await;
    let two = bed.container(&ada, "public").await;
    let (room_one, room_two) = (room(&one), room(&two));
    let of_ada = [bed.draft(&ada, &one).await, bed.draft(&ada, &two).await];
    let of_bob = bed.draft(&bob, &one).await;
    let mut ada_one = bed.member(&ada, &room_one).await;
    let mut bob_one = bed.member(&bob, &room_one).await;
    let mut bob_two = bed.member(&bob, &room_two).await;
    // Two threads of two rooms appear; the draft of bob is out of ada's sight.
    let body = json!({ "title": "first", "status": "published" });
    let (count, event) = call(&ada, "/threads/set-status", body).await;
    assert_eq!(count, 2);
    let event = ("threads.set-status", event.as_str());
    for socket in [&mut ada_one, &mut bob_one] {
        let shown = refers(&room_one, event, &of_ada[0], 1);
        assert_eq!(frame(socket).await, shown);
    }
    let shown = refers(&room_two, event, &of_ada[1], 1);
    assert_eq!(frame(&mut bob_two).await, shown);
    // Bob changes what he sees: his own draft and the two of ada.
    let body = json!({ "title": "first", "status": "draft" });
    let (count, event) = call(&bob, "/threads/set-status", body).await;
    assert_eq!(count, 3);
    let event = ("threads.set-status", event.as_str());
    let mut of_one = [frame(&mut bob_one).await, frame(&mut bob_one).await];
    of_one.sort_by_key(|frame| frame["event"].as_str().unwrap().to_owned());
    assert_eq!(of_one[0]["event"], "hidden");
    assert_eq!(of_one[0]["payload"]["id"], of_ada[0]);
    let offset = of_one[1]["offset"].as_u64().unwrap();
    assert_eq!(of_one[1], refers(&room_one, event, &of_bob, offset));
    assert_eq!(frame(&mut bob_two).await, hidden(&room_two, &of_ada[1], 2));
    let own = frame(&mut ada_one).await;
    assert_eq!(own["payload_ref"]["id"], of_ada[0]);
    let (_, event) = call(&ada, "/threads/pin-all", json!({ "title": "first" })).await;
    let last = refers(&room_one, ("threads.pin-all", &event), &of_ada[0], 4);
    assert_eq!(frame(&mut ada_one).await, last, "nothing of bob's draft");
    bed.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_batch_moves_records_between_rooms_and_removes_them() {
    let bed = Bed::start().await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let one = bed.container(&ada, "public").await;
    let two = bed.container(&ada, "public").await;
    let (room_one, room_two) = (room(&one), room(&two));
    let thread = bed.draft(&ada, &one).await;
    bed.publish(&ada, &thread).await;
    // The publication has changed who sees the thread: that is the first entry of its room, and
    // no event, because the channel does not list it.
    let mut in_one = bed.member(&bob, &room_one).await;
    let mut in_two = bed.member(&bob, &room_two).await;
    let body = json!({ "title": "first" });
    let (_, event) = call(&ada, "/threads/pin-all", body.clone()).await;
    let event = ("threads.pin-all", event.as_str());
    assert_eq!(
        frame(&mut in_one).await,
        refers(&room_one, event, &thread, 2)
    );
    let to = json!({ "title": "first", "to": two });
    let (_, event) = call(&ada, "/threads/move-all", to).await;
    let event = ("threads.move-all", event.as_str());
    assert_eq!(frame(&mut in_one).await, hidden(&room_one, &thread, 3));
    assert_eq!(
        frame(&mut in_two).await,
        refers(&room_two, event, &thread, 1)
    );
    let (_, event) = call(&ada, "/threads/clear", body).await;
    let event = ("threads.clear", event.as_str());
    assert_eq!(
        frame(&mut in_two).await,
        refers(&room_two, event, &thread, 2)
    );
    bed.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_batch_that_closes_a_room_ends_its_subscriptions() {
    let bed = Bed::start().await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let container = bed.container(&ada, "public").await;
    let room = room(&container);
    let mut owner = bed.member(&ada, &room).await;
    let mut other = bed.member(&bob, &room).await;
    let body = json!({ "name": "one", "visibility": "private" });
    assert_eq!(call(&ada, "/containers/set-visibility", body).await.0, 1);
    let ended = frame(&mut other).await;
    assert_eq!(ended["event"], "unsubscribed");
    assert_eq!(ended["code"], Code::NotFound.as_str());
    let told = frame(&mut owner).await;
    assert_eq!(told["event"], "containers.set-visibility");
    assert_eq!(told["payload_ref"]["id"], container);
    bed.app.stop().await.unwrap();
}

/// The channel lists neither the update of a container nor that of a thread.
#[tokio::test]
async fn a_change_of_sight_by_an_unlisted_route_reaches_the_room() {
    let bed = Bed::start().await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let container = bed.container(&ada, "public").await;
    let room = room(&container);
    let thread = bed.draft(&ada, &container).await;
    bed.publish(&ada, &thread).await;
    let mut owner = bed.member(&ada, &room).await;
    let mut other = bed.member(&bob, &room).await;
    let patch = async |path: String, body: Json| {
        let done = ada.http.patch(&path, body).await.unwrap();
        assert_eq!(done.status(), 200, "{:?}", done.text());
    };
    let draft = json!({ "status": "draft" });
    patch(format!("/threads/{thread}"), draft).await;
    assert_eq!(frame(&mut other).await, hidden(&room, &thread, 2));
    let private = json!({ "visibility": "private" });
    patch(format!("/containers/{container}"), private).await;
    let ended = frame(&mut other).await;
    assert_eq!(ended["event"], "unsubscribed");
    assert_eq!(ended["code"], Code::NotFound.as_str());
    // The owner hears of listed events only.
    let (_, event) = call(&ada, "/threads/pin-all", json!({ "title": "first" })).await;
    let shown = refers(&room, ("threads.pin-all", &event), &thread, 4);
    assert_eq!(frame(&mut owner).await, shown);
    bed.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_batch_of_several_events_sends_one_frame_for_each_record() {
    const COUNT: usize = 1_100;
    let bed = Bed::limited(|limits| limits.queue_frames = 4_096).await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let container = bed.container(&ada, "public").await;
    let threads = bed.app.adapter::<Thread>().unwrap();
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
    let mut member = bed.member(&bob, &room(&container)).await;
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
    bed.app.stop().await.unwrap();
}
