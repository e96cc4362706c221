//! Cases about lost data, lost connections, and a closed engine.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{
    DELIVERY_TIMEOUT, Harness, TestClock, append, append_all, append_until_back, expect, long,
    next, stream,
};
use crate::engine::{
    Append, Delivery, Engine, History, MAX_READ, Position, ResetReason, Stream, Subscription,
};

/// Returns the position of the next delivery, which must be a reset for a new epoch.
pub(super) async fn new_epoch(live: &mut Subscription) -> Position {
    match next(live).await {
        Delivery::Reset {
            position,
            reason: ResetReason::EpochChanged,
        } => position,
        other => panic!("not a reset for a new epoch: {other:?}"),
    }
}

/// Returns two nodes. Each has a subscription that has received the first frames.
async fn two_nodes(harness: &dyn Harness, stream: &Stream) -> [(Arc<dyn Engine>, Subscription); 2] {
    let time = TestClock::default();
    let (a, b) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    append_all(&*a, stream, &["1", "2"]).await;
    let mut on_a = a.subscribe(stream).await.unwrap();
    let mut on_b = b.subscribe(stream).await.unwrap();
    append_all(&*a, stream, &["3", "4", "5"]).await;
    for live in [&mut on_a, &mut on_b] {
        expect(live, &[(3, "3"), (4, "4"), (5, "5")]).await;
    }
    [(a, on_a), (b, on_b)]
}

/// Checks that both subscriptions get one reset and then the new frames, after data was lost.
async fn check_new_epoch(stream: &Stream, nodes: [(Arc<dyn Engine>, Subscription); 2]) {
    let [(a, on_a), (b, on_b)] = nodes;
    let lost = on_a.position().epoch;
    append_all(&*a, stream, &["6", "7"]).await;
    let mut epochs = Vec::new();
    for mut live in [on_a, on_b] {
        let at = new_epoch(&mut live).await;
        assert_ne!(at.epoch, lost);
        assert_eq!(at.offset, 0);
        expect(&mut live, &[(1, "6"), (2, "7")]).await;
        epochs.push((at.epoch, live));
    }
    assert_eq!(epochs[0].0, epochs[1].0);
    append_all(&*b, stream, &["8"]).await;
    for (_, live) in &mut epochs {
        expect(live, &[(3, "8")]).await;
    }
}

/// After the loss of all data every stream gets another epoch, and each subscriber one reset.
pub async fn lost_data_is_one_reset_and_a_new_epoch(harness: &dyn Harness) {
    let stream = stream(long());
    let nodes = two_nodes(harness, &stream).await;
    harness.flush().await;
    check_new_epoch(&stream, nodes).await;
}

/// After the loss of one stream it gets another epoch, and other streams continue.
pub async fn a_lost_stream_is_one_reset_and_a_new_epoch(harness: &dyn Harness) {
    let (stream, other) = (stream(long()), stream(long()));
    let nodes = two_nodes(harness, &stream).await;
    let mut elsewhere = nodes[0].0.subscribe(&other).await.unwrap();
    let engine = Arc::clone(&nodes[0].0);
    harness.lose_stream(stream.name()).await;
    check_new_epoch(&stream, nodes).await;
    append_all(&*engine, &other, &["1"]).await;
    expect(&mut elsewhere, &[(1, "1")]).await;
}

/// The position was kept, so live subscribers miss no frame. A client that recovers gets a gap.
pub async fn lost_frames_end_recovery_but_not_live_delivery(harness: &dyn Harness) {
    let stream = stream(long());
    let nodes = two_nodes(harness, &stream).await;
    harness.lose_frames(stream.name()).await;
    append_all(&*nodes[0].0, &stream, &["6"]).await;
    let [(a, on_a), (_b, on_b)] = nodes;
    let epoch = on_a.position().epoch;
    for mut live in [on_a, on_b] {
        expect(&mut live, &[(6, "6")]).await;
        assert_eq!(live.position().epoch, epoch);
    }
    assert!(a.read(&stream, 2, 100).await.unwrap().gap);
    assert!(!a.read(&stream, 5, 100).await.unwrap().gap);
}

/// If an engine that lost data uses an offset again, the stream gets another epoch.
pub async fn a_reused_offset_replaces_the_epoch_on_all_nodes(harness: &dyn Harness) {
    for reused in [&["4'"][..], &["4'", "5'"], &["4'", "5'", "6'"]] {
        let stream = stream(long());
        let [(a, mut on_a), (b, mut on_b)] = two_nodes(harness, &stream).await;
        let lost = on_a.position().epoch;
        harness.rewind(stream.name(), 3).await;
        append_all(&*b, &stream, reused).await;
        let (at_a, at_b) = (new_epoch(&mut on_a).await, new_epoch(&mut on_b).await);
        assert_ne!(at_a.epoch, lost);
        assert_eq!(at_a.epoch, at_b.epoch);
        append_all(&*a, &stream, &["end"]).await;
        for (mut live, mut last) in [(on_a, at_a), (on_b, at_b)] {
            loop {
                let Delivery::Frame(frame) = next(&mut live).await else {
                    panic!("one reset only")
                };
                assert_eq!(frame.position.epoch, last.epoch);
                assert_eq!(frame.position.offset, last.offset + 1);
                last = frame.position;
                if frame.event.as_str() == "end" {
                    break;
                }
            }
        }
    }
}

/// Frames whose notifications were lost are delivered after the next connection.
pub async fn frames_missed_during_a_cut_arrive_in_order(harness: &dyn Harness) {
    let stream = stream(long());
    let [(a, mut on_a), (b, mut on_b)] = two_nodes(harness, &stream).await;
    harness.cut().await;
    for name in ["6", "7", "8"] {
        append_until_back(&*a, &stream, name).await;
    }
    harness.mend().await;
    for live in [&mut on_a, &mut on_b] {
        expect(live, &[(6, "6"), (7, "7"), (8, "8")]).await;
    }
    append_until_back(&*b, &stream, "9").await;
    for live in [&mut on_a, &mut on_b] {
        expect(live, &[(9, "9")]).await;
    }
}

/// A frame that fills a whole read does not prevent the delivery of the frames after it.
pub async fn long_frames_missed_during_a_cut_arrive_in_order(harness: &dyn Harness) {
    let stream = stream(long());
    let engine = harness.node(TestClock::default().clock()).await;
    let mut live = engine.subscribe(&stream).await.unwrap();
    let frame = |name: &str| Append {
        frame: Bytes::from(vec![b'x'; MAX_READ + 1]),
        ..append(&stream, name)
    };
    engine.append(&[frame("1")]).await.unwrap();
    assert_eq!(super::frame(&mut live).await.position.offset, 1);
    harness.cut().await;
    for name in ["2", "3"] {
        while engine.append(&[frame(name)]).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    harness.mend().await;
    for offset in [2, 3] {
        assert_eq!(super::frame(&mut live).await.position.offset, offset);
    }
}

/// Missed frames are delivered if the engine has kept them. Otherwise the subscriber gets a reset.
pub async fn more_frames_missed_than_kept_is_a_reset(harness: &dyn Harness) {
    let stream = stream(History { size: 10, ..long() });
    let [(a, mut on_a), (_b, mut on_b)] = two_nodes(harness, &stream).await;
    let epoch = on_a.position().epoch;
    harness.cut().await;
    append_until_back(&*a, &stream, "6").await;
    let names: Vec<String> = (7..=600).map(|n| n.to_string()).collect();
    for some in names.chunks(50) {
        let batch: Vec<_> = some.iter().map(|name| append(&stream, name)).collect();
        a.append(&batch).await.unwrap();
    }
    harness.mend().await;
    append_all(&*a, &stream, &["601"]).await;
    for live in [&mut on_a, &mut on_b] {
        let mut last = 5;
        while last < 601 {
            match next(live).await {
                Delivery::Frame(frame) => {
                    assert_eq!(frame.position.offset, last + 1);
                    assert_eq!(frame.event.as_str(), frame.position.offset.to_string());
                    last = frame.position.offset;
                }
                Delivery::Reset { position, reason } => {
                    assert_eq!(reason, ResetReason::HistoryUnavailable);
                    assert_eq!(position.epoch, epoch);
                    assert!(position.offset > last);
                    last = position.offset;
                }
                Delivery::Message(message) => panic!("nobody sent {message:?}"),
            }
        }
    }
}

/// A closed engine answers every call with an error.
pub async fn a_closed_engine_ends_its_subscriptions(harness: &dyn Harness) {
    let stream = stream(long());
    let [(a, mut on_a), (b, mut on_b)] = two_nodes(harness, &stream).await;
    a.close().await;
    let ended = tokio::time::timeout(DELIVERY_TIMEOUT, on_a.next()).await;
    assert_eq!(ended.expect("in time"), None);
    let error = a.append(&[append(&stream, "6")]).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(a.subscribe(&stream).await.unwrap_err().is_unavailable());
    assert!(a.top(&stream).await.unwrap_err().is_unavailable());
    assert!(a.ready().await.unwrap_err().is_unavailable());
    append_all(&*b, &stream, &["6"]).await;
    expect(&mut on_b, &[(6, "6")]).await;
}
