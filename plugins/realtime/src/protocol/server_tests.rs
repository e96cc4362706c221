//! Tests of the text of every frame to clients.

use linchpin::{Code, Error, Problem, Timestamp};

use super::*;

const AT: &str = "2026-01-02T03:04:05.000Z";

fn at() -> Timestamp {
    Timestamp::parse(AT).unwrap()
}

#[test]
fn every_frame_has_its_members() {
    let position = Position::new("e", 7);
    let users = [("alice".to_owned(), at())];
    let list = PresenceList {
        users: &users,
        count: 2,
    };
    let ack = AckId::Text("a".to_owned());
    let error = Error::new(Code::RateLimited, "Too many").retry_after(2);
    let invalid = Error::new(INVALID_FRAME, "The frame is not valid")
        .with_details(vec![Problem::new("room", "required", "is required")]);
    let subscribed = Subscribed {
        room: "r",
        position: &position,
        recoverable: true,
        recovered: Some(2),
        reason: None,
        already: false,
        presence: Some(list),
        reference: Some("x"),
    };
    for (frame, text) in [
        (
            ServerFrame::connected(Connected {
                id: "c1",
                user_id: None,
                pending: true,
                heartbeat_ms: 30_000,
                max_frame_bytes: 65_536,
            }),
            r#"{"event":"connected","id":"c1","protocol":1,"userId":null,"pending":true,"heartbeatMs":30000,"maxFrameBytes":65536}"#,
        ),
        (
            ServerFrame::subscribed(subscribed),
            r#"{"event":"subscribed","room":"r","epoch":"e","offset":7,"recoverable":true,"recovered":true,"replayed":2,"presence":{"users":[{"userId":"alice","since":"2026-01-02T03:04:05.000Z"}],"count":2,"truncated":true},"ref":"x"}"#,
        ),
        (
            ServerFrame::subscribed(Subscribed {
                recovered: None,
                reason: Some(ResetReason::OffsetAhead),
                already: true,
                presence: None,
                reference: None,
                ..subscribed
            }),
            r#"{"event":"subscribed","room":"r","epoch":"e","offset":7,"recoverable":true,"recovered":false,"replayed":0,"reason":"offset_ahead","already":true}"#,
        ),
        (
            ServerFrame::subscribe_denied("r", TOO_MANY_ROOMS, None),
            r#"{"event":"subscribe_denied","room":"r","code":"too_many_rooms"}"#,
        ),
        (
            ServerFrame::unsubscribed("r", Some(Code::Forbidden), None),
            r#"{"event":"unsubscribed","room":"r","code":"forbidden"}"#,
        ),
        (
            ServerFrame::reset("r", &position, ResetReason::EpochChanged),
            r#"{"event":"reset","room":"r","epoch":"e","offset":7,"reason":"epoch_changed"}"#,
        ),
        (
            ServerFrame::hidden("r", "threads", "t1", 8),
            r#"{"event":"hidden","room":"r","payload":{"entity":"threads","id":"t1"},"offset":8}"#,
        ),
        (
            ServerFrame::recover_failed("r", ResetReason::Denied),
            r#"{"event":"recover_failed","room":"r","reason":"denied"}"#,
        ),
        (
            ServerFrame::recovered(3, &["r".to_owned()], Some("x")),
            r#"{"event":"recovered","replayed":3,"rooms":["r"],"ref":"x"}"#,
        ),
        (
            ServerFrame::ack(&ack, "null", false, None),
            r#"{"event":"ack","ackId":"a","outcome":"ok","result":null}"#,
        ),
        (
            ServerFrame::ack(&AckId::Number(7), r#"{"a":1}"#, true, Some("x")),
            r#"{"event":"ack","ackId":7,"outcome":"replayed","result":{"a":1},"ref":"x"}"#,
        ),
        (
            ServerFrame::ack_error(&ack, &Error::unauthorized(), None),
            r#"{"event":"ack","ackId":"a","outcome":"error","error":"unauthenticated","code":"unauthorized"}"#,
        ),
        (
            ServerFrame::ack_error(&ack, &Error::forbidden(), None),
            r#"{"event":"ack","ackId":"a","outcome":"error","error":"forbidden","code":"forbidden"}"#,
        ),
        (
            ServerFrame::ack_error(&ack, &error, None),
            r#"{"event":"ack","ackId":"a","outcome":"error","error":"Too many","code":"rate_limited","retryAfterMs":2000}"#,
        ),
        (
            ServerFrame::error(&invalid, Some("pin"), Some("x")),
            r#"{"event":"ws:error","message":"The frame is not valid","code":"invalid_frame","details":[{"path":"room","code":"required","message":"is required"}],"sourceEvent":"pin","ref":"x"}"#,
        ),
        (
            ServerFrame::presence("r", list, None),
            r#"{"event":"presence","room":"r","users":[{"userId":"alice","since":"2026-01-02T03:04:05.000Z"}],"count":2,"truncated":true}"#,
        ),
        (
            ServerFrame::presence_join("r", "alice"),
            r#"{"event":"presence_join","room":"r","userId":"alice"}"#,
        ),
        (
            ServerFrame::authenticated(Some("alice"), Some(at()), true, None),
            r#"{"event":"auth:authenticated","userId":"alice","expiresAt":"2026-01-02T03:04:05.000Z","refreshed":true}"#,
        ),
        (
            ServerFrame::auth_error(AuthError::Unavailable, None),
            r#"{"event":"auth:error","code":"AUTH_UNAVAILABLE"}"#,
        ),
        (
            ServerFrame::auth_expiring(at()),
            r#"{"event":"auth:expiring","expiresAt":"2026-01-02T03:04:05.000Z"}"#,
        ),
        (
            ServerFrame::draining(1_500),
            r#"{"event":"draining","reconnectInMs":1500}"#,
        ),
        (
            ServerFrame::ephemeral("typing", "r", r#"{"threadId":"t"}"#, Some("alice")),
            r#"{"event":"typing","room":"r","payload":{"threadId":"t"},"from":"alice"}"#,
        ),
        (
            UnplacedFrame::new("tasks.created", "r", r#"{"id":"1"}"#, "e1", AT).at(u64::MAX),
            r#"{"event":"tasks.created","room":"r","payload":{"id":"1"},"id":"e1","at":"2026-01-02T03:04:05.000Z","offset":18446744073709551615}"#,
        ),
        (
            UnplacedFrame::truncated("tasks.created", "r", ("tasks", "1"), "e1", AT).at(1),
            r#"{"event":"tasks.created","room":"r","payload":null,"truncated":true,"payload_ref":{"entity":"tasks","id":"1"},"id":"e1","at":"2026-01-02T03:04:05.000Z","offset":1}"#,
        ),
    ] {
        assert_eq!(frame.as_str(), text);
        assert!(serde_json::from_str::<serde_json::Value>(text).is_ok());
    }
}

#[test]
fn names_and_references_of_clients_are_escaped() {
    let hostile = "\",\"event\":\"ack\u{0}\u{2028}\\";
    let frame = ServerFrame::subscribe_denied(hostile, INVALID_ROOM, Some(hostile));
    let back: serde_json::Value = serde_json::from_str(frame.as_str()).unwrap();
    assert_eq!(back["room"], hostile);
    assert_eq!(back["ref"], hostile);
    assert_eq!(back["event"], "subscribe_denied");
}

#[test]
fn cloned_frames_share_their_bytes() {
    let frame = ServerFrame::pong(None);
    assert_eq!(
        frame.clone().as_str().as_ptr(),
        frame.as_str().as_ptr(),
        "clones share their bytes"
    );
}

#[test]
fn the_header_of_a_frame_encodes_its_length() {
    for (length, head) in [
        (0, &[0x81, 0][..]),
        (125, &[0x81, 125]),
        (126, &[0x81, 126, 0, 126]),
        (65_535, &[0x81, 126, 0xff, 0xff]),
        (65_536, &[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
    ] {
        let text = "x".repeat(length);
        let frame = ServerFrame::from_text(&text);
        assert_eq!((frame.as_str(), frame.len()), (&*text, length));
        assert_eq!(frame.bytes()[..], [head, text.as_bytes()].concat()[..]);
    }
}

#[test]
fn stream_blocks_have_no_frame_header() {
    let frame = ServerFrame::from_block("data: 1\n\n".to_owned());
    assert_eq!(frame.as_str(), "data: 1\n\n");
    assert_eq!(frame.into_bytes(), "data: 1\n\n");
}
