//! Limits of connections, and clients that do not keep up.

use std::time::Duration;

use linchpin_realtime::connection::OnExceeded;
use serde_json::json;

use crate::bed::{Bed, room};
use crate::raw::Raw;
use crate::socket::Socket;

#[tokio::test]
async fn frames_above_the_limit_are_refused_and_then_end_the_connection() {
    let bed = Bed::limited(|limits| (limits.frames_burst, limits.frames_per_second) = (1, 1)).await;
    let ada = bed.user("ada").await;
    let mut socket = bed.connect(&ada).await;
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
    let bed = Bed::limited(|limits| {
        (limits.frames_burst, limits.frames_per_second) = (1, 1);
        limits.on_exceeded = OnExceeded::Close;
    })
    .await;
    let ada = bed.user("ada").await;
    let mut socket = bed.connect(&ada).await;
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
    let bed = Bed::limited(|limits| {
        limits.heartbeat = Duration::from_secs(1);
        limits.heartbeat_timeout = Duration::from_secs(1);
    })
    .await;
    let ada = bed.user("ada").await;
    let mut raw = Raw::open(bed.app.address(), &ada.token).await;
    assert_eq!(
        raw.closed().await,
        Some((1001, "Heartbeat timeout".to_owned()))
    );
}

#[tokio::test]
async fn one_connection_too_many_replaces_the_oldest() {
    let bed = Bed::limited(|limits| limits.connections_per_user = 2).await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let mut oldest = bed.connect(&ada).await;
    let mut second = bed.connect(&ada).await;
    let mut other = bed.connect(&bob).await;
    let mut third = bed.connect(&ada).await;
    assert_eq!(oldest.closed().await, (4409, "replaced".to_owned()));
    for socket in [&mut second, &mut other, &mut third] {
        assert!(socket.pending().await.is_empty());
    }
}

#[tokio::test]
async fn an_address_has_a_limit_of_clients_without_a_credential() {
    let bed = Bed::limited(|limits| limits.connections_per_address = 2).await;
    let ada = bed.user("ada").await;
    let address = bed.app.address();
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
    bed.connect(&ada).await;
    // A client that names its user needs no place any more.
    first
        .send(json!({ "type": "auth", "token": ada.token }))
        .await;
    first.until("auth:authenticated").await;
    let third = Socket::handshake(address, "/__ws", &[]).await;
    assert!(third.is_ok());
    drop(second);
}

#[tokio::test]
async fn handshakes_have_a_limit() {
    let bed = Bed::limited(|limits| limits.handshakes_per_minute = 2).await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    bed.connect(&ada).await;
    bed.connect(&ada).await;
    let bearer = format!("Bearer {}", ada.token);
    let headers = [("authorization", bearer.as_str())];
    let refused = Socket::handshake(bed.app.address(), "/__ws", &headers).await;
    assert_eq!(refused.err().map(|refused| refused.status), Some(429));
    bed.connect(&bob).await;
}

#[tokio::test]
async fn a_slow_reader_is_closed_and_delays_nobody() {
    let bed = Bed::limited(|limits| limits.queue_bytes = 256 << 10).await;
    let (ada, bob) = (bed.user("ada").await, bed.user("bob").await);
    let container = bed.container(&ada, "public").await;
    let mut member = bed.member(&bob, &room(&container)).await;
    let mut slow = Raw::open(bed.app.address(), &ada.token).await;
    let join = json!({ "action": "subscribe", "room": room(&container) });
    slow.send(&join.to_string()).await;
    assert_eq!(member.until("presence_join").await["userId"], json!(ada.id));
    bed.connections_are(2).await;
    // 60 MB: more than the operating system keeps for a socket that is not read.
    let text = "a".repeat(60_000);
    for _ in 0..1_000 {
        bed.announce(&container, &text).await;
        member.until("announcement").await;
    }
    bed.connections_are(1).await;
    assert_eq!(bed.closes(), [(4408, 1)]);
}
