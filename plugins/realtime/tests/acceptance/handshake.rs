//! Tests of handshakes.

use serde_json::json;

use crate::raw::{FIN, Raw, TEXT, frame};
use crate::socket::Socket;
use crate::test_app::TestApp;

#[tokio::test]
async fn a_handshake_with_a_bad_part_is_refused() {
    let test_app = TestApp::start().await;
    let address = test_app.app.address();
    let refused = async |path: &str, headers: &[(&str, &str)]| {
        let refused = Socket::handshake(address, path, headers)
            .await
            .err()
            .expect("refused");
        (refused.status, refused.code)
    };
    let answer = |status: u16, code: &str| (status, code.to_owned());
    let version = refused("/__ws", &[("sec-websocket-version", "12")]).await;
    assert_eq!(version, answer(400, "validation_failed"));
    let token = refused("/__ws?token=secret", &[]).await;
    assert_eq!(token, answer(400, "unknown_parameter"));
    let bearer = refused("/__ws", &[("authorization", "Bearer bad")]).await;
    assert_eq!(bearer, answer(401, "unauthorized"));
    let protocol = refused("/__ws", &[("sec-websocket-protocol", "chat")]).await;
    assert_eq!(protocol, answer(400, "validation_failed"));
    let http = linchpin::testing::Client::new(&test_app.app);
    let plain = http.get("/__ws").await.unwrap();
    assert_eq!(plain.status(), 426);
    assert_eq!(plain.json().unwrap()["code"], "upgrade_required");
}

#[tokio::test]
async fn a_cookie_needs_a_page_of_the_app() {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let address = test_app.app.address();
    let cookie = format!("__Host-token={}", ada.token);
    let own = format!("http://{address}");
    let headers = [("cookie", cookie.as_str()), ("origin", own.as_str())];
    let connected = Socket::open(address, &headers).await.next().await;
    assert_eq!(connected["userId"], json!(ada.id));
    assert_eq!(connected["pending"], false);
    assert_eq!(connected["protocol"], 1);
    let bearer = format!("Bearer {}", ada.token);
    for headers in [
        vec![("cookie", cookie.as_str())],
        vec![("cookie", cookie.as_str()), ("origin", "null")],
        vec![("cookie", cookie.as_str()), ("origin", "https://evil.test")],
        vec![
            ("authorization", bearer.as_str()),
            ("origin", "https://evil.test"),
        ],
    ] {
        let refused = Socket::handshake(address, "/__ws", &headers)
            .await
            .err()
            .expect("refused");
        assert_eq!(
            (refused.status, refused.code.as_str()),
            (403, "origin_not_allowed")
        );
    }
    test_app.connect(&ada).await;
}

#[tokio::test]
async fn the_openapi_document_lists_the_endpoints() {
    let test_app = TestApp::start().await;
    let http = linchpin::testing::Client::new(&test_app.app);
    let document = http.get("/openapi.json").await.unwrap().json().unwrap();
    let socket = &document["paths"]["/__ws"]["get"];
    let upgraded = &socket["responses"]["101"]["headers"]["Upgrade"]["schema"];
    assert_eq!(upgraded["const"], "websocket", "{socket}");
    for status in ["401", "403", "426", "429", "503"] {
        assert!(
            socket["responses"][status].is_object(),
            "{status}: {socket}"
        );
    }
    let refresh = &document["paths"]["/__ws/refresh"]["post"];
    assert!(refresh["responses"]["204"].is_object(), "{refresh}");
    let body = &refresh["requestBody"]["content"]["application/json"]["schema"];
    assert!(body["$ref"].is_string(), "{refresh}");
    test_app.app.stop().await.unwrap();
}

/// Returns a request for a WebSocket with changed headers. An empty value removes a header.
fn request(line: &str, changes: &[(&str, &str)]) -> Vec<u8> {
    let mut headers = vec![
        ("Host", "app.test"),
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    headers.retain(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
    let mut text = format!("{line}\r\n");
    for (name, value) in headers.iter().chain(changes) {
        if !value.is_empty() {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    (text + "\r\n").into_bytes()
}

/// A request line, changed headers, the expected status, and an expected part of the answer's head.
type Case = (
    &'static str,
    Vec<(&'static str, &'static str)>,
    u16,
    &'static str,
);

#[tokio::test]
async fn every_part_of_the_handshake_is_checked() {
    const GET: &str = "GET /__ws HTTP/1.1";
    const VERSION: &str = "sec-websocket-version: 13";
    const UPGRADE: &str = "upgrade: websocket";
    let test_app = TestApp::start().await;
    let key = |key: &'static str| vec![("Sec-WebSocket-Key", key)];
    let version = |version: &'static str| vec![("Sec-WebSocket-Version", version)];
    let cases: Vec<Case> = vec![
        (GET, vec![], 101, "connection: upgrade"),
        (GET, vec![("Upgrade", "WebSocket")], 101, UPGRADE),
        (GET, vec![("Upgrade", "h2c, websocket")], 101, UPGRADE),
        (
            GET,
            vec![("Connection", "keep-alive, upgrade")],
            101,
            UPGRADE,
        ),
        (GET, vec![("Origin", "http://app.test")], 101, UPGRADE),
        (GET, version(""), 400, VERSION),
        (GET, version("12"), 400, VERSION),
        (GET, version("8, 13"), 400, VERSION),
        (GET, version("013"), 400, VERSION),
        (GET, key(""), 400, VERSION),
        (GET, key("dGhlIHNhbXBsZSBub25j"), 400, VERSION),
        (GET, key("dGhlIHNhbXBsZSBub25jZSE="), 400, VERSION),
        (GET, key("dGhlIHNhbXBsZSBub25jZQ"), 400, VERSION),
        (GET, key("not base64 at all!!!!!!!"), 400, VERSION),
        (GET, vec![("Upgrade", "")], 426, UPGRADE),
        (GET, vec![("Upgrade", "h2c")], 426, UPGRADE),
        (GET, vec![("Upgrade", "websockets")], 426, UPGRADE),
        (GET, vec![("Connection", "")], 426, UPGRADE),
        (GET, vec![("Connection", "keep-alive")], 426, UPGRADE),
        ("GET /__ws HTTP/1.0", vec![], 426, UPGRADE),
        ("HEAD /__ws HTTP/1.1", vec![], 426, UPGRADE),
        ("POST /__ws HTTP/1.1", vec![], 405, "allow: get"),
        ("GET /__ws?token=x HTTP/1.1", vec![], 400, ""),
        ("GET /__ws/ HTTP/1.1", vec![], 404, ""),
        (GET, vec![("Origin", "http://evil.test")], 403, ""),
        (GET, vec![("Origin", "http://app.test:1")], 403, ""),
        (GET, vec![("Origin", "null")], 403, ""),
        (GET, vec![("Sec-WebSocket-Protocol", "chat")], 400, ""),
        (GET, vec![("Host", "")], 400, ""),
    ];
    for (line, changes, status, header) in cases {
        let name = format!("{line} {changes:?}");
        let bytes = request(line, &changes);
        let (mut raw, answer) = Raw::request(test_app.app.address(), &bytes).await;
        assert_eq!(answer[9..12], status.to_string(), "{name}: {answer}");
        assert!(answer.contains(header), "{name}: {answer}");
        assert!(!answer.contains("sec-websocket-extensions"), "{answer}");
        if status == 101 {
            assert_eq!(raw.json().await["pending"], true, "{name}");
        }
    }
    // Frames that arrive together with the request are read.
    let mut bytes = request(GET, &[]);
    bytes.extend(frame(FIN | TEXT, b"ping"));
    let (mut raw, answer) = Raw::request(test_app.app.address(), &bytes).await;
    assert!(answer.starts_with("http/1.1 101"), "{answer}");
    assert_eq!(raw.json().await["event"], "connected");
    assert_eq!(raw.json().await, json!({ "event": "pong" }));
}
