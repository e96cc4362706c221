//! Tests of filters, policies, and records that are no longer visible.

use super::*;

#[tokio::test]
async fn after_a_hidden_event_later_events_of_the_record_are_skipped() {
    let node = node().await;
    let mut alice = node.open(&BOARDS, "alice", Resume::Top).await.unwrap();
    let mut bob = node.open(&BOARDS, "bob", Resume::Top).await.unwrap();
    let epoch = node.top(&stream_of(&BOARDS, &[])).await.epoch;
    for open in [&mut alice, &mut bob] {
        open.text().await;
    }
    node.board("b9", true, None).await;
    node.board("b9", false, Some(true)).await;
    node.board("b9", false, None).await;
    assert_eq!(
        head(&bob.text().await),
        format!("event: boards.1|id: {epoch}-1|")
    );
    assert_eq!(
        bob.text().await,
        format!(
            "event: linchpin:hidden\nid: {epoch}-2\ndata: {{\"entity\":\"boards\",\"id\":\"b9\"}}\n\n"
        )
    );
    for number in 1..=3 {
        let expected = format!("event: boards.{number}|id: {epoch}-{number}|");
        assert_eq!(head(&alice.text().await), expected);
    }
    // The rest of the test does not use the store of the app, so the time can be paused.
    tokio::time::pause();
    assert_eq!(bob.text().await, format!(": keep-alive\nid: {epoch}-3\n\n"));
    assert_eq!(bob.text().await, ": keep-alive\n\n");
    assert_eq!(alice.text().await, ": keep-alive\n\n");
    // A client that resumes gets a notice for the hidden record instead of its events.
    let after = Resume::After(Position::new(Arc::clone(&epoch), 0));
    let mut back = node.open(&BOARDS, "bob", after).await.unwrap();
    assert!(back.text().await.ends_with(&format!("id: {epoch}-0\n\n")));
    assert!(back.text().await.contains("linchpin:hidden"));
    assert_eq!(
        back.text().await,
        format!(": keep-alive\nid: {epoch}-3\n\n")
    );
}

#[tokio::test]
async fn a_panic_in_a_stream_filter_skips_one_event() {
    let node = node().await;
    let mut alice = node.open(&BOARDS, "alice", Resume::Top).await.unwrap();
    let mut bob = node.open(&BOARDS, "bob", Resume::Top).await.unwrap();
    for open in [&mut alice, &mut bob] {
        open.text().await;
    }
    for id in ["muted", "broken", "last"] {
        node.board(id, true, None).await;
    }
    assert!(alice.text().await.contains("\"muted\""));
    for open in [&mut alice, &mut bob] {
        assert!(open.text().await.contains("\"last\""));
        assert!(open.is_quiet());
        assert_eq!(open.meter.read().filter_failures, 1);
    }
    // A replay has the same result.
    let epoch = node.top(&stream_of(&BOARDS, &[])).await.epoch;
    let after = Resume::After(Position::new(epoch, 0));
    let mut back = node.open(&BOARDS, "bob", after).await.unwrap();
    back.text().await;
    assert!(back.text().await.contains("\"last\"") && back.is_quiet());
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_filter_gets_the_payload_of_a_listed_event_or_a_reference() {
    let node = node().await;
    let mut bob = node.open(&BOARDS, "bob", Resume::Top).await.unwrap();
    bob.text().await;
    let stream = stream_of(&BOARDS, &[]);
    let about = |id: &str, open: bool| About {
        entity: Board::DESC.storage_name.to_owned(),
        record: id.to_owned(),
        state: [
            ("open".to_owned(), json!(open)),
            ("ownerId".to_owned(), json!("alice")),
        ]
        .into_iter()
        .collect(),
        before: None,
        deleted: false,
        left: false,
        quiet: false,
    };
    // Neither event has a payload: the endpoint does not list the first one, and the record leaves
    // the stream with the second one. Both hide the record from bob.
    for quiet in [true, false] {
        let unlisted = About {
            before: Some(about("b9", true).state),
            quiet,
            left: !quiet,
            ..about("b9", false)
        };
        node.append_about(&stream, unlisted, &Value::Null, false)
            .await;
        assert!(
            bob.text().await.contains("linchpin:hidden"),
            "quiet: {quiet}"
        );
    }
    // The payload of a listed event is too large: the event has a reference to the record.
    for id in ["muted", "large"] {
        node.append_about(&stream, about(id, true), &Value::Null, true)
            .await;
    }
    let text = bob.text().await;
    assert!(
        text.contains(r#"{"truncated":true,"entity":"boards","id":"large"}"#),
        "{text}"
    );
    assert!(bob.is_quiet());
    assert_eq!(bob.meter.read().filter_failures, 0);
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_policy_refuses_at_the_start_and_ends_the_stream_later() {
    let node = node().await;
    let refused = node.open(&ADMINS, "bob", Resume::Top).await;
    assert_eq!(refused.err(), Some("forbidden"));
    let refused = node.open(&ADMINS, "", Resume::Top).await;
    assert_eq!(refused.err(), Some("unauthorized"));
    assert_eq!(node.hub.connections(), 0);
    let anonymous = node.open(&NOTICES, "", Resume::Top).await;
    assert!(anonymous.is_ok());
    let mut alice = node.open(&CHORES, "alice", Resume::Top).await.unwrap();
    alice.text().await;
    node.sessions.ended.lock().push("alice".to_owned());
    let watch = tokio::spawn(Arc::clone(&node.hub).watch());
    tokio::task::yield_now().await;
    node.sessions.feed.user_changed("alice");
    assert_eq!(
        alice.text().await,
        "event: linchpin:close\ndata: {\"code\":4401,\"reason\":\"session_ended\"}\n\n"
    );
    assert_eq!(alice.text().await, "");
    assert!(node.open(&CHORES, "alice", Resume::Top).await.is_err());
    watch.abort();
    node.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_failed_session_check_ends_the_stream_after_a_reset() {
    let node = node().await;
    let mut alice = node.open(&CHORES, "alice", Resume::Top).await.unwrap();
    alice.text().await;
    node.sessions.stuck.lock().extend(["alice", "bob"]);
    tokio::time::pause();
    let id = node.hub.all()[0].id().to_owned();
    let entry = node.hub.entry(&id).unwrap();
    node.hub.check_rights(&entry).await;
    let mut all = String::new();
    loop {
        match alice.text().await {
            text if text.is_empty() => break,
            text => all.push_str(&text),
        }
    }
    let [reset, close] = all.split("\n\n").collect::<Vec<_>>()[..2] else {
        panic!("{all}")
    };
    assert!(reset.starts_with("event: linchpin:reset\nid: "), "{reset}");
    assert!(
        reset.contains(r#""offset":0,"reason":"unavailable""#),
        "{reset}"
    );
    assert_eq!(
        close,
        "event: linchpin:close\ndata: {\"code\":1013,\"reason\":\"try again later\"}"
    );
}
