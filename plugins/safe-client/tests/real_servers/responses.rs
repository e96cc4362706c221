//! Responses of every kind, and those that never end.

use std::time::Duration;

use linchpin_safe_client::{Failure, Phase};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::server::Server;
use crate::{client, post};

#[tokio::test]
async fn a_request_is_sent_as_it_is_given() {
    let mut server = Server::answering(
        "HTTP/1.1 201 Created\r\nwebhook-delivery: received\r\ncontent-length: 2\r\n\r\nok",
    )
    .await;
    let request = post(server.url())
        .header("webhook-id", "msg_1")
        .unwrap()
        .header("webhook-id", "msg_2")
        .unwrap();
    let reply = client().send(request).await.unwrap();
    assert_eq!(reply.status, 201);
    assert_eq!((&reply.body[..], reply.is_cut), (&b"ok"[..], false));
    assert_eq!(reply.headers["webhook-delivery"], "received");
    let sent = server.request().await;
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<&str> = head.lines().collect();
    assert_eq!(lines.remove(0), "POST /hook?a=1 HTTP/1.1");
    lines.sort_unstable();
    let host = format!("host: {}", server.address);
    let agent = concat!("user-agent: Linchpin/", env!("CARGO_PKG_VERSION"));
    let mut expected = vec![
        "connection: close",
        "content-length: 2",
        "content-type: application/json",
        &host,
        agent,
        "webhook-id: msg_1",
        "webhook-id: msg_2",
    ];
    expected.sort_unstable();
    assert_eq!((lines, body), (expected, "{}"));
}

#[tokio::test]
async fn a_redirect_is_returned_and_not_followed() {
    let inside = Server::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let location = inside.url();
    for status in [
        "301 Moved",
        "302 Found",
        "303 See Other",
        "307 Again",
        "308 Always",
    ] {
        let head =
            format!("HTTP/1.1 {status}\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let server = Server::answering(head).await;
        let reply = client().send(post(server.url())).await.unwrap();
        assert!(reply.status.is_redirection());
        assert_eq!(reply.headers["location"], location);
    }
    assert_eq!(inside.connections(), 0);
}

#[tokio::test]
async fn no_connection_is_used_twice() {
    let server = Server::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let client = client();
    for _ in 0..3 {
        client.send(post(server.url())).await.unwrap();
    }
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn the_client_sets_the_headers_of_the_connection() {
    for name in [
        "host",
        "Content-Length",
        "connection",
        "transfer-encoding",
        "te",
        "upgrade",
    ] {
        let refused = post("http://example.com/").header(name, "1").unwrap_err();
        assert!(matches!(refused, Failure::Header(header) if header == name));
    }
    for (name, value) in [
        ("a b", "1"),
        ("", "1"),
        ("a", "x\r\nhost: b"),
        ("a", "\0"),
        ("a\n", ""),
    ] {
        assert!(
            post("http://example.com/").header(name, value).is_err(),
            "{name:?}"
        );
    }
    // Headers that only the client may set are also refused in `headers`, without the method
    // `header`.
    let server = Server::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let mut request = post(server.url());
    request
        .headers
        .insert("transfer-encoding", "chunked".parse().unwrap());
    let refused = client().send(request).await.unwrap_err();
    assert!(matches!(refused, Failure::Header(_)), "{refused}");
}

#[tokio::test]
async fn a_long_body_is_cut() {
    for (length, cut) in [(64 * 1024, false), (64 * 1024 + 1, true), (5_000_000, true)] {
        let mut response =
            format!("HTTP/1.1 500 No\r\ncontent-length: {length}\r\n\r\n").into_bytes();
        response.resize(response.len() + length, b'a');
        let server = Server::answering(response).await;
        let reply = client().send(post(server.url())).await.unwrap();
        assert_eq!((reply.status.as_u16(), reply.is_cut), (500, cut));
        assert_eq!(reply.body.len(), length.min(64 * 1024));
    }
    // A compressed body is not decompressed.
    let server = Server::answering(
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc",
    )
    .await;
    let reply = client().send(post(server.url())).await.unwrap();
    assert_eq!(&reply.body[..], b"abc");
}

#[tokio::test]
async fn large_heads_are_refused() {
    let many = "a: b\r\n".repeat(101);
    let long = format!("a: {}\r\n", "b".repeat(20_000));
    for headers in [many, long] {
        let server = Server::answering(format!("HTTP/1.1 200 OK\r\n{headers}\r\n")).await;
        let failure = client().send(post(server.url())).await.unwrap_err();
        assert!(matches!(failure, Failure::HeadersTooLarge), "{failure}");
    }
}

#[tokio::test]
async fn malformed_http_responses_are_errors() {
    for response in [
        "",
        "\0\x01\x02",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\n",
    ] {
        let server = Server::answering(response).await;
        let failure = client().send(post(server.url())).await.unwrap_err();
        assert!(
            matches!(failure, Failure::Protocol(_)),
            "{response:?}: {failure}"
        );
    }
    // If the connection ends within the body, the response is returned without the rest.
    let server = Server::answering("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab").await;
    let reply = client().send(post(server.url())).await.unwrap();
    assert_eq!((&reply.body[..], reply.is_cut), (&b"ab"[..], true));
}

/// Sends only the beginning of a response, and keeps the connection open.
async fn stuck(begin: &'static str) -> Server {
    Server::serving(move |mut stream: TcpStream| async move {
        stream.write_all(begin.as_bytes()).await.unwrap();
        std::future::pending::<()>().await;
    })
    .await
}

#[tokio::test]
async fn an_attempt_times_out() {
    let brief = Duration::from_millis(200);
    for begin in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 Continue\r\n\r\n"] {
        let server = stuck(begin).await;
        let failure = client()
            .send(post(server.url()).timeout(brief))
            .await
            .unwrap_err();
        let late = matches!(failure, Failure::Timeout(limit, Phase::Response) if limit == brief);
        assert!(late, "{begin:?}: {failure}");
    }
    let server = stuck("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab").await;
    let reply = client()
        .send(post(server.url()).timeout(brief))
        .await
        .unwrap();
    assert_eq!((&reply.body[..], reply.is_cut), (&b"ab"[..], true));
}
