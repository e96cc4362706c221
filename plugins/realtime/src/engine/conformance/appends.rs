//! Cases about appending: order, idempotence, fences.

use std::sync::Arc;

use bytes::Bytes;

use super::{Harness, TestClock, append, append_all, event, expect, fenced, frame, long, stream};
use crate::engine::{Append, Engine, EngineError, Position};

/// Frames that two nodes append at once have the same order at all subscribers.
pub async fn all_subscribers_get_the_frames_in_one_order(harness: &dyn Harness) {
    const EACH: usize = 100;
    let time = TestClock::default();
    let (a, b) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    let stream = stream(long());
    let mut live = Vec::new();
    for node in [&a, &b, &b] {
        live.push(node.subscribe(&stream).await.unwrap());
    }
    let writers = [("a", a), ("b", b)].map(|(name, node)| {
        let stream = stream.clone();
        tokio::spawn(async move {
            for n in 0..EACH / 2 {
                let batch = [0, 1].map(|m| append(&stream, &format!("{name}{}", 2 * n + m)));
                let at = node.append(&batch).await.unwrap();
                assert!(at[0].offset < at[1].offset, "{at:?}");
            }
            node
        })
    });
    let mut seen = Vec::new();
    for live in &mut live {
        let mut events = Vec::new();
        for n in 1..=2 * EACH as u64 {
            let frame = frame(live).await;
            assert_eq!(frame.position.offset, n);
            assert_eq!(frame.position.epoch, live.position().epoch);
            events.push(frame.event.as_str().to_owned());
        }
        seen.push(events);
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
    for name in ["a", "b"] {
        let own: Vec<String> = seen[0]
            .iter()
            .filter(|e| e.starts_with(name))
            .cloned()
            .collect();
        let sent: Vec<String> = (0..EACH).map(|n| format!("{name}{n}")).collect();
        assert_eq!(own, sent, "the order of one sender");
    }
    for writer in writers {
        writer.await.unwrap().close().await;
    }
}

/// A repeated event gets its first position, and is delivered once.
pub async fn an_event_is_appended_once(harness: &dyn Harness) {
    let time = TestClock::default();
    let (a, b) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    let stream = stream(long());
    let mut live = b.subscribe(&stream).await.unwrap();
    let batch = [
        append(&stream, "one"),
        append(&stream, "two"),
        append(&stream, "one"),
    ];
    let first = a.append(&batch).await.unwrap();
    assert_eq!(first[0], first[2]);
    assert_eq!([first[0].offset, first[1].offset], [1, 2]);
    assert_eq!(b.append(&batch).await.unwrap(), first);
    append_all(&*b, &stream, &["three"]).await;
    expect(&mut live, &[(1, "one"), (2, "two"), (3, "three")]).await;
}

/// If two nodes append one event at once, both get the same position.
pub async fn two_nodes_that_append_one_event_get_one_position(harness: &dyn Harness) {
    let time = TestClock::default();
    let (a, b) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    let stream = stream(long());
    for n in 0..20 {
        let one = [append(&stream, &format!("e{n}"))];
        let (at_a, at_b) = tokio::join!(a.append(&one), b.append(&one));
        assert_eq!(at_a.unwrap(), at_b.unwrap());
    }
    assert_eq!(a.top(&stream).await.unwrap().offset, 20);
}

/// Each stream has its own offsets and its own epoch.
pub async fn a_batch_goes_to_several_streams(harness: &dyn Harness) {
    let engine = harness.node(TestClock::default().clock()).await;
    let (red, blue) = (stream(long()), stream(long()));
    let batch = [append(&blue, "x"), append(&red, "x"), append(&blue, "y")];
    let at = engine.append(&batch).await.unwrap();
    assert_eq!(at.iter().map(|at| at.offset).collect::<Vec<_>>(), [1, 1, 2]);
    assert_eq!(at[0].epoch, at[2].epoch);
    assert_ne!(at[0].epoch, at[1].epoch);
    assert_eq!(engine.append(&[]).await.unwrap(), Vec::<Position>::new());
}

/// A leader that was replaced can no longer append.
pub async fn a_fence_lower_than_one_seen_is_refused(harness: &dyn Harness) {
    let time = TestClock::default();
    let (a, b) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    let stream = stream(long());
    a.append(&[fenced(&stream, "one", "rooms", 7)])
        .await
        .unwrap();
    b.append(&[fenced(&stream, "two", "rooms", 8)])
        .await
        .unwrap();
    let refused = a.append(&[fenced(&stream, "three", "rooms", 7)]).await;
    assert!(
        matches!(refused, Err(EngineError::Fenced { seen: 8 })),
        "{refused:?}"
    );
    // A repeated append of an old event is refused as well: the leader has to stop.
    let refused = a.append(&[fenced(&stream, "one", "rooms", 7)]).await;
    assert!(
        matches!(refused, Err(EngineError::Fenced { seen: 8 })),
        "{refused:?}"
    );
    b.append(&[fenced(&stream, "three", "rooms", 8)])
        .await
        .unwrap();
    a.append(&[fenced(&stream, "four", "other", 1)])
        .await
        .unwrap();
    append_all(&*a, &stream, &["five"]).await;
    let slice = a.read(&stream, 0, 10).await.unwrap();
    let events: Vec<&str> = slice.frames.iter().map(|f| f.event.as_str()).collect();
    assert_eq!(events, ["one", "two", "three", "four", "five"]);
}

/// Frames are opaque: they may hold any bytes or be empty.
pub async fn a_frame_of_any_bytes_arrives_unchanged(harness: &dyn Harness) {
    let time = TestClock::default();
    let engine: Arc<dyn Engine> = harness.node(time.clock()).await;
    let stream = stream(long());
    let mut live = engine.subscribe(&stream).await.unwrap();
    let all: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    for (n, data) in [Bytes::from(all), Bytes::new()].into_iter().enumerate() {
        let frame_of = Append {
            frame: data.clone(),
            ..append(&stream, &format!("{n}"))
        };
        engine.append(&[frame_of]).await.unwrap();
        let heard = frame(&mut live).await;
        assert_eq!((&heard.data, heard.at), (&data, time.now()));
        let slice = engine.read(&stream, n as u64, 1).await.unwrap();
        assert_eq!(slice.frames, [heard]);
        assert_eq!(slice.frames[0].event, event(&format!("{n}")));
    }
}
