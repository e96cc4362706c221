//! What streams send.

use serde_json::{Value as Json, json};

use crate::bed::{Bed, User, create};
use crate::client::{Events, Fired};

const PATH: &str = "/__sse/notifications";

/// The data of an event.
fn data(fired: &Fired) -> Json {
    serde_json::from_str(&fired.data).unwrap()
}

/// The texts of the next notifications, each with its position.
async fn texts(events: &mut Events, count: usize) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    while texts.len() < count {
        let fired = events.event().await.unwrap();
        // An alias has no position.
        if let Some(id) = &fired.id {
            let text = data(&fired)["text"].as_str().unwrap().to_owned();
            texts.push((text, id.clone()));
        }
    }
    texts
}

#[tokio::test]
async fn a_user_hears_of_own_records_under_every_name() {
    let bed = Bed::start().await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let (mut events, start) = bed.open(&ada, PATH).await;
    bed.notify(&bob, "for bob").await;
    let record = bed.notify(&ada, "for ada").await;
    let epoch = start.rsplit_once('-').unwrap().0;
    for (name, id) in [
        ("community:notification.created", None),
        (
            "notifications:notification.created",
            Some(format!("{epoch}-1")),
        ),
    ] {
        let fired = events.event().await.unwrap();
        assert_eq!((fired.event.as_str(), &fired.id), (name, &id));
        assert_eq!(data(&fired), record, "the record as a client reads it");
    }
    let path = format!("/notifications/{}", record["id"].as_str().unwrap());
    let changed = ada
        .http
        .patch(&path, json!({ "text": "new" }))
        .await
        .unwrap();
    assert_eq!(changed.status(), 200, "{:?}", changed.text());
    let fired = events.event().await.unwrap();
    assert_eq!(fired.event, "notifications:notification.updated");
    assert_eq!(data(&fired)["text"], "new");
    let removed = ada.http.delete(&path).await.unwrap();
    assert_eq!(removed.status(), 204);
    let fired = events.event().await.unwrap();
    assert_eq!(fired.event, "notifications:notification.dismissed");
    assert_eq!(fired.id, Some(format!("{epoch}-3")));
    bed.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_batch_is_one_event_for_each_record_of_the_user() {
    let bed = Bed::start().await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let (mut of_ada, _) = bed.open(&ada, PATH).await;
    let (mut of_bob, _) = bed.open(&bob, PATH).await;
    let mut ids = Vec::new();
    for text in ["same", "same", "other"] {
        ids.push(bed.notify(&ada, text).await["id"].clone());
    }
    bed.notify(&bob, "same").await;
    let body = json!({ "text": "same", "to": "another" });
    let done = ada.http.post("/notifications/reword", body).await.unwrap();
    assert_eq!(done.json().unwrap(), 2);
    let last = bed.notify(&ada, "last").await;
    let mut told = Vec::new();
    loop {
        let fired = of_ada.event().await.unwrap();
        match fired.event.as_str() {
            "notifications:notification.reworded" => told.push(data(&fired)),
            _ if data(&fired)["id"] == last["id"] => break,
            _ => {}
        }
    }
    told.sort_by_key(ToString::to_string);
    let mut expected: Vec<Json> = ids[..2]
        .iter()
        .map(|id| json!({ "truncated": true, "entity": "notifications_notifications", "id": id }))
        .collect();
    expected.sort_by_key(ToString::to_string);
    assert_eq!(told, expected);
    bed.notify(&bob, "last").await;
    assert_eq!(texts(&mut of_bob, 2).await.len(), 2, "nothing of ada");
}

#[tokio::test]
async fn a_client_that_comes_back_gets_what_it_missed_once_and_in_order() {
    let bed = Bed::start().await;
    let ada = bed.user("ada").await;
    let (mut events, _) = bed.open(&ada, PATH).await;
    bed.notify(&ada, "0").await;
    let (_, id) = texts(&mut events, 1).await.remove(0);
    drop(events);
    for text in ["1", "2", "3"] {
        bed.notify(&ada, text).await;
    }
    let query = format!("{PATH}?lastEventId={id}");
    for (path, header) in [
        (PATH, id.as_str()),
        (query.as_str(), ""),
        // The header counts.
        (&format!("{PATH}?lastEventId=abc"), id.as_str()),
    ] {
        let headers = [("last-event-id", header)];
        let headers = if header.is_empty() { &[][..] } else { &headers };
        let (mut back, start) = bed.open_with(&ada, path, headers).await;
        assert_eq!(start, id);
        let texts = texts(&mut back, 3).await;
        let texts: Vec<&str> = texts.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts, ["1", "2", "3"]);
    }
    let (mut live, _) = bed.open_with(&ada, PATH, &[("last-event-id", &id)]).await;
    bed.notify(&ada, "4").await;
    let texts = texts(&mut live, 4).await;
    assert_eq!(texts[3].0, "4");
    bed.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_position_that_is_not_good_is_a_reset_and_never_an_error() {
    let bed = Bed::start().await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    bed.notify(&ada, "one").await;
    bed.notify(&bob, "two").await;
    let (_, top) = bed.open(&ada, PATH).await;
    let (_, of_bob) = bed.open(&bob, PATH).await;
    let epoch = top.rsplit_once('-').unwrap().0;
    let ahead = format!("{epoch}-999999");
    for (id, reason) in [
        ("abc", "epoch_changed"),
        ("AAAAAAAAAAAAAAAA-1", "epoch_changed"),
        (of_bob.as_str(), "epoch_changed"),
        (ahead.as_str(), "offset_ahead"),
    ] {
        let (mut events, start) = bed.open_with(&ada, PATH, &[("last-event-id", id)]).await;
        assert_eq!(start, top, "{id}");
        let fired = events.event().await.unwrap();
        assert_eq!(fired.event, "linchpin:reset");
        let expected = json!({ "epoch": epoch, "offset": 1, "reason": reason });
        assert_eq!(data(&fired), expected, "{id}");
    }
    bed.app.stop().await.unwrap();
}

#[tokio::test]
async fn any_text_of_a_record_is_one_line_of_data() {
    let bed = Bed::start().await;
    let ada = bed.user("ada").await;
    let (mut events, _) = bed.open(&ada, PATH).await;
    let text = "a\nb\rc\r\nd\u{2028}e\u{85}f 😀\n\nevent: evil\ndata: x\n\n";
    bed.notify(&ada, text).await;
    for _ in 0..2 {
        let fired = events.event().await.unwrap();
        assert_eq!(data(&fired)["text"], text);
    }
    bed.app.stop().await.unwrap();
}

/// Sets whether a board is open.
async fn set_open(owner: &User, board: &Json, open: bool) {
    let path = format!("/boards/{}", board["id"].as_str().unwrap());
    let changed = owner
        .http
        .patch(&path, json!({ "open": open }))
        .await
        .unwrap();
    assert_eq!(changed.status(), 200, "{:?}", changed.text());
}

#[tokio::test]
async fn a_record_out_of_sight_is_hidden_and_what_nobody_may_hear_is_withheld() {
    let bed = Bed::start().await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let (mut of_ada, _) = bed.open(&ada, "/__sse/boards").await;
    let (mut of_bob, _) = bed.open(&bob, "/__sse/boards").await;
    bed.board(&ada, "secret", false).await;
    let shared = bed.board(&ada, "shared", true).await;
    set_open(&ada, &shared, false).await;
    set_open(&ada, &shared, true).await;
    let expected = [
        ("boards.created", "secret"),
        ("boards.created", "shared"),
        ("boards.updated", "shared"),
        ("boards.updated", "shared"),
    ];
    for (name, board) in expected {
        let fired = of_ada.event().await.unwrap();
        assert_eq!(
            (fired.event.as_str(), &data(&fired)["name"]),
            (name, &json!(board))
        );
    }
    let fired = of_bob.event().await.unwrap();
    assert_eq!(data(&fired), shared);
    let fired = of_bob.event().await.unwrap();
    assert_eq!(fired.event, "linchpin:hidden");
    assert_eq!(
        data(&fired),
        json!({ "entity": "boards", "id": shared["id"] })
    );
    assert_eq!(of_bob.event().await.unwrap().event, "boards.updated");
    bed.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_deletion_reaches_who_saw_the_record_also_if_the_store_keeps_it() {
    let bed = Bed::start().await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let (mut of_bob, _) = bed.open(&bob, "/__sse/boards").await;
    let secret = bed.board(&ada, "secret", false).await;
    let shared = bed.board(&ada, "shared", true).await;
    for board in [&secret, &shared] {
        let path = format!("/boards/{}", board["id"].as_str().unwrap());
        assert_eq!(ada.http.delete(&path).await.unwrap().status(), 204);
    }
    let created = of_bob.event().await.unwrap();
    assert_eq!(
        (created.event.as_str(), data(&created)),
        ("boards.created", shared.clone())
    );
    let deleted = of_bob.event().await.unwrap();
    assert_eq!(
        (deleted.event.as_str(), &data(&deleted)["id"]),
        ("boards.deleted", &shared["id"])
    );
    bed.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_filter_withholds_events_and_a_fault_in_it_only_one() {
    let bed = Bed::start().await;
    let ada = bed.user("ada").await;
    let (mut events, _) = bed.open(&ada, "/__sse/boards").await;
    for name in ["quiet", "broken", "loud"] {
        bed.board(&ada, name, true).await;
    }
    let fired = events.event().await.unwrap();
    assert_eq!(data(&fired)["name"], "loud");
    bed.app.stop().await.unwrap();
}

#[tokio::test]
async fn everybody_hears_of_what_everybody_may_list() {
    let bed = Bed::start().await;
    let ada = bed.user("ada").await;
    let mut events = Events::open(bed.address(), "/__sse/notices", &[]).await;
    assert!(events.block().await.starts_with(": connected\n"));
    let notice = create(&ada, "/notices", json!({ "text": "hello" })).await;
    let fired = events.event().await.unwrap();
    assert_eq!(
        (fired.event.as_str(), data(&fired)),
        ("notices.created", notice)
    );
    assert_eq!(bed.connections("/__sse/notices"), 1);
    bed.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_record_above_the_limit_is_a_reference() {
    let bed = Bed::with(
        |plugin| plugin.configure(|config| config.limits.outbound_bytes = 1024),
        |auth| auth,
    )
    .await;
    let ada = bed.user("ada").await;
    let (mut events, _) = bed.open(&ada, PATH).await;
    let record = bed.notify(&ada, &"x".repeat(2000)).await;
    let fired = events.event().await.unwrap();
    let expected = json!({
        "truncated": true, "entity": "notifications_notifications", "id": record["id"],
    });
    assert_eq!(data(&fired), expected);
    bed.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_token_that_ends_ends_the_stream() {
    let bed = Bed::with(|plugin| plugin, linchpin_auth::Auth::refresh_tokens).await;
    let ada = bed.user("ada").await;
    let (mut events, _) = bed.open(&ada, PATH).await;
    bed.advance(3_600_000 * 24);
    // The stream looks at the clock when it has something to send.
    let cx = linchpin::Cx::actor(linchpin::Actor::user(ada.id.as_str()));
    let adapter = bed.app.adapter::<crate::bed::Notification>().unwrap();
    let text = "one".to_owned();
    adapter
        .create(&cx, crate::bed::NotificationCreate { text, source: None })
        .await
        .unwrap();
    let last = loop {
        match events.event().await.unwrap() {
            fired if fired.event == "linchpin:close" => break fired,
            _ => {}
        }
    };
    assert_eq!(
        data(&last),
        json!({ "code": 4401, "reason": "token_expired" })
    );
    assert_eq!(events.event().await, None);
    bed.app.stop().await.unwrap();
}
