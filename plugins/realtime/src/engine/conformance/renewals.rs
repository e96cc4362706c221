//! Cases about renewals, which give all streams new epochs after events were lost.

use super::faults::new_epoch;
use super::{Harness, TestClock, append, append_all, expect, fenced, long, next, stream};
use crate::engine::{Delivery, EngineError, History};

/// Every stream gets a new epoch, even if no node serves it. Each subscriber gets one reset.
pub async fn a_renewal_gives_every_stream_a_new_epoch(harness: &dyn Harness) {
    let time = TestClock::default();
    let (a, b) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    let unserved: Vec<_> = (0..30).map(|_| stream(long())).collect();
    let (served, short) = (stream(long()), stream(History::NONE));
    let all = || unserved.iter().chain([&served, &short]);
    let mut before = Vec::new();
    for stream in all() {
        append_all(&*a, stream, &["1", "2"]).await;
        before.push(a.top(stream).await.unwrap());
    }
    let mut live = Vec::new();
    for node in [&a, &b] {
        for stream in [&served, &short] {
            live.push((stream, node.subscribe(stream).await.unwrap()));
        }
    }
    b.renew().await.unwrap();
    for (stream, before) in all().zip(before) {
        for node in [&a, &b] {
            let slice = node.read(stream, 0, 10).await.unwrap();
            assert_ne!(slice.top.epoch, before.epoch);
            assert_eq!((slice.top.offset, slice.frames.len()), (0, 0));
        }
    }
    for (stream, live) in &mut live {
        let at = new_epoch(live).await;
        assert_eq!(at, a.top(stream).await.unwrap());
    }
    // An event of the former epoch may be appended again.
    for stream in [&served, &short] {
        append_all(&*a, stream, &["2", "3"]).await;
    }
    for (_, live) in &mut live {
        expect(live, &[(1, "2"), (2, "3")]).await;
    }
    let top = a.top(&served).await.unwrap();
    a.renew().await.unwrap();
    assert_ne!(a.top(&served).await.unwrap().epoch, top.epoch);
}

/// Frames that are appended during the renewal are in the former epoch or in the new one. No frame
/// after the reset is missing.
pub async fn a_renewal_during_appends_is_one_reset_without_a_gap(harness: &dyn Harness) {
    let time = TestClock::default();
    let (a, b) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    let (one, other) = (stream(long()), stream(long()));
    for stream in [&one, &other] {
        append_all(&*a, stream, &["begin"]).await;
    }
    let mut live = [
        a.subscribe(&one).await.unwrap(),
        b.subscribe(&one).await.unwrap(),
    ];
    let appending = async {
        // A new epoch with so few frames is delivered from its start.
        for number in 0..50 {
            let name = format!("{number}");
            let (first, second) = (append(&one, &name), append(&other, &name));
            // The batches use both orders of the streams, to find deadlocks with the renewal.
            let batch = if number % 2 == 0 {
                [first, second]
            } else {
                [second, first]
            };
            a.append(&batch).await.unwrap();
        }
    };
    let renewing = async { b.renew().await.unwrap() };
    tokio::join!(appending, renewing);
    append_all(&*a, &one, &["end"]).await;
    for live in &mut live {
        let (mut last, mut resets) = (live.position(), 0);
        loop {
            match next(live).await {
                Delivery::Frame(frame) => {
                    assert_eq!(frame.position.epoch, last.epoch);
                    assert_eq!(frame.position.offset, last.offset + 1);
                    last = frame.position;
                    if frame.event.as_str() == "end" {
                        break;
                    }
                }
                Delivery::Reset { position, .. } => {
                    assert_ne!(position.epoch, last.epoch);
                    (last, resets) = (position, resets + 1);
                }
                Delivery::Message(message) => panic!("nobody sent {message:?}"),
            }
        }
        assert_eq!(resets, 1);
        assert_eq!(last, a.top(&one).await.unwrap());
    }
}

/// A paused leader stays fenced after a renewal.
pub async fn a_renewal_keeps_fences(harness: &dyn Harness) {
    let a = harness.node(TestClock::default().clock()).await;
    let stream = stream(long());
    let consumer = stream.name().to_owned();
    a.append(&[fenced(&stream, "1", &consumer, 2)])
        .await
        .unwrap();
    a.renew().await.unwrap();
    let late = a.append(&[fenced(&stream, "2", &consumer, 1)]).await;
    assert!(
        matches!(late, Err(EngineError::Fenced { seen: 2 })),
        "{late:?}"
    );
    let own = a.append(&[fenced(&stream, "2", &consumer, 2)]).await;
    assert_eq!(own.unwrap()[0].offset, 1);
}
