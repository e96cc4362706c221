//! Tests with hostile clients: each frame has an answer or ends the connection, and the memory use
//! is bounded.

use super::*;

#[tokio::test(start_paused = true)]
async fn references_of_60_kilobytes_have_short_answers() {
    let mut peer = Peer::alice().await;
    let long = "x".repeat(60_000);
    for text in [
        format!(r#"{{"action":"ping","ref":"{long}"}}"#),
        format!(r#"{{"action":"event","event":"echo","ackId":"{long}"}}"#),
        format!(r#"{{"action":"event","event":"{long}","ackId":1}}"#),
        format!(r#"{{"action":"{long}"}}"#),
        format!(r#"{{"action":"ping","{long}":1}}"#),
    ] {
        peer.text(&text).await;
        let answer = peer.json().await.to_string();
        assert!(answer.len() < 512, "{answer}");
    }
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_pings_closes_with_1008() {
    for opcode in [PING, PONG] {
        let mut peer = Peer::alice().await;
        let flood = frame(FIN | opcode, &[7; 125]).repeat(600);
        peer.raw(&flood).await;
        assert_eq!(peer.closed().await, "1008 rate limit exceeded");
        peer.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn pings_of_a_client_that_reads_nothing_use_little_memory() {
    let mut peer = Peer::connected(Options {
        buffer: 256,
        ..Options::default()
    })
    .await;
    let flood = frame(FIN | PING, &[7; 125]).repeat(600);
    let _ = tokio::time::timeout(seconds(60), peer.raw(&flood)).await;
    let why = (&mut peer.served).await.unwrap();
    assert_eq!(why, Some(Close::RateLimited));
    assert_eq!(peer.meter.read().queue_bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn fragments_of_one_byte_make_a_message_up_to_the_limit() {
    let mut peer = Peer::alice().await;
    let text = format!(r#"{{"action":"ping"{}}}"#, " ".repeat(65_536 - 17));
    let bytes = text.as_bytes();
    let last = bytes.len() - 1;
    let fragments: Vec<u8> = bytes
        .iter()
        .enumerate()
        .flat_map(|(i, byte)| {
            let opcode = if i == 0 { TEXT } else { 0 };
            frame(if i == last { FIN | opcode } else { opcode }, &[*byte])
        })
        .collect();
    peer.raw(&fragments).await;
    assert_eq!(peer.next_event().await, "pong");
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn an_endless_series_of_empty_fragments_closes_the_connection() {
    let mut peer = Peer::alice().await;
    peer.raw(&frame(TEXT, b"")).await;
    let empty = frame(0, b"").repeat(10_000);
    for _ in 0..20 {
        peer.raw(&empty).await;
    }
    assert_eq!(peer.closed().await, "1008 rate limit exceeded");
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn subscribing_and_unsubscribing_leaves_no_state() {
    let mut peer = Peer::alice().await;
    for i in 0..150 {
        let room = format!("a:{i}");
        peer.text(&format!(r#"{{"action":"subscribe","room":"{room}"}}"#))
            .await;
        assert_eq!(peer.next_event().await, format!("subscribed {room}"));
        peer.text(&format!(r#"{{"action":"unsubscribe","room":"{room}"}}"#))
            .await;
        assert_eq!(peer.next_event().await, format!("unsubscribed {room}"));
    }
    assert!(peer.node.rooms.lock().is_empty());
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn waiting_frames_are_bounded_in_bytes() {
    let mut peer = Peer::connected(Options {
        buffer: 1_024,
        ..Options::default()
    })
    .await;
    peer.text(&event("wait", 0, "9000")).await;
    let text = event("echo", 1, &format!("\"{}\"", "x".repeat(60_000)));
    let mut sent = 0;
    while tokio::time::timeout(Duration::from_millis(50), peer.text(&text))
        .await
        .is_ok()
    {
        sent += 1;
        assert!(sent < 64, "the server stops reading");
    }
    assert!(sent < 8, "{sent}");
}

#[tokio::test(start_paused = true)]
async fn random_bytes_end_every_connection_with_a_code() {
    // A simple generator with a fixed seed: the numbers are equal in each run.
    let mut state: u32 = 9;
    let mut random = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    for _ in 0..200 {
        let mut peer = Peer::alice().await;
        let bytes: Vec<u8> = (0..300).map(|_| random()).collect();
        peer.raw(&bytes).await;
        peer.raw(&frame(FIN | CLOSE, b"")).await;
        let io = &mut peer.io;
        // The client closes its side, so that an incomplete frame ends the connection too.
        io.shutdown().await.unwrap();
        let mut rest = Vec::new();
        io.read_to_end(&mut rest).await.unwrap();
        peer.finish().await;
    }
}
