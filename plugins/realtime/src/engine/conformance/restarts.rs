//! Cases in which the server stops and starts again.

use super::{
    DELIVERY_TIMEOUT, Harness, TestClock, append, append_all, append_until_back, expect, long,
    next, stream,
};
use crate::engine::{Delivery, History, ResetReason, To};

/// Calls fail with `Unavailable`. Live subscriptions stay open and continue after the start.
pub async fn a_stopped_engine_is_unavailable_and_continues_after_its_start(harness: &dyn Harness) {
    let time = TestClock::default();
    let (a, b) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    let stream = stream(long());
    let mut on_a = a.subscribe(&stream).await.unwrap();
    let mut on_b = b.subscribe(&stream).await.unwrap();
    append_all(&*a, &stream, &["1", "2"]).await;
    for live in [&mut on_a, &mut on_b] {
        expect(live, &[(1, "1"), (2, "2")]).await;
    }
    harness.stop().await;
    let calls = async {
        let error = a.append(&[append(&stream, "3")]).await.unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        assert!(a.subscribe(&stream).await.unwrap_err().is_unavailable());
        assert!(a.read(&stream, 0, 1).await.unwrap_err().is_unavailable());
        assert!(
            a.presence_enter(&stream, &["ada"])
                .await
                .unwrap_err()
                .is_unavailable()
        );
        assert!(a.ready().await.unwrap_err().is_unavailable());
        assert!(a.renew().await.unwrap_err().is_unavailable());
        assert!(
            a.send(&stream, "x".into())
                .await
                .unwrap_err()
                .is_unavailable()
        );
        assert!(
            a.control(To::All, "x".into())
                .await
                .unwrap_err()
                .is_unavailable()
        );
    };
    tokio::time::timeout(DELIVERY_TIMEOUT, calls)
        .await
        .expect("errors in time");
    harness.start().await;
    append_until_back(&*b, &stream, "3").await;
    append_until_back(&*a, &stream, "4").await;
    for live in [&mut on_a, &mut on_b] {
        expect(live, &[(3, "3"), (4, "4")]).await;
    }
    a.ready().await.unwrap();
}

/// A stream without history can be joined without stored data.
pub async fn a_stream_without_history_can_be_joined_while_the_engine_is_down(
    harness: &dyn Harness,
) {
    let time = TestClock::default();
    let (a, b) = (
        harness.node(time.clock()).await,
        harness.node(time.clock()).await,
    );
    let stream = stream(History::NONE);
    append_all(&*a, &stream, &["1"]).await;
    harness.stop().await;
    let joining = tokio::time::timeout(DELIVERY_TIMEOUT, a.subscribe(&stream));
    let mut live = joining.await.expect("in time").unwrap();
    harness.start().await;
    match next(&mut live).await {
        Delivery::Reset {
            position,
            reason: ResetReason::EpochChanged,
        } => assert_eq!(position.offset, 1),
        other => panic!("not a reset: {other:?}"),
    }
    append_until_back(&*b, &stream, "2").await;
    expect(&mut live, &[(2, "2")]).await;
}
