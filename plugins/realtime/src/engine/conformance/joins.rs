//! Cases about subscribing, and about clients that join a subscription.

use std::time::Duration;

use bytes::Bytes;

use super::{
    Harness, TestClock, append, append_all, append_until_back, expect, frame, long, next, stream,
};
use crate::engine::{Append, Delivery};

/// Frames from before the subscription are not delivered.
pub async fn a_subscription_begins_at_the_top(harness: &dyn Harness) {
    let engine = harness.node(TestClock::default().clock()).await;
    let stream = stream(long());
    append_all(&*engine, &stream, &["one", "two"]).await;
    let mut live = engine.subscribe(&stream).await.unwrap();
    assert_eq!(live.position(), engine.top(&stream).await.unwrap());
    append_all(&*engine, &stream, &["three"]).await;
    expect(&mut live, &[(3, "three")]).await;
    assert_eq!(live.position().offset, 3);
}

/// A further client joins: it reads up to the top and then gets the live frames above it.
pub async fn a_join_under_load_neither_loses_nor_doubles_a_frame(harness: &dyn Harness) {
    const FRAMES: u64 = 300;
    let time = TestClock::default();
    let (writer, node) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    let stream = stream(long());
    let mut live = node.subscribe(&stream).await.unwrap();
    let written = stream.clone();
    let writing = tokio::spawn(async move {
        for n in 1..=FRAMES {
            writer
                .append(&[append(&written, &n.to_string())])
                .await
                .unwrap();
        }
        writer
    });
    let mut clients: Vec<Vec<u64>> = Vec::new();
    loop {
        let Delivery::Frame(frame) = next(&mut live).await else {
            panic!("not a frame")
        };
        let offset = frame.position.offset;
        for client in &mut clients {
            if client.last().is_none_or(|last| *last < offset) {
                client.push(offset);
            }
        }
        if offset.is_multiple_of(50) {
            // A client joins. Frames that arrive meanwhile wait in the subscription.
            let slice = node.read(&stream, 0, 1000).await.unwrap();
            assert!(!slice.gap && slice.reaches_top());
            clients.push(slice.frames.iter().map(|f| f.position.offset).collect());
        }
        if offset == FRAMES {
            break;
        }
    }
    let all: Vec<u64> = (1..=FRAMES).collect();
    assert_eq!(clients.len(), 6);
    for client in clients {
        assert_eq!(client, all);
    }
    writing.await.unwrap();
}

/// A node that is too busy to take its deliveries does not delay the writer, and loses no frame
/// within the history.
pub async fn a_subscriber_that_reads_late_gets_everything(harness: &dyn Harness) {
    let time = TestClock::default();
    let (writer, node) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    let stream = stream(long());
    let mut late = node.subscribe(&stream).await.unwrap();
    let mut prompt = node.subscribe(&stream).await.unwrap();
    let data = Bytes::from(vec![b'x'; 4000]);
    for n in 0..30 {
        let batch: Vec<Append> = (0..50)
            .map(|m| Append {
                frame: data.clone(),
                ..append(&stream, &format!("{n}-{m}"))
            })
            .collect();
        writer.append(&batch).await.unwrap();
    }
    for live in [&mut prompt, &mut late] {
        for n in 1..=1500 {
            assert_eq!(frame(live).await.position.offset, n);
        }
    }
}

/// A stream whose last subscription on a node has ended can be subscribed again.
pub async fn a_stream_can_be_left_and_joined_again(harness: &dyn Harness) {
    let engine = harness.node(TestClock::default().clock()).await;
    let stream = stream(long());
    for n in 0..10_u64 {
        let mut live = engine.subscribe(&stream).await.unwrap();
        let other = engine.subscribe(&stream).await.unwrap();
        drop(other);
        let name = n.to_string();
        append_all(&*engine, &stream, &[&name]).await;
        expect(&mut live, &[(n + 1, &name)]).await;
    }
}

/// The task of a room waits for its subscription and for other events at once. It cancels a wait
/// when another event comes first.
pub async fn a_canceled_wait_loses_nothing(harness: &dyn Harness) {
    let time = TestClock::default();
    let (writer, node) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    let stream = stream(long());
    let mut live = node.subscribe(&stream).await.unwrap();
    let written = stream.clone();
    let writing = tokio::spawn(async move {
        for n in 1..=200 {
            append_until_back(&*writer, &written, &n.to_string()).await;
        }
        writer
    });
    let mut expected = 1;
    while expected <= 200 {
        // Comparisons, which read, are canceled as well.
        if expected % 10 == 0 {
            harness.cut().await;
            harness.mend().await;
        }
        let wait = tokio::time::timeout(Duration::from_micros(300), live.next());
        if let Ok(delivery) = wait.await {
            let Some(Delivery::Frame(frame)) = delivery else {
                panic!("not a frame: {delivery:?}")
            };
            assert_eq!(frame.position.offset, expected);
            expected += 1;
        }
    }
    writing.await.unwrap();
}
