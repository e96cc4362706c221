//! Tests of the limits of connections, and of slow clients.

use std::time::Duration;

use linchpin_realtime::connection::OnExceeded;
use serde_json::json;

use crate::raw::Raw;
use crate::socket::Socket;
use crate::test_app::{TestApp, room};

#[tokio::test]
async fn frames_above_the_limit_are_refused_and_then_end_the_connection() {
    let test_app =
        TestApp::limited(|limits| (limits.frames_burst, limits.frames_per_second) = (1, 1)).await;
    let ada = test_app.user("ada").await;
    let mut socket = test_app.connect(&ada).await;
    let frame = json!({ "action": "unsubscribe", "room": "x" });
    socket.send(frame.clone()).await;
    assert_eq!(socket.next().await["event"], "unsubscribed");
    for _ in 0..150 {
        socket.send(frame.clone()).await;
    }
    assert_eq!(socket.until("ws:error").await["code"], "rate_limited");
    assert_eq!(
        socket.closed().await,
        (1008, "rate limit exceeded".to_owned())
    );
}

#[tokio::test]
async fn the_limit_of_frames_can_end_the_connection_at_once() {
    let test_app = TestApp::limited(|limits| {
        (limits.frames_burst, limits.frames_per_second) = (1, 1);
        limits.on_exceeded = OnExceeded::Close;
    })
    .await;
    let ada = test_app.user("ada").await;
    let mut socket = test_app.connect(&ada).await;
    for _ in 0..20 {
        socket.text("ping").await;
    }
    assert_eq!(
        socket.closed().await,
        (1008, "rate limit exceeded".to_owned())
    );
}

#[tokio::test]
async fn a_client_that_answers_no_ping_is_closed() {
    let test_app = TestApp::limited(|limits| {
        limits.heartbeat = Duration::from_secs(1);
        limits.heartbeat_timeout = Duration::from_secs(1);
    })
    .await;
    let ada = test_app.user("ada").await;
    let mut raw = Raw::open(test_app.app.address(), &ada.token).await;
    assert_eq!(
        raw.closed().await,
        Some((1001, "Heartbeat timeout".to_owned()))
    );
}

#[tokio::test]
async fn one_connection_too_many_replaces_the_oldest() {
    let test_app = TestApp::limited(|limits| limits.connections_per_user = 2).await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let mut oldest = test_app.connect(&ada).await;
    let mut second = test_app.connect(&ada).await;
    let mut other = test_app.connect(&bob).await;
    let mut third = test_app.connect(&ada).await;
    assert_eq!(oldest.closed().await, (4409, "replaced".to_owned()));
    for socket in [&mut second, &mut other, &mut third] {
        assert!(socket.pending().await.is_empty());
    }
}

#[tokio::test]
async fn anonymous_connections_per_address_are_limited() {
    let test_app = TestApp::limited(|limits| limits.connections_per_address = 2).await;
    let ada = test_app.user("ada").await;
    let address = test_app.app.address();
    let mut first = Socket::open(address, &[]).await;
    let second = Socket::open(address, &[]).await;
    let refused = Socket::handshake(address, "/__ws", &[])
        .await
        .err()
        .expect("refused");
    assert_eq!(
        (refused.status, refused.code.as_str()),
        (429, "rate_limited")
    );
    assert!(refused.headers.contains_key("retry-after"));
    test_app.connect(&ada).await;
    // A client that has authenticated no longer counts against its address.
    first
        .send(json!({ "type": "auth", "token": ada.token }))
        .await;
    first.until("auth:authenticated").await;
    let third = Socket::handshake(address, "/__ws", &[]).await;
    assert!(third.is_ok());
    drop(second);
}

#[tokio::test]
async fn handshakes_per_user_are_limited() {
    let test_app = TestApp::limited(|limits| limits.handshakes_per_minute = 2).await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    test_app.connect(&ada).await;
    test_app.connect(&ada).await;
    let bearer = format!("Bearer {}", ada.token);
    let headers = [("authorization", bearer.as_str())];
    let refused = Socket::handshake(test_app.app.address(), "/__ws", &headers).await;
    assert_eq!(refused.err().map(|refused| refused.status), Some(429));
    test_app.connect(&bob).await;
}

#[tokio::test]
async fn a_slow_reader_is_closed_and_does_not_delay_others() {
    let test_app = TestApp::limited(|limits| limits.queue_bytes = 256 << 10).await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let container = test_app.container(&ada, "public").await;
    let mut member = test_app.member(&bob, &room(&container)).await;
    let mut slow = Raw::open(test_app.app.address(), &ada.token).await;
    let join = json!({ "action": "subscribe", "room": room(&container) });
    slow.send(&join.to_string()).await;
    assert_eq!(member.until("presence_join").await["userId"], json!(ada.id));
    test_app.wait_for_connections(2).await;
    // 60 MB: more than the operating system buffers for a socket that is not read.
    let text = "a".repeat(60_000);
    for _ in 0..1_000 {
        test_app.announce(&container, &text).await;
        member.until("announcement").await;
    }
    test_app.wait_for_connections(1).await;
    assert_eq!(test_app.closes(), [(4408, 1)]);
}
