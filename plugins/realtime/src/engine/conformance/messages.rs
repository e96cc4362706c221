//! Cases about messages that are not stored.

use bytes::Bytes;

use super::{DELIVERY_TIMEOUT, Harness, TestClock, long, next, stream};
use crate::engine::{Controls, Delivery, EngineError, MAX_MESSAGE, To};

/// Every subscriber gets all messages of a sender in the order of sending.
pub async fn a_message_reaches_the_subscribers_of_all_nodes_in_order(harness: &dyn Harness) {
    let time = TestClock::default();
    let (a, b) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    let (stream, other) = (stream(long()), stream(long()));
    let mut on_a = a.subscribe(&stream).await.unwrap();
    let mut on_b = b.subscribe(&stream).await.unwrap();
    let mut elsewhere = b.subscribe(&other).await.unwrap();
    let sent: Vec<Bytes> = (0..200).map(|n| Bytes::from(format!("\0{n}"))).collect();
    for message in &sent {
        a.send(&stream, message.clone()).await.unwrap();
    }
    a.send(&other, Bytes::from_static(b"end")).await.unwrap();
    for live in [&mut on_a, &mut on_b] {
        for message in &sent {
            assert_eq!(next(live).await, Delivery::Message(message.clone()));
        }
    }
    let end = Delivery::Message(Bytes::from_static(b"end"));
    assert_eq!(next(&mut elsewhere).await, end, "the first that it gets");
}

/// A message up to the maximum length arrives unchanged. A longer one is refused.
pub async fn a_long_message_arrives_and_a_longer_one_is_refused(harness: &dyn Harness) {
    let time = TestClock::default();
    let (a, b) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    let stream = stream(long());
    let mut live = b.subscribe(&stream).await.unwrap();
    let longest: Bytes = (0..=255).cycle().take(MAX_MESSAGE).collect();
    a.send(&stream, longest.clone()).await.unwrap();
    a.send(&stream, Bytes::new()).await.unwrap();
    assert_eq!(next(&mut live).await, Delivery::Message(longest));
    assert_eq!(next(&mut live).await, Delivery::Message(Bytes::new()));
    let too_long = Bytes::from(vec![0; MAX_MESSAGE + 1]);
    for refused in [
        a.send(&stream, too_long.clone()).await,
        a.control(To::All, too_long).await,
    ] {
        let expected = matches!(refused, Err(EngineError::TooLarge { .. }));
        assert!(expected, "{refused:?}");
    }
}

/// A node sends control messages to one node or to all nodes.
pub async fn a_control_message_reaches_one_node_or_all(harness: &dyn Harness) {
    let time = TestClock::default();
    let (a, b) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    assert_ne!(a.node(), b.node());
    let (mut at_a, mut at_b) = (a.controls(), b.controls());
    let long: Bytes = (0..=255).cycle().take(20_000).collect();
    a.control(To::Node(b.node()), long.clone()).await.unwrap();
    a.control(To::All, Bytes::from_static(b"all"))
        .await
        .unwrap();
    a.control(To::Node(a.node()), Bytes::from_static(b"own"))
        .await
        .unwrap();
    assert_eq!(control(&mut at_a).await, &b"all"[..]);
    assert_eq!(control(&mut at_a).await, &b"own"[..]);
    assert_eq!(control(&mut at_b).await, long);
    assert_eq!(control(&mut at_b).await, &b"all"[..]);
    b.close().await;
    assert_eq!(at_b.next().await, None);
}

async fn control(controls: &mut Controls) -> Bytes {
    tokio::time::timeout(DELIVERY_TIMEOUT, controls.next())
        .await
        .expect("a message in time")
        .expect("the engine is open")
}
