//! A real server on a real socket: what the bytes look like.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::fixture::blog;

/// Sends raw bytes to a fresh server and answers all it says until it closes.
async fn exchange(requests: &[u8]) -> String {
    let app = blog().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = axum::Router::new().fallback_service(app.service);
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(requests).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(std::time::Duration::from_secs(10), stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    server.abort();
    String::from_utf8(answer).unwrap()
}

fn request(line: &str, headers: &str, body: &str) -> String {
    format!("{line} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}\r\n{body}")
}

#[tokio::test]
async fn lengths_and_bodies_agree() {
    let body = r#"{"slug":"a","title":"A"}"#;
    let headers = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    let answer = exchange(request("POST /posts", &headers, body).as_bytes()).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 201 "), "{head}");
    assert!(head.contains(&format!("content-length: {}", body.len())) && head.contains("location: /posts/"), "{head}");

    let answer = exchange(request("HEAD /posts", "", "").as_bytes()).await;
    assert!(answer.contains("content-length: 46\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
    let answer = exchange(request("OPTIONS /posts", "", "").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 204 ") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn large_bodies_are_refused_unread() {
    let headers = "content-type: application/json\r\ncontent-length: 9999999\r\n";
    let answer = exchange(request("POST /posts", headers, "").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("body_too_large"), "{answer}");
}

#[tokio::test]
async fn chunked_bodies_are_bounded_and_read() {
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 18, " ".repeat(1 << 18));
    let headers = "content-type: application/json\r\ntransfer-encoding: chunked\r\n";
    let answer = exchange(request("POST /posts", headers, &chunk.repeat(5)).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let good = "b\r\n{\"slug\":\"a\"\r\nd\r\n,\"title\":\"A\"}\r\n0\r\n\r\n";
    let answer = exchange(request("POST /posts", headers, good).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
}

#[tokio::test]
async fn requests_follow_each_other_on_one_connection() {
    let first = "GET /posts HTTP/1.1\r\nhost: a\r\n\r\n";
    let wrong = "PUT /posts HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc";
    let last = request("GET /posts/none", "", "");
    let answer = exchange(format!("{first}{wrong}{last}").as_bytes()).await;
    let statuses: Vec<&str> = answer.split("HTTP/1.1 ").skip(1).map(|a| &a[..3]).collect();
    assert_eq!(statuses, ["200", "405", "404"], "{answer}");
}
