//! Tests of keys and messages that another program has written.

use linchpin_realtime::engine::{
    Delivery, EngineError, Fence, MAX_MESSAGE, Position, Subscription,
};
use metrics::set_default_local_recorder;

use super::*;
use crate::faults::Faults;

fn append(stream: &Stream, event: &str, fence: Option<u64>) -> Append {
    Append {
        stream: stream.clone(),
        event: EventId::new(event).unwrap(),
        frame: "{}".into(),
        fence: fence.map(|number| Fence {
            consumer: "relay".into(),
            number,
        }),
    }
}

async fn next(live: &mut Subscription) -> Delivery {
    live.next().await.expect("the engine is open")
}

#[tokio::test]
async fn a_malformed_fence_is_replaced() {
    let (redis, faults) = (single(), Faults::default());
    let _counted = set_default_local_recorder(&faults);
    let engine = redis.node(TestClock::default().clock()).await;
    let wrong = ["x", "", "-1", "inf", "nan", "0x10", "99999999999999999999"];
    for (n, value) in wrong.into_iter().enumerate() {
        let stream = Stream::new(format!("tasks:{n}:live"), History::default());
        let first = engine
            .append(&[append(&stream, "1", Some(7))])
            .await
            .unwrap()[0];
        redis.cli(&["HSET", &key(stream.name(), "p"), "fence:relay", value]);
        let second = engine
            .append(&[append(&stream, "2", Some(7))])
            .await
            .unwrap()[0];
        assert_eq!(second, Position { offset: 2, ..first }, "{value}");
        let refused = engine.append(&[append(&stream, "3", Some(6))]).await;
        assert!(
            matches!(refused, Err(EngineError::Fenced { seen: 7 })),
            "{refused:?}"
        );
        assert_eq!(faults.count("key_replaced"), n as u64 + 1, "{value}");
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_replaced() {
    let (redis, faults) = (single(), Faults::default());
    let _counted = set_default_local_recorder(&faults);
    let engine = redis.node(TestClock::default().clock()).await;
    for (n, part) in ["p", "s", "i"].into_iter().enumerate() {
        let stream = Stream::new(format!("tasks:{n}:live"), History::default());
        let other = Stream::new(format!("tasks:{n}.other:live"), History::default());
        let mut live = engine.subscribe(&stream).await.unwrap();
        engine
            .append(&[append(&stream, "1", Some(7))])
            .await
            .unwrap();
        assert!(matches!(next(&mut live).await, Delivery::Frame(_)));
        redis.cli(&["SET", &key(stream.name(), part), "of another program"]);
        let batch = [
            append(&stream, "2", Some(7)),
            append(&other, "2", Some(7)),
            append(&stream, "3", Some(7)),
        ];
        let positions = engine.append(&batch).await.unwrap();
        assert_eq!(positions[2].offset, positions[0].offset + 1, "{part}");
        assert_eq!(positions[1].offset, 1, "{part}");
        assert_eq!(faults.count("key_replaced"), n as u64 + 1, "{part}");
        loop {
            // The epoch is lost with the position.
            match next(&mut live).await {
                Delivery::Frame(frame) if frame.position == positions[2] => break,
                Delivery::Frame(frame) => assert_eq!(frame.position, positions[0], "{part}"),
                Delivery::Reset { .. } => assert_eq!(part, "p"),
                Delivery::Message(message) => panic!("{message:?}"),
            }
        }
    }
    // The same for a damaged key at a read, and for each damaged key of presence.
    let stream = Stream::new("tasks:read:live", History::default());
    redis.cli(&["SET", &key(stream.name(), "p"), "of another program"]);
    assert_eq!(engine.top(&stream).await.unwrap().offset, 0);
    engine.append(&[append(&stream, "1", None)]).await.unwrap();
    redis.cli(&["SET", &key(stream.name(), "s"), "of another program"]);
    let slice = engine.read(&stream, 0, 9).await.unwrap();
    assert!(slice.gap && slice.frames.is_empty());
    for part in ["l", "z", "a"] {
        redis.cli(&["SET", &key(stream.name(), part), "of another program"]);
        engine.presence_enter(&stream, &["ada"]).await.unwrap();
        engine.presence_enter(&stream, &["ada"]).await.unwrap();
    }
    assert_eq!(faults.count("key_replaced"), 8);
}

/// Another program adds entries between the frames. Frames before and after them are delivered.
#[tokio::test]
async fn an_entry_that_cannot_be_read_is_skipped() {
    let (redis, faults) = (single(), Faults::default());
    let _counted = set_default_local_recorder(&faults);
    let engine = redis.node(TestClock::default().clock()).await;
    let stream = Stream::new("tasks:1:live", History::default());
    let entries = key(stream.name(), "s");
    engine.append(&[append(&stream, "1", None)]).await.unwrap();
    // More entries than one read returns.
    for n in 1..=40 {
        let id = format!("1-{n}");
        redis.cli(&["XADD", &entries, &id, "of", "another program"]);
    }
    // This entry has the fields of a frame, and its id begins with the offset of a real frame.
    redis.cli(&["XADD", &entries, "1-41", "e", "x", "a", "1", "f", "{}"]);
    engine.append(&[append(&stream, "2", None)]).await.unwrap();
    let slice = engine.read(&stream, 0, 2).await.unwrap();
    let events: Vec<_> = slice.frames.iter().map(|one| one.event.as_str()).collect();
    assert_eq!((events, slice.gap), (vec!["1", "2"], false));
    assert_eq!(faults.count("entry_unreadable"), 41);
    // The frame with offset 3 is from a later version of this crate, and this version cannot read
    // it.
    redis.cli(&["XADD", &entries, "3-0", "e", "3", "a", "soon", "f", "{}"]);
    redis.cli(&["HSET", &key(stream.name(), "p"), "offset", "3"]);
    engine.append(&[append(&stream, "4", None)]).await.unwrap();
    let slice = engine.read(&stream, 2, 9).await.unwrap();
    let events: Vec<_> = slice.frames.iter().map(|one| one.event.as_str()).collect();
    assert_eq!((events, slice.gap), (vec!["4"], true));
    assert_eq!(faults.count("entry_unreadable"), 42);
    assert_eq!(faults.count("key_replaced"), 0);
}

#[tokio::test]
async fn a_too_long_or_unreadable_message_does_not_end_the_subscription() {
    let (redis, faults) = (single(), Faults::default());
    let _counted = set_default_local_recorder(&faults);
    let engine = redis.node(TestClock::default().clock()).await;
    let stream = Stream::new("tasks:1:live", History::default());
    let mut live = engine.subscribe(&stream).await.unwrap();
    let publish = |channel: &str, message: &str| {
        redis.cli(&["SPUBLISH", channel, message]);
    };
    let channel = format!("linchpin:{{{}}}", stream.name());
    // The argument is too long for a command line, so a script creates it.
    let long = |letter: &str, length: usize| {
        let script = format!(
            "return redis.call('SPUBLISH', KEYS[1], '{letter}' .. string.rep('x', {length}))"
        );
        redis.cli(&["EVAL", &script, "1", &channel]);
    };
    long("m", MAX_MESSAGE + 1);
    long("f", (4 << 20) + 1);
    publish(&channel, "fnot a frame");
    publish("linchpin:nodes", "x");
    publish(&channel, "?");
    publish(&channel, "");
    long("m", MAX_MESSAGE);
    match next(&mut live).await {
        Delivery::Message(message) => assert_eq!(message.len(), MAX_MESSAGE),
        other => panic!("{other:?}"),
    }
    engine.append(&[append(&stream, "1", None)]).await.unwrap();
    assert!(matches!(next(&mut live).await, Delivery::Frame(_)));
    for reason in [
        "message_too_large",
        "frame_too_large",
        "frame_unreadable",
        "message_unreadable",
    ] {
        assert_eq!(faults.count(reason), 1, "{reason}");
    }
}
