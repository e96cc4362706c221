//! Requests that a proxy may read differently than the server, and the responses to them.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fixture::{get, notes, rest, status};

/// Sends raw bytes, and returns everything until the server closes the connection.
async fn raw(app: &linchpin::Running, bytes: &str) -> String {
    let mut stream = TcpStream::connect(app.address()).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    rest(&mut stream).await
}

const CHUNKED: &str = "d\r\n{\"text\":\"abc\"\r\n1\r\n}\r\n0\r\n\r\n";

#[tokio::test]
async fn conflicting_body_lengths_are_refused() {
    let app = notes().start().await.unwrap();
    let send = async |coding: &str| {
        let head = "POST /notes HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\n";
        raw(&app, &format!("{head}{coding}\r\n{CHUNKED}")).await
    };
    for good in [
        "transfer-encoding: chunked\r\n",
        "Transfer-Encoding: Chunked\r\n",
    ] {
        let answer = send(good).await;
        assert_eq!(status(&answer), "201", "{answer}");
    }
    for bad in [
        "transfer-encoding: gzip, chunked\r\n",
        "transfer-encoding: identity, chunked\r\n",
        "transfer-encoding: chunked, chunked\r\n",
        "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
    ] {
        let answer = send(bad).await;
        assert!(
            status(&answer) == "400" && answer.contains("header:Transfer-Encoding"),
            "{bad}: {answer}"
        );
    }
    app.stop().await.unwrap();
}

/// Chunked coding has priority (RFC 9112), and nothing is read after the body: bytes that a proxy
/// could take for the next request are ignored.
#[tokio::test]
async fn a_request_with_two_body_lengths_closes_the_connection() {
    let app = notes().start().await.unwrap();
    let next = "GET /notes HTTP/1.1\r\nhost: a\r\n\r\n";
    for lengths in [
        "content-length: 4\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 4\r\n",
    ] {
        let answer = raw(
            &app,
            &format!("GET /notes HTTP/1.1\r\nhost: a\r\n{lengths}\r\n0\r\n\r\n{next}"),
        )
        .await;
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    }
    app.stop().await.unwrap();
}

/// A client may close its side of the connection after a complete request. A client with an
/// incomplete body gets an error.
#[tokio::test]
async fn a_client_that_closes_its_side_gets_a_response() {
    let app = notes().start().await.unwrap();
    let body = r#"{"text":"abc"}"#;
    let send = async |request: &str, length: usize| {
        let head = format!(
            "{request} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        let mut stream = TcpStream::connect(app.address()).await.unwrap();
        stream
            .write_all(format!("{head}{}", if length == 0 { "" } else { body }).as_bytes())
            .await
            .unwrap();
        stream.shutdown().await.unwrap();
        rest(&mut stream).await
    };
    for _ in 0..20 {
        let answer = send("POST /notes", body.len()).await;
        assert_eq!(status(&answer), "201", "{answer}");
    }
    assert_eq!(status(&send("GET /notes", 0).await), "200");
    let answer = send("POST /notes", 100).await;
    assert!(!answer.starts_with("HTTP/1.1 201"), "{answer}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn bodies_are_not_compressed() {
    let app = notes().start().await.unwrap();
    let send = async |coding: &str| {
        let body = r#"{"text":"abc"}"#;
        let head = "POST /notes HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\n";
        raw(
            &app,
            &format!("{head}{coding}content-length: {}\r\n\r\n{body}", body.len()),
        )
        .await
    };
    for coding in ["gzip", "br", "gzip, identity", "x"] {
        let answer = send(&format!("content-encoding: {coding}\r\n")).await;
        assert!(
            status(&answer) == "415" && answer.contains("unsupported_media_type"),
            "{coding}: {answer}"
        );
    }
    assert_eq!(status(&send("content-encoding: identity\r\n").await), "201");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn malformed_host_headers_are_refused() {
    let app = notes().start().await.unwrap();
    for host in [
        "", "a b", "a/b", "user@a", "a,b", "a?b", "a#b", "a:port", "a:1:2", "a:99999", "[::1",
        "a\\b", "<a>", "a%zz",
    ] {
        let answer = raw(
            &app,
            &format!("GET /notes HTTP/1.1\r\nconnection: close\r\nhost: {host}\r\n\r\n"),
        )
        .await;
        assert!(
            status(&answer) == "400" && answer.contains("header:Host"),
            "{host}: {answer}"
        );
    }
    for host in [
        "a",
        "a.example:8080",
        "127.0.0.1:1",
        "[::1]:80",
        "[::1]",
        "xn--a-b_c.d",
        "a:",
        "A%2db",
    ] {
        let answer = raw(
            &app,
            &format!("GET /notes HTTP/1.1\r\nconnection: close\r\nhost: {host}\r\n\r\n"),
        )
        .await;
        assert_eq!(status(&answer), "200", "{host}: {answer}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_connection_continues_after_a_refused_connect() {
    let app = notes().start().await.unwrap();
    let mut stream = TcpStream::connect(app.address()).await.unwrap();
    let mut answer = vec![0; 4096];
    for (request, code) in [
        ("CONNECT b:1 HTTP/1.1\r\nhost: b:1\r\n\r\n", "\"code\":"),
        (
            "GET /notes\u{1} HTTP/1.1\r\nhost: a\r\n\r\n",
            "\"requestId\":",
        ),
    ] {
        stream.write_all(request.as_bytes()).await.unwrap();
        let read = stream.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..read]);
        assert!(
            status(&answer).starts_with('4') && answer.contains(code),
            "{request}: {answer}"
        );
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn options_of_the_server_are_answered() {
    let app = notes().start().await.unwrap();
    let answer = raw(
        &app,
        "OPTIONS * HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(
        status(&answer) == "204" && answer.contains("allow: GET, HEAD, POST"),
        "{answer}"
    );
    assert_eq!(
        status(
            &raw(
                &app,
                "GET * HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
            )
            .await
        ),
        "404"
    );
    app.stop().await.unwrap();
}

#[tokio::test]
async fn responses_match_their_headers() {
    let app = notes().start().await.unwrap();
    for path in [
        "/notes",
        "/notes/none",
        "/none",
        "/openapi.json",
        "/docs",
        "/health/live",
        "/notes?x=1",
    ] {
        let answer = get(app.address(), path, "").await;
        assert!(
            answer.contains("x-content-type-options: nosniff\r\n"),
            "{path}: {answer}"
        );
    }
    // A request that is refused before routing, and bytes that are not HTTP.
    for bytes in [
        "GET /notes HTTP/1.1\r\nconnection: close\r\n\r\n",
        "\u{16}\u{3}\u{1}\r\n\r\n",
    ] {
        let answer = raw(&app, bytes).await;
        assert!(
            status(&answer) == "400" && answer.contains("x-content-type-options: nosniff\r\n"),
            "{answer}"
        );
    }
    app.stop().await.unwrap();
}
