//! Tests of messages that another program has published, and of lost or restored data.

use std::path::Path;

use linchpin_realtime::engine::{EngineError, MAX_MESSAGE, Position, ResetReason, To};
use metrics::set_default_local_recorder;

use super::*;
use crate::faults::Faults;

#[tokio::test]
async fn a_foreign_message_on_the_subject_of_a_stream_is_replaced() {
    let (nats, faults) = (single(), Faults::default());
    let _counted = set_default_local_recorder(&faults);
    let engine = nats.node(TestClock::default().clock()).await;
    let client = nats.client().await;
    let long = vec![b'x'; 1 << 20];
    let nested = ["f".to_owned(), "[".repeat(100_000)].concat().into_bytes();
    let wrong: [Vec<u8>; 6] = [
        b"".to_vec(),
        b"of another program".to_vec(),
        b"f{}\n{}".to_vec(),
        b"f{\"epoch\":\"foreign\",\"offset\":1,\"event\":\"e\",\"at\":0,\"expires\":0}\n".to_vec(),
        nested,
        long,
    ];
    for (n, wrong) in wrong.into_iter().enumerate() {
        let stream = Stream::new(format!("tasks:{n}:live"), History::default());
        let mut live = engine.subscribe(&stream).await.unwrap();
        let first = engine
            .append(&[append(&stream, "1", Some(7))])
            .await
            .unwrap()[0];
        assert!(matches!(next(&mut live).await, Delivery::Frame(_)));
        let published = client.request(subject(stream.name()), wrong.into()).await;
        assert!(String::from_utf8_lossy(&published.unwrap().payload).contains("seq"));
        let second = engine
            .append(&[append(&stream, "2", Some(7))])
            .await
            .unwrap()[0];
        assert_ne!(second.epoch, first.epoch, "{n}");
        assert_eq!(second.offset, 1, "{n}");
        let reset = next(&mut live).await;
        assert!(
            matches!(
                reset,
                Delivery::Reset {
                    reason: ResetReason::EpochChanged,
                    ..
                }
            ),
            "{n}"
        );
        assert_eq!(engine.top(&stream).await.unwrap().epoch, second.epoch);
        // The foreign message is gone.
        for (_, text) in nats.messages(&subject(stream.name())).await {
            assert_eq!(head(&text)["epoch"], second.epoch.as_str(), "{n}");
        }
        let late = engine.append(&[append(&stream, "3", Some(6))]).await;
        assert!(
            matches!(late, Err(EngineError::Fenced { seen: 7 })),
            "{late:?}"
        );
    }
    assert!(faults.count("key_replaced") >= 6);
    // The leases of a stream.
    let stream = Stream::new("tasks:1:live", History::default());
    engine.presence_enter(&stream, &["ada"]).await.unwrap();
    let before = faults.count("key_replaced");
    let users = "linchpin.users.tasks:1:live";
    let foreign = "of another program ".repeat(220_000);
    client.request(users, foreign.into()).await.unwrap();
    assert_eq!(
        engine.presence_enter(&stream, &["ada"]).await.unwrap(),
        ["ada"]
    );
    assert_eq!(engine.presence(&stream, 9).await.unwrap().count, 1);
    assert_eq!(faults.count("key_replaced"), before + 1);
}

#[tokio::test]
async fn a_too_long_or_unreadable_message_does_not_end_the_subscription() {
    let (nats, faults) = (single(), Faults::default());
    let _counted = set_default_local_recorder(&faults);
    let engine = nats.node(TestClock::default().clock()).await;
    let stream = Stream::new("tasks:1:live", History::default());
    let mut live = engine.subscribe(&stream).await.unwrap();
    let mut controls = engine.controls();
    let client = nats.client().await;
    let own = "linchpin.live.tasks:1:live";
    let long = |length: usize| [b"m", &vec![b'x'; length][..]].concat();
    for (subject, text) in [
        (own, long(MAX_MESSAGE + 1)),
        (own, b"fnot a frame".to_vec()),
        (own, b"?".to_vec()),
        (own, Vec::new()),
        ("linchpin.control.all", b"?".to_vec()),
        ("linchpin.control.all", long(MAX_MESSAGE + 1)),
        ("linchpin.control.foreign", b"mx".to_vec()),
        (own, long(MAX_MESSAGE)),
    ] {
        client.publish(subject, text.into()).await.unwrap();
    }
    client.flush().await.unwrap();
    match next(&mut live).await {
        Delivery::Message(message) => assert_eq!(message.len(), MAX_MESSAGE),
        other => panic!("{other:?}"),
    }
    engine.append(&[append(&stream, "1", None)]).await.unwrap();
    assert!(matches!(next(&mut live).await, Delivery::Frame(_)));
    engine.control(To::All, "own".into()).await.unwrap();
    assert_eq!(controls.next().await.unwrap(), "own");
    assert_eq!(faults.count("message_too_large"), 2);
    assert_eq!(faults.count("message_unreadable"), 1);
    assert_eq!(faults.count("frame_unreadable"), 3);
}

#[tokio::test]
async fn a_stream_name_cannot_address_other_streams() {
    let nats = single();
    let engine = nats.node(TestClock::default().clock()).await;
    let long = ["ü".repeat(512), "ü".repeat(511) + "u"];
    let [first, second] = &long;
    let names = [
        "a",
        "a.b",
        "*",
        ">",
        "a.*",
        "a\r\nPUB x 0",
        "=2A",
        "ü",
        " ",
        first,
        second,
    ];
    let streams = names.map(|name| Stream::new(name, History::default()));
    let mut live = Vec::new();
    for stream in &streams {
        live.push(engine.subscribe(stream).await.unwrap());
    }
    for (n, stream) in streams.iter().enumerate() {
        let appended = engine
            .append(&[append(stream, &format!("e{n}"), None)])
            .await;
        assert_eq!(appended.unwrap()[0].offset, 1);
        engine.send(stream, format!("m{n}").into()).await.unwrap();
    }
    for (n, live) in live.iter_mut().enumerate() {
        match next(live).await {
            Delivery::Frame(frame) => assert_eq!(frame.event.as_str(), format!("e{n}")),
            other => panic!("{other:?}"),
        }
        assert_eq!(next(live).await, Delivery::Message(format!("m{n}").into()));
    }
}

/// A stream is removed and no node appends. The periodic check detects the loss.
#[tokio::test]
async fn lost_data_is_found_without_an_append() {
    let (nats, clock) = (single(), TestClock::default());
    let engine = nats.checking(&clock).await;
    let stream = Stream::new("tasks:1:live", History::default());
    let mut live = engine.subscribe(&stream).await.unwrap();
    engine.append(&[append(&stream, "1", None)]).await.unwrap();
    assert!(matches!(next(&mut live).await, Delivery::Frame(_)));
    for lose_all in [false, true] {
        if lose_all {
            nats.flush().await;
        } else {
            nats.lose_stream(stream.name()).await;
        }
        let reset = next(&mut live).await;
        assert!(matches!(reset, Delivery::Reset { position, .. } if position.offset == 0));
        engine.append(&[append(&stream, "1", None)]).await.unwrap();
        assert!(matches!(next(&mut live).await, Delivery::Frame(_)));
    }
}

/// A node remembers the last message of a stream. After a loss of data, another node appends the
/// same number of messages.
#[tokio::test]
async fn a_cached_state_is_not_used_for_a_recreated_stream() {
    let (nats, clock) = (single(), TestClock::default());
    let (a, b) = (
        nats.node(clock.clock()).await,
        nats.node(clock.clock()).await,
    );
    let stream = Stream::new("tasks:1:live", History::default());
    for event in ["1", "2", "3"] {
        let lost = a.append(&[append(&stream, event, None)]).await.unwrap()[0];
        nats.flush().await;
        let other = format!("of-b-{event}");
        let new = b.append(&[append(&stream, &other, None)]).await.unwrap()[0];
        assert_ne!(new.epoch, lost.epoch);
        let next = format!("after-{event}");
        let at = a.append(&[append(&stream, &next, None)]).await.unwrap()[0];
        assert_eq!(at, Position { offset: 2, ..new });
        let slice = b.read(&stream, 0, 9).await.unwrap();
        let events: Vec<_> = slice.frames.iter().map(|one| one.event.as_str()).collect();
        assert_eq!(events, [other, next]);
        nats.flush().await;
    }
}

/// A paused server does not answer, but keeps its connections open.
#[tokio::test]
async fn a_server_that_does_not_answer_is_unavailable_in_time() {
    let nats = single();
    let engine = nats.node(TestClock::default().clock()).await;
    let stream = Stream::new("tasks:1:live", History::default());
    engine.append(&[append(&stream, "1", None)]).await.unwrap();
    nats.signal("STOP");
    tokio::time::pause();
    // The signal takes effect after a short time.
    while engine.ready().await.is_ok() {}
    let begin = tokio::time::Instant::now();
    // Calls of a stream wait for each other.
    let calls = (0..20).map(|n| {
        let (engine, stream) = (&engine, &stream);
        async move {
            let user = n.to_string();
            let batch = [append(stream, &user, None)];
            let users = [user.as_str()];
            let (appended, entered, top) = tokio::join!(
                engine.append(&batch),
                engine.presence_enter(stream, &users),
                engine.top(stream)
            );
            assert!(appended.unwrap_err().is_unavailable());
            assert!(entered.unwrap_err().is_unavailable());
            assert!(top.unwrap_err().is_unavailable());
        }
    });
    futures_util::future::join_all(calls).await;
    assert!(engine.renew().await.unwrap_err().is_unavailable());
    assert!(engine.ready().await.unwrap_err().is_unavailable());
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(40), "{took:?}");
    nats.signal("CONT");
    tokio::time::resume();
    until_back(&*engine, &stream, "2").await;
    engine.presence_enter(&stream, &["ada"]).await.unwrap();
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, name) = (
            entry.as_ref().unwrap().path(),
            entry.as_ref().unwrap().file_name(),
        );
        if entry.is_dir() {
            copy(&entry, &to.join(name));
        } else {
            std::fs::copy(&entry, to.join(name)).unwrap();
        }
    }
}

#[tokio::test]
async fn a_restored_backup_is_one_reset_and_a_new_epoch() {
    let nats = single();
    let clock = TestClock::default();
    let (a, b) = (
        nats.node(clock.clock()).await,
        nats.node(clock.clock()).await,
    );
    let stream = Stream::new("tasks:1:live", History::default());
    let mut live = b.subscribe(&stream).await.unwrap();
    for event in ["1", "2", "3"] {
        a.append(&[append(&stream, event, None)]).await.unwrap();
    }
    let (store, backup) = (
        nats.folder.path().join("store"),
        nats.folder.path().join("backup"),
    );
    nats.down();
    copy(&store, &backup);
    nats.up();
    until_back(&*a, &stream, "4").await;
    until_back(&*a, &stream, "5").await;
    let mut first = None;
    for offset in 1..=5 {
        match next(&mut live).await {
            Delivery::Frame(frame) => {
                assert_eq!(frame.position.offset, offset);
                first = Some(frame.position.epoch);
            }
            other => panic!("{other:?}"),
        }
    }
    nats.down();
    std::fs::remove_dir_all(&store).unwrap();
    std::fs::rename(&backup, &store).unwrap();
    nats.up();
    until_back(&*a, &stream, "4'").await;
    match next(&mut live).await {
        Delivery::Reset { position, .. } => assert_ne!(Some(position.epoch), first),
        other => panic!("{other:?}"),
    }
    until_back(&*a, &stream, "end").await;
    loop {
        match next(&mut live).await {
            Delivery::Frame(frame) if frame.event.as_str() == "end" => break,
            Delivery::Frame(_) => {}
            other => panic!("{other:?}"),
        }
    }
}
