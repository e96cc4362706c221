//! Cases about history: the frames that can be read again, and for how long.

use std::time::Duration;

use bytes::Bytes;

use super::{Harness, TestClock, append, append_all, expect, stream};
use crate::engine::{Append, History, MAX_READ, POSITION_TTL};

const SECOND: Duration = Duration::from_secs(1);
const EVENTS: [&str; 10] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"];

/// If the size of the history excludes requested frames, the answer has a gap.
pub async fn a_read_ends_at_the_declared_size(harness: &dyn Harness) {
    let engine = harness.node(TestClock::default().clock()).await;
    let stream = stream(History {
        size: 3,
        ttl: Duration::from_mins(10),
    });
    append_all(&*engine, &stream, &EVENTS).await;
    let slice = engine.read(&stream, 7, 500).await.unwrap();
    let offsets: Vec<u64> = slice.frames.iter().map(|f| f.position.offset).collect();
    assert_eq!(
        (offsets, slice.gap, slice.top.offset),
        (vec![8, 9, 10], false, 10)
    );
    assert!(engine.read(&stream, 6, 500).await.unwrap().gap);
    assert!(engine.read(&stream, 0, 500).await.unwrap().gap);
}

/// If the age of the history excludes requested frames, the answer has a gap. The position stays.
pub async fn a_read_ends_at_the_declared_age(harness: &dyn Harness) {
    let time = TestClock::default();
    let engine = harness.node(time.clock()).await;
    let stream = stream(History {
        size: 100,
        ttl: Duration::from_mins(10),
    });
    append_all(&*engine, &stream, &["old"]).await;
    time.advance(Duration::from_mins(6));
    append_all(&*engine, &stream, &["young"]).await;
    let slice = engine.read(&stream, 0, 500).await.unwrap();
    assert_eq!((slice.frames.len(), slice.gap), (2, false));
    time.advance(Duration::from_mins(6));
    assert!(engine.read(&stream, 0, 500).await.unwrap().gap);
    let slice = engine.read(&stream, 1, 500).await.unwrap();
    assert_eq!((slice.frames.len(), slice.gap), (1, false));
    time.advance(Duration::from_mins(6));
    let slice = engine.read(&stream, 1, 500).await.unwrap();
    assert_eq!(
        (slice.frames.len(), slice.gap, slice.top.offset),
        (0, true, 2)
    );
    let slice = engine.read(&stream, 2, 500).await.unwrap();
    assert_eq!((slice.frames.len(), slice.gap), (0, false));
}

/// An offset above the top returns no frames and no gap. The caller compares it with the top.
pub async fn an_offset_beyond_the_top_reads_nothing(harness: &dyn Harness) {
    let engine = harness.node(TestClock::default().clock()).await;
    let stream = stream(History::default());
    append_all(&*engine, &stream, &["one"]).await;
    for after in [1, 2, 1 << 53, u64::MAX] {
        let slice = engine.read(&stream, after, 500).await.unwrap();
        assert_eq!(
            (slice.frames.len(), slice.gap, slice.top.offset),
            (0, false, 1)
        );
    }
}

/// A stream keeps its epoch for seven days after its history ends. Then it gets a new one.
pub async fn a_position_outlives_the_history_by_seven_days(harness: &dyn Harness) {
    let time = TestClock::default();
    let engine = harness.node(time.clock()).await;
    let history = History {
        size: 10,
        ttl: Duration::from_mins(10),
    };
    let stream = stream(history);
    append_all(&*engine, &stream, &["one", "two"]).await;
    let top = engine.top(&stream).await.unwrap();
    time.advance(history.ttl + POSITION_TTL.saturating_sub(SECOND));
    assert_eq!(engine.top(&stream).await.unwrap(), top);
    time.advance(history.ttl + POSITION_TTL + SECOND);
    let fresh = engine.top(&stream).await.unwrap();
    assert_ne!(fresh.epoch, top.epoch);
    assert_eq!(fresh.offset, 0);
    assert_eq!(engine.top(&stream).await.unwrap(), fresh);
    // No data of the former epoch remains.
    append_all(&*engine, &stream, &["one"]).await;
    let slice = engine.read(&stream, 0, 10).await.unwrap();
    assert_eq!((slice.frames.len(), slice.top.offset), (1, 1));
}

/// Without history no frame can be read again, but every subscriber gets every live frame.
pub async fn a_stream_without_history_delivers_live_frames_only(harness: &dyn Harness) {
    let engine = harness.node(TestClock::default().clock()).await;
    let stream = stream(History::NONE);
    let mut live = engine.subscribe(&stream).await.unwrap();
    let batch: Vec<_> = EVENTS.iter().map(|name| append(&stream, name)).collect();
    engine.append(&batch).await.unwrap();
    for (offset, name) in (1..).zip(EVENTS) {
        expect(&mut live, &[(offset, name)]).await;
    }
    let slice = engine.read(&stream, 9, 500).await.unwrap();
    assert_eq!((slice.frames.len(), slice.gap), (0, true));
    let slice = engine.read(&stream, 10, 500).await.unwrap();
    assert_eq!((slice.frames.len(), slice.gap), (0, false));
}

/// A long history is read in parts.
pub async fn a_read_returns_at_most_as_many_frames_as_requested(harness: &dyn Harness) {
    let engine = harness.node(TestClock::default().clock()).await;
    let stream = stream(History::default());
    append_all(&*engine, &stream, &EVENTS).await;
    let (mut after, mut parts) = (0, Vec::new());
    loop {
        let slice = engine.read(&stream, after, 4).await.unwrap();
        assert!(!slice.gap);
        parts.push(slice.frames.len());
        after += slice.frames.len() as u64;
        if slice.reaches_top() {
            break;
        }
    }
    assert_eq!(parts, [4, 4, 2]);
}

/// A reader gets long frames in several answers, so that each answer needs little memory.
pub async fn a_read_ends_before_more_bytes_than_allowed(harness: &dyn Harness) {
    let engine = harness.node(TestClock::default().clock()).await;
    let stream = stream(History::default());
    for (n, length) in [MAX_READ / 3, MAX_READ / 3, MAX_READ / 3, MAX_READ + 1, 1]
        .into_iter()
        .enumerate()
    {
        let long = Append {
            frame: Bytes::from(vec![b'x'; length]),
            ..append(&stream, &n.to_string())
        };
        engine.append(&[long]).await.unwrap();
    }
    let (mut after, mut parts) = (0, Vec::new());
    loop {
        let slice = engine.read(&stream, after, 100).await.unwrap();
        assert!(!slice.gap);
        parts.push(slice.frames.len());
        after += slice.frames.len() as u64;
        if slice.reaches_top() {
            break;
        }
    }
    assert_eq!(parts, [3, 1, 1]);
}
