//! Tests of RFC 6455, sections 5 to 7, with raw bytes.

use super::*;

/// Sends bytes on a new connection, and returns its close code and reason.
async fn close_of(bytes: &[u8]) -> String {
    let mut peer = Peer::alice().await;
    peer.raw(bytes).await;
    let closed = peer.closed().await;
    peer.finish().await;
    closed
}

/// Sends bytes on a new connection, and returns the server's first answer.
async fn answer(bytes: &[u8]) -> String {
    let mut peer = Peer::alice().await;
    peer.raw(bytes).await;
    let reply = peer.next_event().await;
    peer.finish().await;
    reply
}

/// Returns the frames of a fragmented message.
fn fragments(parts: &[&[u8]]) -> Vec<u8> {
    let last = parts.len() - 1;
    let part = |(i, part): (usize, &&[u8])| {
        let opcode = if i == 0 { TEXT } else { 0 };
        frame(if i == last { FIN | opcode } else { opcode }, part)
    };
    parts.iter().enumerate().flat_map(part).collect()
}

#[tokio::test(start_paused = true)]
async fn a_text_message_is_read_in_one_frame_or_in_many() {
    assert_eq!(answer(&frame(FIN | TEXT, b"ping")).await, "pong");
    assert_eq!(answer(&fragments(&[b"pi", b"ng"])).await, "pong");
    assert_eq!(
        answer(&fragments(&[b"", b"p", b"", b"ing", b""])).await,
        "pong"
    );
    let message = br#"{"action":"ping","ref":"r"}"#;
    let bytes: Vec<&[u8]> = message.chunks(1).collect();
    assert_eq!(answer(&fragments(&bytes)).await, "pong r");
}

#[tokio::test(start_paused = true)]
async fn every_length_of_a_payload_is_read() {
    // 125 and 65 535 are the largest lengths of the one-byte and the three-byte form.
    for length in [124, 125, 126, 127, 128, 65_535, 65_536] {
        let mut peer = Peer::alice().await;
        let text = format!(r#"{{"action":"ping"{}}}"#, " ".repeat(length - 17));
        assert_eq!(text.len(), length);
        peer.text(&text).await;
        assert_eq!(peer.next_event().await, "pong");
        peer.finish().await;
    }
    // A server may accept a longer form than the length needs.
    let mut bytes = vec![FIN | TEXT, 0xfe, 0, 4, 0, 0, 0, 0];
    bytes.extend_from_slice(b"ping");
    assert_eq!(answer(&bytes).await, "pong");
}

#[tokio::test(start_paused = true)]
async fn frames_that_arrive_byte_by_byte_are_read() {
    let mut peer = Peer::alice().await;
    for byte in frame(FIN | TEXT, r#"{"action":"ping","ref":"é"}"#.as_bytes()) {
        peer.raw(&[byte]).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(peer.next_event().await, "pong é");
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn control_frames_between_fragments_are_read() {
    let mut bytes = frame(TEXT, b"pi");
    bytes.extend(frame(FIN | PING, b"hello"));
    bytes.extend(frame(FIN | PONG, b""));
    bytes.extend(frame(FIN, b"ng"));
    let mut peer = Peer::alice().await;
    peer.raw(&bytes).await;
    assert_eq!(peer.next().await, Some((FIN | PONG, b"hello".to_vec())));
    assert_eq!(peer.next_event().await, "pong");
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_ping_is_answered_with_its_payload() {
    for payload in [&b""[..], b"x", &[0xff; 125]] {
        let mut peer = Peer::alice().await;
        peer.raw(&frame(FIN | PING, payload)).await;
        assert_eq!(peer.next().await, Some((FIN | PONG, payload.to_vec())));
        peer.finish().await;
    }
    // A pong without a ping is valid.
    let mut bytes = frame(FIN | PONG, b"unasked");
    bytes.extend(frame(FIN | TEXT, b"ping"));
    assert_eq!(answer(&bytes).await, "pong");
}

#[tokio::test(start_paused = true)]
async fn frames_that_violate_the_protocol_close_with_1002() {
    let unmasked = [head(FIN | TEXT, 4, false), b"ping".to_vec()].concat();
    let mut late_start = frame(TEXT, b"a");
    late_start.extend(frame(FIN | TEXT, b"b"));
    for (bytes, fault) in [
        (unmasked, "no mask"),
        (frame(FIN | 0x40 | TEXT, b"ping"), "RSV1"),
        (frame(FIN | 0x20 | TEXT, b"ping"), "RSV2"),
        (frame(FIN | 0x10 | TEXT, b"ping"), "RSV3"),
        (frame(FIN | 0x40 | PING, b""), "RSV1 on a control frame"),
        (frame(FIN | 3, b""), "reserved data opcode 3"),
        (frame(FIN | 7, b""), "reserved data opcode 7"),
        (frame(FIN | 0xb, b""), "reserved control opcode 11"),
        (frame(FIN | 0xf, b""), "reserved control opcode 15"),
        (frame(PING, b""), "a ping in fragments"),
        (frame(PONG, b""), "a pong in fragments"),
        (frame(CLOSE, b""), "a close in fragments"),
        (frame(FIN | PING, &[0; 126]), "a long ping"),
        (frame(FIN | PONG, &[0; 126]), "a long pong"),
        (frame(FIN | CLOSE, &[3; 126]), "a long close"),
        (frame(FIN, b"x"), "a continuation without a first fragment"),
        (
            frame(0, b"x"),
            "a fragmented continuation without a first fragment",
        ),
        (late_start, "a message within another"),
        (frame(FIN | CLOSE, &[3]), "half a close code"),
    ] {
        assert_eq!(close_of(&bytes).await, "1002 protocol", "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn text_that_is_not_utf8_closes_with_1007() {
    for bytes in [
        &b"\xff"[..],
        b"\xc3",             // cut off
        b"\xc0\xaf",         // overlong
        b"\xed\xa0\x80",     // a surrogate
        b"\xf4\x90\x80\x80", // above U+10FFFF
        b"ping\x80",
    ] {
        assert_eq!(
            close_of(&frame(FIN | TEXT, bytes)).await,
            "1007 invalid UTF-8"
        );
        let halves = fragments(&[&bytes[..bytes.len() / 2], &bytes[bytes.len() / 2..]]);
        assert_eq!(close_of(&halves).await, "1007 invalid UTF-8");
    }
    let mut reason = 1000_u16.to_be_bytes().to_vec();
    reason.extend_from_slice(b"\xff");
    assert_eq!(
        close_of(&frame(FIN | CLOSE, &reason)).await,
        "1007 invalid UTF-8"
    );
}

#[tokio::test(start_paused = true)]
async fn a_character_may_be_split_over_fragments() {
    let text = r#"{"action":"ping","ref":"é€😀"}"#.as_bytes();
    let single: Vec<&[u8]> = text.chunks(1).collect();
    assert_eq!(answer(&fragments(&single)).await, "pong é€😀");
    for at in 1..text.len() {
        let (one, other) = text.split_at(at);
        assert_eq!(answer(&fragments(&[one, other])).await, "pong é€😀");
    }
}

#[tokio::test(start_paused = true)]
async fn a_binary_message_closes_with_1003() {
    assert_eq!(
        close_of(&frame(FIN | BINARY, b"ping")).await,
        "1003 Binary not supported"
    );
    let mut bytes = frame(BINARY, b"pi");
    bytes.extend(frame(FIN, b"ng"));
    assert_eq!(close_of(&bytes).await, "1003 Binary not supported");
}

#[tokio::test(start_paused = true)]
async fn a_message_above_the_limit_closes_with_1009() {
    const TOO_LARGE: &str = "1009 Message too large";
    assert_eq!(
        close_of(&frame(FIN | TEXT, &vec![b' '; 65_537])).await,
        TOO_LARGE
    );
    // The header alone is enough: the server does not wait for the rest.
    let head = [head(FIN | TEXT, 65_537, true), vec![0; 4]].concat();
    assert_eq!(close_of(&head).await, TOO_LARGE);
    // Lengths of 2^63 − 1 and, with the forbidden high bit, 2^64 − 1.
    for first_length_byte in [0x7f, 0xff] {
        let mut huge = vec![FIN | TEXT, 0xff, first_length_byte];
        huge.extend([0xff; 7]);
        huge.extend([0; 4]);
        assert_eq!(close_of(&huge).await, TOO_LARGE);
    }
    // Fragments are counted together.
    let part = vec![b' '; 40_000];
    assert_eq!(close_of(&fragments(&[&part, &part])).await, TOO_LARGE);
    let parts = vec![&b"1"[..]; 65_537];
    assert_eq!(close_of(&fragments(&parts)).await, TOO_LARGE);
}

#[tokio::test(start_paused = true)]
async fn a_close_frame_is_answered_with_its_code() {
    let close = |code: u16, reason: &str| {
        let mut payload = code.to_be_bytes().to_vec();
        payload.extend_from_slice(reason.as_bytes());
        frame(FIN | CLOSE, &payload)
    };
    for code in [1000, 1001, 1011, 3000, 4999] {
        assert_eq!(close_of(&close(code, "bye")).await, format!("{code} bye"));
    }
    // RFC 6455 forbids these codes in a close frame.
    for code in [0, 999, 1004, 1005, 1006, 1015, 2999] {
        assert!(
            close_of(&close(code, "")).await.starts_with("1002"),
            "{code}"
        );
    }
    let mut peer = Peer::alice().await;
    peer.raw(&frame(FIN | CLOSE, b"")).await;
    assert_eq!(peer.next().await, Some((FIN | CLOSE, vec![])));
    // The server closes the stream, and reads nothing after the close frame.
    assert_eq!(peer.next().await, None);
    let (_, meter) = peer.finish().await;
    // The meter counts no close that the client began.
    assert!(meter.read().closes.is_empty());
}

#[tokio::test(start_paused = true)]
async fn events_before_a_close_frame_are_executed_and_later_ones_are_not() {
    let mut peer = Peer::alice().await;
    peer.text(&event("echo", 1, "1")).await;
    peer.raw(&frame(FIN | CLOSE, b"")).await;
    peer.text(&event("echo", 2, "2")).await;
    peer.closed().await;
    let (node, _) = peer.finish().await;
    assert_eq!(node.calls(), ["start echo 1", "end echo 1", "ended"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_leaves_no_state() {
    for bytes in [
        &b""[..],
        &[FIN | TEXT],
        &frame(FIN | TEXT, b"pi")[..6],
        &frame(TEXT, b"pi"),
    ] {
        let mut peer = Peer::alice().await;
        peer.text(r#"{"action":"subscribe","room":"a:b"}"#).await;
        assert_eq!(peer.next_event().await, "subscribed a:b");
        peer.raw(bytes).await;
        // `finish` asserts that no room, connection or queued byte is left.
        peer.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_server_waits_for_the_answer_to_its_close_frame() {
    let mut peer = Peer::alice().await;
    peer.connection.close(Close::Forbidden);
    assert_eq!(peer.closed().await, "4403 forbidden");
    // Frames that the client sent before its close frame are read and dropped.
    peer.text(&event("echo", 1, "1")).await;
    peer.raw(&frame(FIN | CLOSE, &4403_u16.to_be_bytes())).await;
    let before = Instant::now();
    assert_eq!(peer.next().await, None);
    assert_eq!(before.elapsed(), Duration::ZERO);
    let (node, meter) = peer.finish().await;
    assert_eq!(node.calls(), ["ended"]);
    assert_eq!(meter.read().closes, [(Close::Forbidden, 1)]);
    // After two seconds without an answer the server ends the connection.
    let mut peer = Peer::alice().await;
    peer.connection.close(Close::Forbidden);
    assert_eq!(peer.closed().await, "4403 forbidden");
    let before = Instant::now();
    assert_eq!((&mut peer.served).await.unwrap(), Some(Close::Forbidden));
    assert_eq!(before.elapsed(), seconds(2));
}
