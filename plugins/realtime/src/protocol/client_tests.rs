//! Tests of the frames that clients may send, and of the errors for all other texts.

use proptest::prelude::*;

use super::*;

fn good(text: &str) -> ClientFrame {
    ClientFrame::parse(text).unwrap_or_else(|refused| panic!("{text}: {:?}", refused.error))
}

fn bad(text: &str) -> Refused {
    match ClientFrame::parse(text) {
        Ok(frame) => panic!("{text} is accepted as {frame:?}"),
        Err(refused) => *refused,
    }
}

/// Returns the code and the paths of a refusal.
fn why(text: &str) -> String {
    let error = bad(text).error;
    let details: Vec<String> = error
        .details()
        .iter()
        .map(|problem| format!("{}:{}", problem.path, problem.code))
        .collect();
    format!("{} {}", error.code().as_str(), details.join(" "))
}

#[test]
fn every_kind_of_frame_is_read() {
    assert_eq!(good("ping"), ClientFrame::Ping { reference: None });
    let reference = Some("r".to_owned());
    assert_eq!(
        good(r#"{"action":"ping","ref":"r"}"#),
        ClientFrame::Ping {
            reference: reference.clone()
        }
    );
    assert_eq!(
        good(r#" {"ref":"r","room":"a:b","since":{"offset":7,"epoch":"e"},"action":"subscribe"} "#),
        ClientFrame::Subscribe {
            room: "a:b".to_owned(),
            since: Some(Position::new("e", 7)),
            reference: reference.clone(),
        }
    );
    assert_eq!(
        good(r#"{"action":"unsubscribe","room":"a:b"}"#),
        ClientFrame::Unsubscribe {
            room: "a:b".to_owned(),
            reference: None
        }
    );
    assert_eq!(
        good(r#"{"action":"presence","room":"a:b","ref":"r"}"#),
        ClientFrame::Presence {
            room: "a:b".to_owned(),
            reference
        }
    );
    let ClientFrame::Recover { rooms, .. } = good(
        r#"{"action":"recover","rooms":[{"room":"a:b","epoch":"e","offset":0},{"room":"c:d","epoch":"f","offset":18446744073709551616}]}"#,
    ) else {
        panic!("not a recover");
    };
    assert_eq!(rooms[0].since, Position::new("e", 0));
    assert_eq!(rooms[1].since.offset, u64::MAX);
    let ClientFrame::Auth { token, .. } = good(r#"{"type":"auth","token":"secret"}"#) else {
        panic!("not an auth");
    };
    assert_eq!(token.expose(), "secret");
    assert!(!format!("{token:?}").contains("secret"));
}

#[test]
fn the_payload_of_an_event_is_unchanged() {
    let ClientFrame::Event(call) = good(
        r#"{"action":"event","event":"pin","room":"a:b","p\u0061yload":{ "n": 1.0, "big": 12345678901234567890 },"ackId":-7,"idempotencyKey":"k"}"#,
    ) else {
        panic!("not an event");
    };
    assert_eq!(
        call.payload.as_deref(),
        Some(r#"{ "n": 1.0, "big": 12345678901234567890 }"#)
    );
    assert_eq!(call.ack_id, Some(AckId::Number(-7)));
    assert_eq!(call.idempotency_key.as_deref(), Some("k"));
    let ClientFrame::Event(call) = good(r#"{"action":"event","event":"pin","payload":null}"#)
    else {
        panic!("not an event");
    };
    assert_eq!(call.payload, None);
}

#[test]
fn text_that_is_not_one_strict_json_object_is_malformed() {
    let deep = format!(
        r#"{{"action":"event","event":"e","payload":{}{}}}"#,
        "[".repeat(64),
        "]".repeat(64)
    );
    for text in [
        "",
        "{",
        "pong",
        "ping ",
        r#"{"action":"ping"}{}"#,
        r#"{"action":"ping","action":"ping"}"#,
        r#"{"action":"event","event":"e","payload":{"a":1,"\u0061":2}}"#,
        r#"{"action":"ping","ref":"\ud800"}"#,
        r#"{"action":"event","event":"e","payload":"\udc00\ud800"}"#,
        "{\"action\":\"ping\",\"ref\":\"\u{1}\"}",
        r#"{"action":"event","event":"e","payload":01}"#,
        deep.as_str(),
    ] {
        assert_eq!(why(text), "malformed_json ", "{text}");
    }
    let legal = format!(
        r#"{{"action":"event","event":"e","payload":{}{}}}"#,
        "[".repeat(63),
        "]".repeat(63)
    );
    good(&legal);
}

#[test]
fn all_problems_of_a_frame_are_reported_with_their_paths() {
    for (text, answer) in [
        ("[]", "invalid_frame :type"),
        ("7", "invalid_frame :type"),
        ("{}", "invalid_frame action:required"),
        (r#"{"action":1}"#, "invalid_frame action:type"),
        (r#"{"action":"subscribe"}"#, "invalid_frame room:required"),
        (
            r#"{"action":"subscribe","room":1,"more":2,"ref":"","since":{"epoch":"","offset":1}}"#,
            "invalid_frame more:unknown_field ref:min_length room:type since.epoch:min_length",
        ),
        (
            r#"{"action":"subscribe","room":"r","since":{"epoch":"e","offset":-1}}"#,
            "invalid_frame since.offset:type",
        ),
        (
            r#"{"action":"subscribe","room":"r","since":{"epoch":"e","offset":1.0}}"#,
            "invalid_frame since.offset:type",
        ),
        (
            r#"{"action":"subscribe","room":"r","since":{"epoch":"e","offset":1,"x":1}}"#,
            "invalid_frame since.x:unknown_field",
        ),
        (
            r#"{"action":"recover","rooms":[]}"#,
            "invalid_frame rooms:min_items",
        ),
        (
            r#"{"action":"recover","rooms":[{"room":"r","epoch":"e","offset":1},{"room":"r"}]}"#,
            "invalid_frame rooms[1].epoch:required",
        ),
        (
            r#"{"action":"event","event":"","ackId":1.5,"idempotencyKey":"a b"}"#,
            "invalid_frame ackId:type event:min_length idempotencyKey:format",
        ),
        (
            r#"{"action":"event","event":"e","ackId":9223372036854775808}"#,
            "invalid_frame ackId:type",
        ),
        (r#"{"type":"auth"}"#, "invalid_frame token:required"),
        (
            r#"{"action":"ping","type":"auth","token":"t"}"#,
            "invalid_frame token:unknown_field type:unknown_field",
        ),
    ] {
        assert_eq!(why(text), answer, "{text}");
    }
    for text in [
        r#"{"action":"Subscribe"}"#,
        r#"{"action":"auth"}"#,
        r#"{"type":"ping"}"#,
        r#"{"type":""}"#,
    ] {
        assert_eq!(why(text), "unknown_action ", "{text}");
    }
}

#[test]
fn an_answer_repeats_the_readable_members_of_a_frame() {
    let refused = bad(r#"{"action":"event","event":"pin","ackId":"a","ref":"r","more":1}"#);
    assert_eq!(refused.ack_id, Some(AckId::Text("a".to_owned())));
    assert_eq!(refused.source_event.as_deref(), Some("pin"));
    assert_eq!(refused.reference.as_deref(), Some("r"));
    let refused = bad(r#"{"action":"nonsense","ref":"r"}"#);
    assert_eq!(refused.reference.as_deref(), Some("r"));
    assert_eq!(
        bad(r#"{"action":"presence","ref":"r"}"#)
            .source_event
            .as_deref(),
        Some("presence")
    );
}

#[test]
fn a_hostile_frame_has_a_short_answer() {
    let long = "x".repeat(60_000);
    let many: Vec<String> = (0..5_000).map(|i| format!(",\"m{i}\":0")).collect();
    let many = many.concat();
    for text in [
        format!(r#"{{"action":"ping","ref":"{long}"}}"#),
        format!(r#"{{"action":"{long}"}}"#),
        format!(r#"{{"action":"ping","{long}":1}}"#),
        format!(r#"{{"action":"event","event":"{long}","ackId":"{long}"}}"#),
        format!(r#"{{"action":"ping"{many}}}"#),
        format!(r#"{{"action":"subscribe","room":"r","since":{{"epoch":"{long}","offset":1}}}}"#),
        format!(
            r#"{{"action":"subscribe","room":"r","since":{{"epoch":"e","offset":1,"{long}":1}}}}"#
        ),
        format!(
            r#"{{"action":"recover","rooms":[{}]}}"#,
            vec![r#"{"room":"r","epoch":"e","offset":1}"#; 1_001].join(",")
        ),
    ] {
        let refused = bad(&text);
        let frame = ServerFrame::error(
            &refused.error,
            refused.source_event.as_deref(),
            refused.reference.as_deref(),
        );
        assert!(frame.len() < 4_096, "{}", frame.as_str());
    }
    // Lengths count characters, not bytes.
    good(&format!(
        r#"{{"action":"ping","ref":"{}"}}"#,
        "😀".repeat(64)
    ));
}

proptest! {
    #[test]
    fn no_text_panics(text in r#"(\{|\}|\[|\]|"|:|,|action|event|room|since|\\u[0-9a-f]{4}|ping|[ -~]|\PC){0,40}"#) {
        let _ = ClientFrame::parse(&text);
    }

    /// Two parsers read a payload: the strict one validates it, the other one extracts its text.
    #[test]
    fn the_payload_is_extracted_from_every_valid_frame(json in payload()) {
        let text = format!(r#"{{"action":"event","event":"e","payload":{json}}}"#);
        if let Ok(ClientFrame::Event(call)) = ClientFrame::parse(&text) {
            let expected = (json.trim() != "null").then(|| json.trim());
            prop_assert_eq!(call.payload.as_deref(), expected);
        }
    }
}

fn payload() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just(" true ".to_owned()),
        "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,4})?",
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        Just("\"\\ud83d\\ude00\\u0000\"".to_owned()),
    ];
    leaf.prop_recursive(6, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|list| format!("[ {} ]", list.join(", "))),
            prop::collection::vec(("[a-e\"\\\\]{0,3}", inner), 0..4).prop_map(|members| {
                let members: Vec<String> = members
                    .into_iter()
                    .map(|(key, value)| {
                        format!("{} :{value}", serde_json::to_string(&key).unwrap())
                    })
                    .collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}
