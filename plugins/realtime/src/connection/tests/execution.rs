//! Tests of execution: frames are executed one at a time and in order, and each has its answer.

use super::*;

#[tokio::test(start_paused = true)]
async fn every_frame_has_its_answer() {
    let mut peer = Peer::alice().await;
    for (sent, answers) in [
        ("ping", &["pong"][..]),
        (r#"{"action":"ping","ref":"1"}"#, &["pong 1"]),
        (
            r#"{"action":"subscribe","room":"a:b","ref":"1"}"#,
            &["subscribed 1 a:b"],
        ),
        (
            r#"{"action":"subscribe","room":"private:b","ref":"1"}"#,
            &["subscribe_denied not_found 1 private:b"],
        ),
        (
            r#"{"action":"presence","room":"a:b","ref":"1"}"#,
            &["presence 1 a:b"],
        ),
        (
            r#"{"action":"unsubscribe","room":"a:b","ref":"1"}"#,
            &["unsubscribed 1 a:b"],
        ),
        (
            r#"{"action":"unsubscribe","room":"never:joined"}"#,
            &["unsubscribed never:joined"],
        ),
        (
            r#"{"action":"presence","room":"a:b","ref":"1"}"#,
            &["ws:error not_subscribed 1 presence"],
        ),
        (
            r#"{"action":"recover","ref":"1","rooms":[{"room":"a:b","epoch":"e","offset":7},{"room":"private:b","epoch":"e","offset":7},{"room":"c:d","epoch":"f","offset":7}]}"#,
            &[
                "subscribed a:b",
                "subscribe_denied not_found private:b",
                "recover_failed private:b",
                "subscribed c:d",
                "recover_failed c:d",
                "recovered 1",
            ],
        ),
        (
            r#"{"action":"event","event":"echo","ackId":"a","ref":"1"}"#,
            &["ack a ok 1"],
        ),
        (
            r#"{"action":"event","event":"echo","ackId":7,"idempotencyKey":"again"}"#,
            &["ack 7 replayed"],
        ),
        (
            r#"{"action":"event","event":"forbidden","ackId":7}"#,
            &["ack 7 forbidden error"],
        ),
        (
            r#"{"action":"event","event":"unknown","ackId":7}"#,
            &["ack 7 unknown_event error"],
        ),
        (
            r#"{"action":"event","event":"unknown","ref":"1"}"#,
            &["ws:error unknown_event 1 unknown"],
        ),
        (
            r#"{"action":"nonsense","ref":"1"}"#,
            &["ws:error unknown_action 1"],
        ),
        (
            r#"{"action":"event","event":"echo","ackId":7,"more":1}"#,
            &["ack 7 invalid_frame error"],
        ),
        ("{", &["ws:error malformed_json"]),
    ] {
        peer.text(sent).await;
        for answer in answers {
            assert_eq!(peer.next_event().await, *answer, "{sent}");
        }
    }
    // A successful event without `ackId` has no answer.
    peer.text(r#"{"action":"event","event":"echo"}"#).await;
    peer.text("ping").await;
    assert_eq!(peer.next_event().await, "pong");
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn frames_are_executed_and_answered_in_order() {
    let mut peer = Peer::alice().await;
    let frames = [
        event("wait", 1, "500"),
        event("echo", 2, "2"),
        r#"{"action":"event","event":"echo","ackId":3,"more":1}"#.to_owned(),
        event("wait", 4, "100"),
        event("echo", 5, "5"),
    ];
    for text in &frames {
        peer.text(text).await;
    }
    // A ping is answered at once, while the first frame is still executed.
    peer.text("ping").await;
    peer.raw(&frame(FIN | PING, b"p")).await;
    let before = Instant::now();
    assert_eq!(peer.next().await.map(|(first, _)| first), Some(FIN | PONG));
    assert_eq!(peer.next_event().await, "pong");
    assert_eq!(before.elapsed(), Duration::ZERO);
    for answer in [
        "ack 1 ok",
        "ack 2 ok",
        "ack 3 invalid_frame error",
        "ack 4 ok",
        "ack 5 ok",
    ] {
        assert_eq!(peer.next_event().await, answer);
    }
    assert_eq!(before.elapsed(), Duration::from_millis(600));
    let (node, _) = peer.finish().await;
    let expected = [
        "start wait 500",
        "end wait 500",
        "start echo 2",
        "end echo 2",
        "start wait 100",
        "end wait 100",
        "start echo 5",
        "end echo 5",
        "ended",
    ];
    assert_eq!(node.calls(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_takes_too_long_is_cancelled() {
    let mut peer = Peer::alice().await;
    let before = Instant::now();
    peer.text(&event("wait", 1, "3600000")).await;
    peer.text(&event("echo", 2, "2")).await;
    assert_eq!(peer.next_event().await, "ack 1 timeout error");
    assert_eq!(before.elapsed(), seconds(10));
    assert_eq!(peer.next_event().await, "ack 2 ok");
    let (node, _) = peer.finish().await;
    assert_eq!(node.count("end wait 3600000"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_handler_panic_fails_only_its_own_frame() {
    let mut peer = Peer::alice().await;
    peer.text(&event("panic", 1, "1")).await;
    peer.text(r#"{"action":"event","event":"panic"}"#).await;
    peer.text(&event("echo", 2, "2")).await;
    assert_eq!(peer.next_event().await, "ack 1 internal error");
    assert_eq!(peer.next_event().await, "ws:error internal panic");
    assert_eq!(peer.next_event().await, "ack 2 ok");
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn while_64_frames_wait_the_server_does_not_read() {
    let mut peer = Peer::connected(Options {
        buffer: 256,
        ..Options::default()
    })
    .await;
    peer.text(&event("wait", 0, "9000")).await;
    let text = event("echo", 1, "1");
    let mut sent = 0;
    // Unread bytes fill the buffers of the socket, so the client cannot send more.
    while tokio::time::timeout(Duration::from_millis(50), peer.text(&text))
        .await
        .is_ok()
    {
        sent += 1;
        assert!(sent < 200, "the server stops reading");
    }
    // 64 frames wait in the server; a few more are in the buffers.
    assert!((64..90).contains(&sent), "{sent}");
    assert_eq!(peer.next_event().await, "ack 0 ok");
    for _ in 0..sent {
        assert_eq!(peer.next_event().await, "ack 1 ok");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_executes_received_frames_and_closes_at_the_announced_time() {
    let mut peer = Peer::alice().await;
    peer.connection.drain(seconds(5));
    let reply = peer.json().await;
    assert_eq!(reply["event"], "draining");
    assert_eq!(reply["reconnectInMs"], 5_000);
    let before = Instant::now();
    tokio::time::sleep(seconds(4)).await;
    peer.text(&event("wait", 1, "3000")).await;
    peer.text(&event("echo", 2, "2")).await;
    assert_eq!(peer.next_event().await, "ack 1 ok");
    assert_eq!(peer.next_event().await, "ack 2 ok");
    assert_eq!(peer.closed().await, "1012 restart");
    assert_eq!(before.elapsed(), seconds(7));
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_connection_cancels_its_running_frame() {
    let mut peer = Peer::alice().await;
    peer.text(&event("wait", 1, "5000")).await;
    tokio::time::sleep(seconds(1)).await;
    peer.connection.close(Close::SessionEnded);
    assert_eq!(peer.closed().await, "4401 session_ended");
    let (node, _) = peer.finish().await;
    assert_eq!(node.calls(), ["start wait 5000", "ended"]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_task_ends_its_connection() {
    let peer = Peer::alice().await;
    peer.served.abort();
    assert!(peer.served.await.is_err());
    assert_eq!(peer.node.calls(), ["ended"]);
    drop(peer.connection);
    assert_eq!(peer.meter.read().connections, 0);
}
