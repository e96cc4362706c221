//! Authentication of a live connection.

use super::*;

fn auth(token: &str) -> String {
    format!(r#"{{"type":"auth","token":"{token}","ref":"r"}}"#)
}

#[tokio::test(start_paused = true)]
async fn the_first_frame_names_the_user_of_the_connection() {
    let mut peer = Peer::new(Options::default());
    let first = peer.json().await;
    assert_eq!(
        first,
        serde_json::json!({
            "event": "connected", "id": "c1", "protocol": 1, "userId": "alice", "pending": false,
            "heartbeatMs": 30_000, "maxFrameBytes": 65_536,
        })
    );
    let mut peer = Peer::new(Options {
        token: None,
        ..Options::default()
    });
    let first = peer.json().await;
    assert_eq!(
        (&first["userId"], &first["pending"]),
        (&Value::Null, &Value::Bool(true))
    );
    let mut peer = Peer::new(Options {
        token: None,
        anonymous: true,
        ..Options::default()
    });
    let first = peer.json().await;
    assert_eq!(
        (&first["userId"], &first["pending"]),
        (&Value::Null, &Value::Bool(false))
    );
}

#[tokio::test(start_paused = true)]
async fn a_pending_connection_executes_only_auth_and_ping() {
    let mut peer = Peer::pending().await;
    for (sent, answer) in [
        ("ping", "pong"),
        (
            r#"{"action":"subscribe","room":"a:b","ref":"r"}"#,
            "ws:error UNAUTHENTICATED r subscribe",
        ),
        (
            r#"{"action":"event","event":"echo"}"#,
            "ws:error UNAUTHENTICATED echo",
        ),
        (
            r#"{"action":"event","event":"echo","ackId":1}"#,
            "ack 1 unauthorized error",
        ),
        (&auth("alice"), "auth:authenticated r"),
        (r#"{"action":"subscribe","room":"c:d"}"#, "subscribed c:d"),
    ] {
        peer.text(sent).await;
        assert_eq!(peer.next_event().await, answer, "{sent}");
    }
    let (node, _) = peer.finish().await;
    assert_eq!(node.calls(), ["bound alice", "subscribe c:d", "ended"]);
}

#[tokio::test(start_paused = true)]
async fn frames_sent_together_with_auth_are_executed_with_its_identity() {
    let mut peer = Peer::pending().await;
    let frames = [
        frame(FIN | TEXT, auth("alice").as_bytes()),
        frame(FIN | TEXT, br#"{"action":"subscribe","room":"a:b"}"#),
    ];
    peer.raw(&frames.concat()).await;
    assert_eq!(peer.next_event().await, "auth:authenticated r");
    assert_eq!(peer.next_event().await, "subscribed a:b");
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn the_third_bad_token_closes_the_connection() {
    let mut peer = Peer::pending().await;
    for token in ["bad", ""] {
        peer.text(&auth(token)).await;
        assert_eq!(peer.next_event().await, "auth:error INVALID_CREDENTIALS r");
    }
    // An unavailable session store does not count as a bad token.
    *peer.node.down.lock() = true;
    for _ in 0..5 {
        peer.text(&auth("alice")).await;
        assert_eq!(peer.next_event().await, "auth:error AUTH_UNAVAILABLE r");
    }
    *peer.node.down.lock() = false;
    peer.text(&auth("bad")).await;
    assert_eq!(peer.next_event().await, "auth:error INVALID_CREDENTIALS r");
    assert_eq!(peer.closed().await, "4401 auth_failed");
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn ten_seconds_without_authentication_close_the_connection() {
    let before = Instant::now();
    let mut peer = Peer::pending().await;
    // Frames do not extend the time.
    for _ in 0..9 {
        tokio::time::sleep(seconds(1)).await;
        peer.text("ping").await;
        assert_eq!(peer.next_event().await, "pong");
    }
    assert_eq!(peer.closed().await, "4401 auth_timeout");
    assert_eq!(before.elapsed(), seconds(10));
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn an_identity_is_refreshed_only_by_a_token_of_the_same_user() {
    let mut peer = Peer::alice().await;
    peer.text(&auth("bob")).await;
    assert_eq!(
        peer.next_event().await,
        "auth:error IDENTITY_ALREADY_BOUND r"
    );
    peer.text(&auth("bad")).await;
    assert_eq!(peer.next_event().await, "auth:error INVALID_CREDENTIALS r");
    peer.text(&auth("alice/60000")).await;
    let reply = peer.json().await;
    assert_eq!(reply["event"], "auth:authenticated");
    assert_eq!(reply["refreshed"], true);
    let expires = Timestamp::from_millis(START + 60_000).to_string();
    assert_eq!(reply["expiresAt"], expires);
    let (node, _) = peer.finish().await;
    assert_eq!(node.calls(), ["bound alice", "ended"]);
}

#[tokio::test(start_paused = true)]
async fn an_anonymous_connection_accepts_a_token_only_before_its_first_room() {
    let options = || Options {
        token: None,
        anonymous: true,
        ..Options::default()
    };
    let mut peer = Peer::connected(options()).await;
    // A refused join does not fix the connection as anonymous.
    peer.text(r#"{"action":"subscribe","room":"private:b"}"#)
        .await;
    assert_eq!(
        peer.next_event().await,
        "subscribe_denied not_found private:b"
    );
    peer.text(&auth("alice")).await;
    assert_eq!(peer.next_event().await, "auth:authenticated r");
    peer.finish().await;
    let mut peer = Peer::connected(options()).await;
    peer.text(r#"{"action":"subscribe","room":"a:b"}"#).await;
    assert_eq!(peer.next_event().await, "subscribed a:b");
    peer.text(&auth("alice")).await;
    assert_eq!(
        peer.next_event().await,
        "auth:error IDENTITY_ALREADY_BOUND r"
    );
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn an_expiring_token_causes_a_notice_and_a_close_after_the_grace_period() {
    let before = Instant::now();
    let mut peer = Peer::connected(Options {
        token: Some("alice/90000"),
        ..Options::default()
    })
    .await;
    let reply = peer.json().await;
    assert_eq!(reply["event"], "auth:expiring");
    assert_eq!(before.elapsed(), seconds(30));
    // After a refresh within the grace period the connection stays open.
    peer.idle(seconds(85)).await;
    peer.text(&auth("alice/180000")).await;
    assert_eq!(peer.next_event().await, "auth:authenticated r");
    let reply = peer.json().await;
    assert_eq!(reply["event"], "auth:expiring");
    assert_eq!(before.elapsed(), seconds(120));
    loop {
        match peer.next().await {
            Some((first, payload)) if first == FIN | PING => {
                peer.raw(&frame(FIN | PONG, &payload)).await;
            }
            Some((first, payload)) if first == FIN | CLOSE => {
                assert_eq!(&payload[2..], b"token_expired");
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(before.elapsed(), seconds(210));
    peer.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_refreshed_outside_of_the_socket_extends_the_connection() {
    let mut peer = Peer::connected(Options {
        token: Some("alice/90000"),
        ..Options::default()
    })
    .await;
    assert!(!peer.connection.refresh(identity("bob/900000").unwrap()));
    assert!(peer.connection.refresh(identity("alice/900000").unwrap()));
    let before = Instant::now();
    let reply = peer.json().await;
    assert_eq!(reply["event"], "auth:authenticated");
    assert_eq!(reply["refreshed"], true);
    let reply = peer.json().await;
    assert_eq!(reply["event"], "auth:expiring");
    assert_eq!(before.elapsed(), seconds(840));
    let (node, _) = peer.finish().await;
    assert_eq!(node.calls(), ["bound alice", "ended"]);
}
