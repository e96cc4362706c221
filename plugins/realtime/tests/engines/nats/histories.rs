//! Tests of histories with several blocks, and of the removal of old frames.

use linchpin_realtime::engine::Position;

use super::*;

async fn fill(engine: &dyn Engine, stream: &Stream, events: std::ops::Range<u64>) -> Position {
    let batch: Vec<Append> = events
        .map(|n| append(stream, &format!("e{n}"), None))
        .collect();
    *engine.append(&batch).await.unwrap().last().unwrap()
}

/// A node that has not appended yet finds the events of the whole history.
#[tokio::test]
async fn an_old_event_is_found_and_all_frames_are_read() {
    let (nats, clock) = (single(), TestClock::default());
    let (a, b) = (
        nats.node(clock.clock()).await,
        nats.node(clock.clock()).await,
    );
    let long = History {
        size: 1000,
        ttl: Duration::from_hours(1),
    };
    // Messages of another stream are between those of this one.
    let (stream, other) = (
        Stream::new("tasks:1:live", long),
        Stream::new("tasks:2:live", long),
    );
    for part in 0..6 {
        fill(&*a, &stream, part * 50 + 1..part * 50 + 51).await;
        fill(&*a, &other, part * 9 + 1..part * 9 + 10).await;
    }
    let top = a.top(&stream).await.unwrap();
    assert_eq!(top.offset, 300);
    for offset in [1, 63, 64, 65, 128, 255, 256, 299, 300] {
        let again = b
            .append(&[append(&stream, &format!("e{offset}"), None)])
            .await;
        assert_eq!(again.unwrap()[0], Position { offset, ..top });
    }
    for (after, max) in [
        (0, 1000),
        (63, 1),
        (64, 64),
        (100, 150),
        (255, 1),
        (298, 9),
        (0, 64),
    ] {
        let slice = b.read(&stream, after, max).await.unwrap();
        let offsets: Vec<u64> = slice.frames.iter().map(|f| f.position.offset).collect();
        let expected: Vec<u64> = (after + 1..=300).take(max).collect();
        assert_eq!((offsets, slice.gap), (expected, false), "{after} {max}");
    }
    assert_eq!(
        fill(&*b, &stream, 301..302).await,
        Position { offset: 301, ..top }
    );
}

/// Frames beyond the declared size are removed after some time. The others stay.
#[tokio::test]
async fn a_history_does_not_grow_beyond_its_size() {
    let nats = single();
    let engine = nats.node(TestClock::default().clock()).await;
    let stream = Stream::new("tasks:1:live", History::default());
    for part in 0..20 {
        fill(&*engine, &stream, part * 100 + 1..part * 100 + 101).await;
        let kept = nats.messages_of(&stream).await;
        assert!(kept <= 256 + 5 * 64, "{part}: {kept}");
    }
    let slice = engine.read(&stream, 1800, 200).await.unwrap();
    assert_eq!((slice.frames.len(), slice.gap), (200, false));
    let again = engine
        .append(&[append(&stream, "e1750", None)])
        .await
        .unwrap();
    assert_eq!(again[0].offset, 1750);
}

/// If a stream gets no new frames, its old frames are removed when they reach the maximum age. The
/// position stays.
#[tokio::test]
async fn frames_that_are_too_old_are_removed_and_the_position_stays() {
    let (nats, clock) = (single(), TestClock::default());
    let engine = nats.checking(&clock).await;
    let stream = Stream::new("tasks:1:live", History::default());
    let mut live = engine.subscribe(&stream).await.unwrap();
    let top = fill(&engine, &stream, 1..101).await;
    for _ in 0..100 {
        assert!(matches!(next(&mut live).await, Delivery::Frame(_)));
    }
    clock.advance(Duration::from_mins(11));
    let removed = async {
        while nats.messages_of(&stream).await > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let removed = tokio::time::timeout(Duration::from_mins(1), removed);
    removed.await.expect("frames are removed in time");
    assert_eq!(engine.top(&stream).await.unwrap(), top);
    assert_eq!(fill(&engine, &stream, 101..102).await.offset, 101);
    match next(&mut live).await {
        Delivery::Frame(frame) => assert_eq!(frame.position, Position { offset: 101, ..top }),
        other => panic!("{other:?}"),
    }
}

impl Nats {
    /// Returns the number of stored messages of a stream.
    async fn messages_of(&self, stream: &Stream) -> u64 {
        let subject = subject(stream.name());
        let query = json!({ "subjects_filter": subject });
        let info = self.ask("INFO.linchpin_frames", query).await;
        info["state"]["subjects"][&subject].as_u64().unwrap_or(0)
    }
}
