//! Tests of RFC 6455 with raw bytes over TCP: frames, messages, and the end of a connection.

use serde_json::json;

use crate::raw::{BINARY, CLOSE, FIN, PING, PONG, Raw, TEXT, frame, head};
use crate::test_app::{TestApp, User};

const PROTOCOL: (u16, &str) = (1002, "protocol");
const UTF8: (u16, &str) = (1007, "invalid UTF-8");
const TOO_LARGE: (u16, &str) = (1009, "Message too large");

/// Starts an app for many connections of one user.
async fn test_app() -> (TestApp, User) {
    let test_app = TestApp::limited(|limits| {
        limits.handshakes_per_minute = 100_000;
        limits.connections_per_user = 1_000;
    })
    .await;
    let ada = test_app.user("ada").await;
    (test_app, ada)
}

impl Raw {
    /// Waits for the close frame of the server, answers it, and waits for the end of the stream.
    async fn finish_close(mut self, name: &str) -> (u16, String) {
        let closed = self.closed().await;
        let closed = closed.unwrap_or_else(|| panic!("{name}: no close frame"));
        self.bytes(&frame(FIN | CLOSE, &closed.0.to_be_bytes()))
            .await;
        assert_eq!(self.next().await, None, "{name}: bytes after a close frame");
        closed
    }

    /// Asserts that the next frame is the answer to a `ping` with this reference.
    async fn answers(&mut self, reference: &str, name: &str) {
        let pong = self.json().await;
        let expected = json!({ "event": "pong", "ref": reference });
        assert_eq!(pong, expected, "{name}");
    }
}

/// Opens a connection and reads its first frame.
async fn connected(test_app: &TestApp, user: &User) -> Raw {
    let mut raw = Raw::open(test_app.app.address(), &user.token).await;
    assert_eq!(raw.json().await["event"], "connected");
    raw
}

/// Returns the text of a `ping` with a reference.
fn ping(reference: &str) -> String {
    format!(r#"{{"action":"ping","ref":"{reference}"}}"#)
}

/// Returns the frames of a fragmented message.
fn fragments<'a>(first: u8, parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut parts = parts.into_iter().peekable();
    let (mut opcode, mut bytes) = (first, Vec::new());
    while let Some(part) = parts.next() {
        let last = if parts.peek().is_none() { FIN } else { 0 };
        bytes.extend(frame(last | opcode, part));
        opcode = 0;
    }
    bytes
}

/// Returns a frame whose length is encoded as these bytes.
fn with_length(length: &[u8], text: &[u8]) -> Vec<u8> {
    [&[FIN | TEXT], length, &[0; 4], text].concat()
}

fn close(code: u16, reason: &[u8]) -> Vec<u8> {
    frame(FIN | CLOSE, &[&code.to_be_bytes(), reason].concat())
}

#[tokio::test]
async fn messages_are_read_from_any_fragments_and_packets() {
    let (test_app, ada) = test_app().await;
    let text = ping("é€😀");
    let text = text.as_bytes();
    let mut between = frame(TEXT, &text[..9]);
    between.extend(frame(FIN | PING, b""));
    between.extend(frame(FIN | PONG, b"unasked"));
    between.extend(frame(0, &text[9..20]));
    between.extend(frame(FIN | PONG, b""));
    between.extend(frame(FIN, &text[20..]));
    let length = u8::try_from(text.len()).unwrap();
    let long = ping(&"x".repeat(60));
    let padded = format!("{long}{}", " ".repeat(65_536 - long.len()));
    let mut cases = vec![
        ("one frame", frame(FIN | TEXT, text)),
        ("two fragments", fragments(TEXT, [&text[..9], &text[9..]])),
        ("fragments of one byte", fragments(TEXT, text.chunks(1))),
        (
            "empty fragments around the text",
            fragments(TEXT, [b"", &text[..3], b"", &text[3..], b""]),
        ),
        ("control frames between fragments", between),
        (
            "a length of two bytes where one is enough",
            with_length(&[0x80 | 0x7e, 0, length], text),
        ),
        (
            "a length of eight bytes where one is enough",
            with_length(&[0x80 | 0x7f, 0, 0, 0, 0, 0, 0, 0, length], text),
        ),
    ];
    let splits: Vec<_> = (1..text.len())
        .map(|at| fragments(TEXT, [&text[..at], &text[at..]]))
        .collect();
    cases.extend(splits.into_iter().map(|bytes| ("a cut character", bytes)));
    for (name, bytes) in cases {
        let mut raw = connected(&test_app, &ada).await;
        raw.bytes(&bytes).await;
        if name.starts_with("control") {
            assert_eq!(raw.next().await, Some((FIN | PONG, vec![])), "{name}");
        }
        raw.answers("é€😀", name).await;
        raw.bytes(&close(1000, b"")).await;
        assert_eq!(
            raw.finish_close(name).await,
            (1000, String::new()),
            "{name}"
        );
    }
    // One connection accepts all encodings of a frame length, and packets of one byte.
    let mut raw = connected(&test_app, &ada).await;
    for length in [125, 126, 127, 65_535, 65_536] {
        raw.bytes(&frame(FIN | TEXT, &padded.as_bytes()[..length]))
            .await;
        raw.answers(&"x".repeat(60), &length.to_string()).await;
    }
    for byte in frame(FIN | TEXT, text) {
        raw.bytes(&[byte]).await;
    }
    raw.answers("é€😀", "packets of one byte").await;
    for payload in [&b""[..], b"\xff\x00", &[7; 125]] {
        raw.bytes(&frame(FIN | PING, payload)).await;
        assert_eq!(raw.next().await, Some((FIN | PONG, payload.to_vec())));
    }
}

#[tokio::test]
async fn frames_that_violate_the_protocol_end_the_connection() {
    let (test_app, ada) = test_app().await;
    let mut unmasked = frame(FIN | TEXT, b"ping");
    unmasked[1] &= 0x7f;
    let reserved = |bit: u8, opcode: u8| frame(FIN | bit | opcode, b"");
    let after = |mut bytes: Vec<u8>, more: Vec<u8>| {
        bytes.extend(more);
        bytes
    };
    let mut cases = vec![
        ("no mask", unmasked, PROTOCOL),
        ("no mask on a ping", vec![FIN | PING, 0], PROTOCOL),
        ("no mask on a close", vec![FIN | CLOSE, 0], PROTOCOL),
        (
            "a reserved bit in the second fragment",
            after(frame(TEXT, b"pi"), frame(FIN | 0x40, b"ng")),
            PROTOCOL,
        ),
        ("a ping in fragments", frame(PING, b""), PROTOCOL),
        ("a pong in fragments", frame(PONG, b""), PROTOCOL),
        ("a close in fragments", frame(CLOSE, b""), PROTOCOL),
        (
            "a fragment of a ping between fragments",
            after(frame(TEXT, b"pi"), frame(PING, b"")),
            PROTOCOL,
        ),
        (
            "a ping of 126 bytes",
            frame(FIN | PING, &[0; 126]),
            PROTOCOL,
        ),
        (
            "a pong of 126 bytes",
            frame(FIN | PONG, &[0; 126]),
            PROTOCOL,
        ),
        (
            "a close of 126 bytes",
            frame(FIN | CLOSE, &[3; 126]),
            PROTOCOL,
        ),
        (
            "a ping of 65 536 bytes",
            frame(FIN | PING, &vec![0; 65_536]),
            PROTOCOL,
        ),
        (
            "a continuation without a first fragment",
            frame(FIN, b"x"),
            PROTOCOL,
        ),
        (
            "a fragmented continuation without a first fragment",
            frame(0, b"x"),
            PROTOCOL,
        ),
        (
            "a continuation after a message",
            after(frame(FIN | PING, b""), frame(FIN, b"x")),
            PROTOCOL,
        ),
        (
            "a text within a message",
            after(frame(TEXT, b"pi"), frame(FIN | TEXT, b"ping")),
            PROTOCOL,
        ),
        (
            "a binary message within a message",
            after(frame(TEXT, b"pi"), frame(FIN | BINARY, b"ng")),
            PROTOCOL,
        ),
        (
            "a text within a binary message",
            after(frame(BINARY, b"pi"), frame(TEXT, b"ng")),
            PROTOCOL,
        ),
        ("half a close code", frame(FIN | CLOSE, &[3]), PROTOCOL),
    ];
    for bit in [0x40, 0x20, 0x10, 0x70] {
        for opcode in [TEXT, PING, CLOSE] {
            cases.push(("a reserved bit", reserved(bit, opcode), PROTOCOL));
        }
    }
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        cases.push(("a reserved opcode", frame(FIN | opcode, b""), PROTOCOL));
        cases.push((
            "a reserved opcode between fragments",
            after(frame(TEXT, b"pi"), frame(FIN | opcode, b"")),
            PROTOCOL,
        ));
    }
    // Codes that RFC 6455 forbids, and codes that are not defined.
    for code in [
        0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 9999, 65_535,
    ] {
        // The WebSocket library answers with its own text.
        let violation = (1002, "Protocol violation");
        cases.push(("a close code", close(code, b""), violation));
    }
    let binary = (1003, "Binary not supported");
    cases.push(("binary", frame(FIN | BINARY, b"ping"), binary));
    cases.push(("empty binary", frame(FIN | BINARY, b""), binary));
    let parts = fragments(BINARY, [&b"pi"[..], b"ng"]);
    cases.push(("binary in fragments", parts, binary));
    assert_closes(&test_app, &ada, cases).await;
}

#[tokio::test]
async fn text_that_is_not_utf8_ends_the_connection() {
    let (test_app, ada) = test_app().await;
    let mut cases = Vec::new();
    for bytes in [
        &b"\xff"[..],
        b"\x80",                     // without a first byte
        b"\xc3",                     // cut off
        b"\xe2\x82",                 // cut off
        b"\xc0\xaf",                 // longer than necessary
        b"\xe0\x80\xaf",             // longer than necessary
        b"\xed\xa0\x80",             // a surrogate
        b"\xed\xa0\xbd\xed\xb8\x80", // two surrogates
        b"\xf4\x90\x80\x80",         // above U+10FFFF
        b"\xf5\x80\x80\x80",
        b"ping\x80",
        b"\xc3ping",
    ] {
        cases.push(("one frame", frame(FIN | TEXT, bytes), UTF8));
        let (one, other) = bytes.split_at(bytes.len() / 2);
        cases.push(("two frames", fragments(TEXT, [one, other]), UTF8));
        let single = fragments(TEXT, bytes.chunks(1));
        cases.push(("frames of one byte", single, UTF8));
    }
    // The server does not wait for the rest of the message.
    for bytes in [&b"\xff"[..], b"\xc3ping", b"\xed\xa0"] {
        cases.push(("the first fragment", frame(TEXT, bytes), UTF8));
        let mut late = frame(TEXT, b"ping");
        late.extend(frame(0, bytes));
        cases.push(("the second fragment", late, UTF8));
    }
    let mut border = frame(TEXT, b"\xe2\x82");
    border.extend(frame(0, b"\x28"));
    cases.push(("a character that the next fragment breaks", border, UTF8));
    for reason in [&b"\xff"[..], b"\xed\xa0\x80", b"caf\xc3"] {
        cases.push(("the reason of a close frame", close(1000, reason), UTF8));
    }
    assert_closes(&test_app, &ada, cases).await;
}

#[tokio::test]
async fn lengths_above_the_limit_end_the_connection() {
    let (test_app, ada) = test_app().await;
    let large = vec![b' '; 65_537];
    let half = vec![b' '; 40_000];
    let length = |first: u8, rest: u8| {
        let mut bytes = vec![0x80 | 0x7f, first];
        bytes.extend([rest; 7]);
        with_length(&bytes, b"")
    };
    let cases = vec![
        ("one byte too many", frame(FIN | TEXT, &large), TOO_LARGE),
        // The header is enough: the server does not wait for the rest.
        (
            "the head",
            [head(FIN | TEXT, 65_537), vec![0; 4]].concat(),
            TOO_LARGE,
        ),
        ("the largest length", length(0x7f, 0xff), TOO_LARGE),
        ("the high bit", length(0x80, 0), TOO_LARGE),
        ("all bits", length(0xff, 0xff), TOO_LARGE),
        (
            "fragments together",
            fragments(TEXT, [&half[..], &half]),
            TOO_LARGE,
        ),
        (
            "fragments together, before the last",
            [frame(TEXT, &half), frame(0, &half)].concat(),
            TOO_LARGE,
        ),
        (
            "fragments of one byte",
            fragments(TEXT, large.chunks(1)),
            TOO_LARGE,
        ),
        (
            "fragments of binary",
            fragments(BINARY, [&half[..], &half]),
            TOO_LARGE,
        ),
    ];
    assert_closes(&test_app, &ada, cases).await;
}

/// Sends the bytes of each case on a new connection, and asserts the close code and reason.
async fn assert_closes(test_app: &TestApp, user: &User, cases: Vec<(&str, Vec<u8>, (u16, &str))>) {
    for (name, bytes, (code, reason)) in cases {
        let start = &bytes[..bytes.len().min(24)];
        let name = format!("{name}: {start:02x?}");
        let mut raw = connected(test_app, user).await;
        raw.bytes(&bytes).await;
        assert_eq!(
            raw.finish_close(&name).await,
            (code, reason.to_owned()),
            "{name}"
        );
    }
    test_app.wait_for_connections(0).await;
}

#[tokio::test]
async fn a_close_frame_is_echoed_and_later_bytes_are_ignored() {
    let (test_app, ada) = test_app().await;
    for code in [
        1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999,
    ] {
        let mut raw = connected(&test_app, &ada).await;
        raw.bytes(&close(code, "bye é".as_bytes())).await;
        let echo = raw.next().await.expect("a close frame");
        let payload = [&code.to_be_bytes(), "bye é".as_bytes()].concat();
        assert_eq!(echo, (FIN | CLOSE, payload), "{code}");
        assert_eq!(raw.next().await, None, "{code}");
    }
    let longest = [b'r'; 123];
    let mut raw = connected(&test_app, &ada).await;
    raw.bytes(&close(1000, &longest)).await;
    assert_eq!(raw.next().await.expect("a close frame").1[2..], longest);
    let mut raw = connected(&test_app, &ada).await;
    raw.bytes(&frame(FIN | CLOSE, b"")).await;
    assert_eq!(raw.next().await, Some((FIN | CLOSE, vec![])));
    assert_eq!(raw.next().await, None);
    // A close frame may arrive between fragments. The bytes after it have no effect and no answer.
    for before in [vec![], frame(TEXT, b"pi")] {
        let container = test_app.container(&ada, "public").await;
        let mut raw = connected(&test_app, &ada).await;
        let join = json!({ "action": "subscribe", "room": crate::test_app::room(&container) });
        let mut bytes = before;
        bytes.extend(close(1000, b"done"));
        bytes.extend(frame(FIN | TEXT, join.to_string().as_bytes()));
        bytes.extend(frame(FIN | PING, b"late"));
        bytes.extend([0xff; 64]);
        raw.bytes(&bytes).await;
        assert_eq!(
            raw.next().await,
            Some((FIN | CLOSE, [&1000_u16.to_be_bytes()[..], b"done"].concat()))
        );
        assert_eq!(raw.next().await, None);
    }
    test_app.wait_for_connections(0).await;
    assert_eq!(test_app.closes(), [], "the client has closed all of them");
}

#[tokio::test]
async fn text_that_is_not_a_valid_frame_has_an_answer() {
    let (test_app, ada) = test_app().await;
    let mut raw = connected(&test_app, &ada).await;
    for text in [
        r#"{"action":"ping","ref":"\ud800"}"#,
        r#"{"action":"ping","ref":"\udc00\ud800"}"#,
        r#"{"action":"ping","\udfff":1}"#,
        r#"{"action":"event","event":"typing","payload":{"threadId":"\ud83d"}}"#,
        "\u{feff}{\"action\":\"ping\"}",
        "\0",
        "",
    ] {
        raw.send(text).await;
        let answer = raw.json().await;
        assert_eq!(
            (&answer["event"], &answer["code"]),
            (&json!("ws:error"), &json!("malformed_json")),
            "{text:?}"
        );
    }
    raw.send(&ping(r"\ud83d\ude00")).await;
    raw.answers("😀", "a pair of surrogates").await;
}
