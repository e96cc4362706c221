//! Limits, heartbeat and slow clients.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_401st_frame_of_a_burst_is_discarded_and_reported() {
    let mut peer = Peer::alice().await;
    let frames: Vec<u8> = (1..=401)
        .flat_map(|i| frame(FIN | TEXT, event("echo", i, "1").as_bytes()))
        .collect();
    peer.raw(&frames).await;
    for i in 1..=400 {
        assert_eq!(peer.next_event().await, format!("ack {i} ok"));
    }
    let reply = peer.json().await;
    assert_eq!(reply["code"], "rate_limited");
    assert_eq!(
        (&reply["ackId"], &reply["retryAfterMs"]),
        (&401.into(), &1_000.into())
    );
    assert_eq!(peer.node.count("start echo 1"), 400);
    // The limit refills by 20 frames per second.
    tokio::time::sleep(seconds(1)).await;
    for i in 0..21 {
        peer.text(&event("echo", i, "2")).await;
    }
    for i in 0..20 {
        assert_eq!(peer.next_event().await, format!("ack {i} ok"));
    }
    assert_eq!(peer.next_event().await, "ack 20 rate_limited error");
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_frame_counts_and_has_its_own_rate_limit_error() {
    let mut peer = Peer::connected(Options {
        limits: Limits {
            frames_burst: 1,
            frames_per_second: 1,
            ..Limits::default()
        },
        ..Options::default()
    })
    .await;
    peer.raw(&frame(FIN | PING, b"")).await;
    assert_eq!(peer.next().await, Some((FIN | PONG, vec![])));
    for (sent, answer) in [
        (
            r#"{"action":"subscribe","room":"a:b","ref":"r"}"#,
            "subscribe_denied rate_limited r a:b",
        ),
        (
            r#"{"action":"event","event":"echo","ackId":1}"#,
            "ack 1 rate_limited error",
        ),
        (
            r#"{"action":"event","event":"echo"}"#,
            "ws:error rate_limited echo",
        ),
        (
            r#"{"type":"auth","token":"alice"}"#,
            "ws:error rate_limited auth",
        ),
        ("ping", "ws:error rate_limited ping"),
    ] {
        peer.text(sent).await;
        assert_eq!(peer.next_event().await, answer);
    }
    let (node, _) = peer.finish().await;
    assert_eq!(node.calls(), ["ended"]);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_discarded_frames_within_ten_seconds_close_the_connection() {
    let mut peer = Peer::alice().await;
    let frames = frame(FIN | TEXT, b"ping").repeat(500);
    peer.raw(&frames).await;
    for _ in 0..400 {
        assert_eq!(peer.next_event().await, "pong");
    }
    assert_eq!(peer.closed().await, "1008 rate limit exceeded");
    peer.finish().await;
    // Fewer than 100 within ten seconds, three times in a row, do not close it.
    let mut peer = Peer::alice().await;
    for round in 0..3 {
        let n = if round == 0 { 499 } else { 310 };
        peer.raw(&frame(FIN | TEXT, b"ping").repeat(n)).await;
        let mut refused = 0;
        for _ in 0..n {
            refused += usize::from(peer.next_event().await != "pong");
        }
        assert!((90..100).contains(&refused), "{refused}");
        tokio::time::sleep(seconds(11)).await;
    }
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_may_close_the_connection_at_the_first_frame_over_the_limit() {
    let mut peer = Peer::connected(Options {
        limits: Limits {
            on_exceeded: OnExceeded::Close,
            ..Limits::default()
        },
        ..Options::default()
    })
    .await;
    peer.raw(&frame(FIN | TEXT, b"ping").repeat(401)).await;
    for _ in 0..400 {
        assert_eq!(peer.next_event().await, "pong");
    }
    assert_eq!(peer.closed().await, "1008 rate limit exceeded");
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn the_tenth_unreadable_frame_within_a_minute_closes_the_connection() {
    let mut peer = Peer::alice().await;
    for i in 0..10 {
        let (text, code) = if i % 2 == 0 {
            ("{", "malformed_json")
        } else {
            ("{}", "invalid_frame")
        };
        peer.text(text).await;
        assert_eq!(peer.next_event().await, format!("ws:error {code}"));
    }
    assert_eq!(peer.closed().await, "4400 bad frames");
    peer.finish().await;
    // An unknown action does not count as an unreadable frame, and nine unreadable frames within a
    // minute do not close the connection.
    let mut peer = Peer::alice().await;
    for i in 0..60 {
        peer.text(if i % 7 == 0 { "{" } else { r#"{"action":"x"}"# })
            .await;
        peer.next_event().await;
        tokio::time::sleep(seconds(1)).await;
    }
    peer.text("ping").await;
    assert_eq!(peer.next_event().await, "pong");
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_answers_no_ping_is_closed_after_forty_seconds() {
    let before = Instant::now();
    let mut peer = Peer::alice().await;
    assert_eq!(peer.next().await, Some((FIN | PING, vec![])));
    assert_eq!(before.elapsed(), seconds(30));
    assert_eq!(peer.closed().await, "1001 Heartbeat timeout");
    assert_eq!(before.elapsed(), seconds(40));
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_anything_is_alive() {
    let mut peer = Peer::alice().await;
    // The client answers every ping.
    for _ in 0..3 {
        assert_eq!(peer.next().await, Some((FIN | PING, vec![])));
        peer.raw(&frame(FIN | PONG, b"")).await;
    }
    // The client answers no ping, but sends events, to which the server sends no response.
    for _ in 0..40 {
        peer.text(r#"{"action":"event","event":"echo"}"#).await;
        tokio::time::sleep(seconds(9)).await;
    }
    assert!(!peer.connection.is_closing());
    // Bytes of an incomplete frame also count as activity.
    for byte in [FIN | TEXT, 0x84, 0, 0, 0, 0] {
        peer.raw(&[byte]).await;
        tokio::time::sleep(seconds(9)).await;
    }
    peer.raw(b"ping").await;
    loop {
        match peer.next().await {
            Some((first, _)) if first == FIN | PING => {}
            Some((first, payload)) => {
                assert_eq!(
                    (first, &*payload),
                    (FIN | TEXT, &br#"{"event":"pong"}"#[..])
                );
                break;
            }
            None => panic!("closed"),
        }
    }
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn no_ping_is_sent_while_the_server_sends_other_frames() {
    let mut peer = Peer::alice().await;
    for _ in 0..10 {
        tokio::time::sleep(seconds(25)).await;
        peer.connection
            .send(ServerFrame::presence_join("a:b", "bob"));
        let (first, _) = peer.next().await.unwrap();
        assert_eq!(first, FIN | TEXT);
    }
    peer.finish().await;
}

fn large(event: &str) -> ServerFrame {
    ServerFrame::ephemeral(event, "a:b", &format!("\"{}\"", "x".repeat(1_000)), None)
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_loses_ephemeral_frames_first_and_then_the_connection() {
    let mut peer = Peer::connected(Options {
        buffer: 2_048,
        ..Options::default()
    })
    .await;
    // The socket buffers hold a few frames; the others wait in the queue.
    let mut queued = 0;
    while peer.connection.push(
        large("typing"),
        Class::ephemeral("a:b", "typing", &queued.to_string()),
    ) == Pushed::Queued
        && queued < 300
    {
        queued += 1;
        tokio::task::yield_now().await;
    }
    assert_eq!(
        queued, 300,
        "a full queue drops older ephemeral frames, not the new one"
    );
    let dropped = peer.meter.read().dropped_ephemeral;
    assert!(dropped > 30, "{dropped}");
    // Durable frames evict the ephemeral ones from the queue.
    for _ in 0..256 {
        assert_eq!(peer.connection.send(large("durable")), Pushed::Queued);
    }
    assert!(peer.meter.read().queue_bytes < 1 << 20);
    assert_eq!(
        peer.connection
            .push(large("typing"), Class::ephemeral("a:b", "typing", "x")),
        Pushed::Dropped
    );
    assert_eq!(peer.connection.send(large("durable")), Pushed::Closed);
    assert_eq!(peer.connection.send(large("durable")), Pushed::Closed);
    assert_eq!((&mut peer.served).await.unwrap(), Some(Close::SlowConsumer));
    assert_eq!(peer.meter.read().closes, [(Close::SlowConsumer, 1)]);
    assert_eq!(peer.meter.read().queue_bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_bounded_in_bytes_too() {
    let mut peer = Peer::connected(Options {
        buffer: 2_048,
        ..Options::default()
    })
    .await;
    let frame = || {
        let payload = format!("\"{}\"", "x".repeat(60_000));
        ServerFrame::ephemeral("big", "a:b", &payload, None)
    };
    let mut taken = 0;
    while peer.connection.send(frame()) == Pushed::Queued {
        taken += 1;
        assert!(peer.meter.read().queue_bytes <= 1 << 20);
        tokio::task::yield_now().await;
    }
    assert!((17..20).contains(&taken), "{taken}");
    assert_eq!((&mut peer.served).await.unwrap(), Some(Close::SlowConsumer));
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_takes_no_byte_for_ten_seconds_is_closed() {
    let mut peer = Peer::connected(Options {
        buffer: 2_048,
        ..Options::default()
    })
    .await;
    let before = Instant::now();
    for _ in 0..10 {
        peer.connection.send(large("durable"));
    }
    let why = (&mut peer.served).await.unwrap();
    assert_eq!(why, Some(Close::SlowConsumer));
    // Ten seconds without progress, and two for a close frame that cannot be sent either.
    assert_eq!(before.elapsed(), seconds(12));
    // A client that reads one frame every nine seconds stays connected.
    let mut peer = Peer::connected(Options {
        buffer: 2_048,
        ..Options::default()
    })
    .await;
    for _ in 0..10 {
        peer.connection.send(large("durable"));
    }
    for _ in 0..6 {
        tokio::time::sleep(seconds(9)).await;
        assert_eq!(peer.next_event().await, "durable a:b");
    }
    assert!(!peer.connection.is_closing());
    peer.finish().await;
}
