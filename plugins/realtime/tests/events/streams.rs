//! Tests of the events that streams send.

use serde_json::{Value as Json, json};

use crate::client::{Events, Fired};
use crate::test_app::{TestApp, User, create};

const PATH: &str = "/__sse/notifications";

/// Returns the data of an event.
fn data(fired: &Fired) -> Json {
    serde_json::from_str(&fired.data).unwrap()
}

/// Returns the texts of the next notifications, each with its position.
async fn texts(events: &mut Events, count: usize) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    while texts.len() < count {
        let fired = events.event().await.unwrap();
        // A copy of an event under an alias has no position.
        if let Some(id) = &fired.id {
            let text = data(&fired)["text"].as_str().unwrap().to_owned();
            texts.push((text, id.clone()));
        }
    }
    texts
}

#[tokio::test]
async fn a_user_receives_events_of_own_records_under_every_alias() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let (mut events, start) = test_app.open(&ada, PATH).await;
    test_app.notify(&bob, "for bob").await;
    let record = test_app.notify(&ada, "for ada").await;
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
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_batch_is_one_event_for_each_record_of_the_user() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let (mut ada_events, _) = test_app.open(&ada, PATH).await;
    let (mut bob_events, _) = test_app.open(&bob, PATH).await;
    let mut ids = Vec::new();
    for text in ["same", "same", "other"] {
        ids.push(test_app.notify(&ada, text).await["id"].clone());
    }
    test_app.notify(&bob, "same").await;
    let body = json!({ "text": "same", "to": "another" });
    let done = ada.http.post("/notifications/reword", body).await.unwrap();
    assert_eq!(done.json().unwrap(), 2);
    let last = test_app.notify(&ada, "last").await;
    let mut reworded = Vec::new();
    loop {
        let fired = ada_events.event().await.unwrap();
        match fired.event.as_str() {
            "notifications:notification.reworded" => reworded.push(data(&fired)),
            _ if data(&fired)["id"] == last["id"] => break,
            _ => {}
        }
    }
    reworded.sort_by_key(ToString::to_string);
    let mut expected: Vec<Json> = ids[..2]
        .iter()
        .map(|id| json!({ "truncated": true, "entity": "notifications_notifications", "id": id }))
        .collect();
    expected.sort_by_key(ToString::to_string);
    assert_eq!(reworded, expected);
    test_app.notify(&bob, "last").await;
    assert_eq!(texts(&mut bob_events, 2).await.len(), 2, "no event of ada");
}

#[tokio::test]
async fn a_client_that_resumes_gets_missed_events_once_and_in_order() {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let (mut events, _) = test_app.open(&ada, PATH).await;
    test_app.notify(&ada, "0").await;
    let (_, id) = texts(&mut events, 1).await.remove(0);
    drop(events);
    for text in ["1", "2", "3"] {
        test_app.notify(&ada, text).await;
    }
    let query = format!("{PATH}?lastEventId={id}");
    for (path, header) in [
        (PATH, id.as_str()),
        (query.as_str(), ""),
        // The header overrides the query parameter.
        (&format!("{PATH}?lastEventId=abc"), id.as_str()),
    ] {
        let headers = [("last-event-id", header)];
        let headers = if header.is_empty() { &[][..] } else { &headers };
        let (mut back, start) = test_app.open_with(&ada, path, headers).await;
        assert_eq!(start, id);
        let texts = texts(&mut back, 3).await;
        let texts: Vec<&str> = texts.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts, ["1", "2", "3"]);
    }
    let (mut live, _) = test_app
        .open_with(&ada, PATH, &[("last-event-id", &id)])
        .await;
    test_app.notify(&ada, "4").await;
    let texts = texts(&mut live, 4).await;
    assert_eq!(texts[3].0, "4");
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn an_unusable_position_is_a_reset_and_never_an_error() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    test_app.notify(&ada, "one").await;
    test_app.notify(&bob, "two").await;
    let (_, top) = test_app.open(&ada, PATH).await;
    let (_, bob_position) = test_app.open(&bob, PATH).await;
    let epoch = top.rsplit_once('-').unwrap().0;
    let ahead = format!("{epoch}-999999");
    for (id, reason) in [
        ("abc", "epoch_changed"),
        ("AAAAAAAAAAAAAAAA-1", "epoch_changed"),
        (bob_position.as_str(), "epoch_changed"),
        (ahead.as_str(), "offset_ahead"),
    ] {
        let (mut events, start) = test_app
            .open_with(&ada, PATH, &[("last-event-id", id)])
            .await;
        assert_eq!(start, top, "{id}");
        let fired = events.event().await.unwrap();
        assert_eq!(fired.event, "linchpin:reset");
        let expected = json!({ "epoch": epoch, "offset": 1, "reason": reason });
        assert_eq!(data(&fired), expected, "{id}");
    }
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn any_record_text_is_one_data_line() {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let (mut events, _) = test_app.open(&ada, PATH).await;
    let text = "a\nb\rc\r\nd\u{2028}e\u{85}f 😀\n\nevent: evil\ndata: x\n\n";
    test_app.notify(&ada, text).await;
    for _ in 0..2 {
        let fired = events.event().await.unwrap();
        assert_eq!(data(&fired)["text"], text);
    }
    test_app.app.stop().await.unwrap();
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
async fn invisible_records_are_hidden_and_their_events_skipped() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let (mut ada_events, _) = test_app.open(&ada, "/__sse/boards").await;
    let (mut bob_events, _) = test_app.open(&bob, "/__sse/boards").await;
    test_app.board(&ada, "secret", false).await;
    let shared = test_app.board(&ada, "shared", true).await;
    set_open(&ada, &shared, false).await;
    set_open(&ada, &shared, true).await;
    let expected = [
        ("boards.created", "secret"),
        ("boards.created", "shared"),
        ("boards.updated", "shared"),
        ("boards.updated", "shared"),
    ];
    for (name, board) in expected {
        let fired = ada_events.event().await.unwrap();
        assert_eq!(
            (fired.event.as_str(), &data(&fired)["name"]),
            (name, &json!(board))
        );
    }
    let fired = bob_events.event().await.unwrap();
    assert_eq!(data(&fired), shared);
    let fired = bob_events.event().await.unwrap();
    assert_eq!(fired.event, "linchpin:hidden");
    assert_eq!(
        data(&fired),
        json!({ "entity": "boards", "id": shared["id"] })
    );
    assert_eq!(bob_events.event().await.unwrap().event, "boards.updated");
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn deletions_and_soft_deletions_reach_callers_who_could_read_the_record() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let (mut bob_events, _) = test_app.open(&bob, "/__sse/boards").await;
    let secret = test_app.board(&ada, "secret", false).await;
    let shared = test_app.board(&ada, "shared", true).await;
    for board in [&secret, &shared] {
        let path = format!("/boards/{}", board["id"].as_str().unwrap());
        assert_eq!(ada.http.delete(&path).await.unwrap().status(), 204);
    }
    let created = bob_events.event().await.unwrap();
    assert_eq!(
        (created.event.as_str(), data(&created)),
        ("boards.created", shared.clone())
    );
    let deleted = bob_events.event().await.unwrap();
    assert_eq!(
        (deleted.event.as_str(), &data(&deleted)["id"]),
        ("boards.deleted", &shared["id"])
    );
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_filter_drops_events_and_a_panic_in_it_drops_one() {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let (mut events, _) = test_app.open(&ada, "/__sse/boards").await;
    for name in ["quiet", "broken", "loud"] {
        test_app.board(&ada, name, true).await;
    }
    let fired = events.event().await.unwrap();
    assert_eq!(data(&fired)["name"], "loud");
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn public_records_have_public_streams() {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let mut events = Events::open(test_app.address(), "/__sse/notices", &[]).await;
    assert!(events.block().await.starts_with(": connected\n"));
    let notice = create(&ada, "/notices", json!({ "text": "hello" })).await;
    let fired = events.event().await.unwrap();
    assert_eq!(
        (fired.event.as_str(), data(&fired)),
        ("notices.created", notice)
    );
    assert_eq!(test_app.connections("/__sse/notices"), 1);
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_record_above_the_size_limit_is_sent_as_a_reference() {
    let test_app = TestApp::with(
        |plugin| plugin.configure(|config| config.limits.outbound_bytes = 1024),
        |auth| auth,
    )
    .await;
    let ada = test_app.user("ada").await;
    let (mut events, _) = test_app.open(&ada, PATH).await;
    let record = test_app.notify(&ada, &"x".repeat(2000)).await;
    let fired = events.event().await.unwrap();
    let expected = json!({
        "truncated": true, "entity": "notifications_notifications", "id": record["id"],
    });
    assert_eq!(data(&fired), expected);
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn an_expired_token_ends_the_stream() {
    let test_app = TestApp::with(|plugin| plugin, linchpin_auth::Auth::refresh_tokens).await;
    let ada = test_app.user("ada").await;
    let (mut events, _) = test_app.open(&ada, PATH).await;
    test_app.advance(3_600_000 * 24);
    // The stream checks the clock when it has a block to send.
    let cx = linchpin::Cx::actor(linchpin::Actor::user(ada.id.as_str()));
    let adapter = test_app
        .app
        .adapter::<crate::test_app::Notification>()
        .unwrap();
    let text = "one".to_owned();
    adapter
        .create(
            &cx,
            crate::test_app::NotificationCreate { text, source: None },
        )
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
    test_app.app.stop().await.unwrap();
}
