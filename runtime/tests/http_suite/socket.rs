//! A server on a real socket: the bytes of responses.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::fixture::{App, blog};

/// A server on a free loopback port; dropping the value stops it.
pub struct Server {
    address: std::net::SocketAddr,
    task: tokio::task::JoinHandle<std::io::Result<()>>,
    // Keeps the folder of the store until the server is dropped.
    _app: App,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub async fn start(app: App) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = axum::Router::new().fallback_service(app.service.clone());
        Self {
            address,
            task: tokio::spawn(async move { axum::serve(listener, router).await }),
            _app: app,
        }
    }

    /// Sends raw bytes and returns all received bytes, after the server has closed the connection.
    pub async fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A server may respond and close before it has read everything; the response still arrives.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        let read = tokio::time::timeout(std::time::Duration::from_mins(1), read)
            .await
            .unwrap();
        assert!(read.is_ok() || !answer.is_empty(), "{read:?}");
        String::from_utf8(answer).unwrap()
    }

    /// Sends one request on a new connection.
    pub async fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Received {
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("content-length: {}\r\n", body.len())
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}{length}\r\n"
        );
        Received::parse(&self.exchange(format!("{head}{body}").as_bytes()).await)
    }

    pub async fn get(&self, path: &str) -> Received {
        self.send("GET", path, "", "").await
    }
}

/// A parsed response.
pub struct Received {
    pub status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Received {
    #[track_caller]
    fn parse(text: &str) -> Self {
        let (head, body) = text
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("no head in {text:?}"));
        let mut lines = head.lines();
        let status = lines
            .next()
            .and_then(|l| l.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok())
            .unwrap_or_else(|| panic!("{head}"));
        let headers = lines
            .filter_map(|l| l.split_once(": "))
            .map(|(n, v)| (n.to_owned(), v.to_owned()))
            .collect();
        Self {
            status,
            headers,
            body: body.to_owned(),
        }
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map_or("", |(_, v)| v)
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {:?}", self.body))
    }

    pub fn text(&self) -> &str {
        &self.body
    }
}

async fn server() -> Server {
    Server::start(blog().await).await
}

const JSON: &str = "content-type: application/json\r\n";

#[tokio::test]
async fn lengths_and_bodies_agree() {
    let server = server().await;
    let created = server
        .send("POST", "/posts", JSON, r#"{"slug":"a","title":"A"}"#)
        .await;
    assert_eq!(
        (created.status, created.header("content-length")),
        (201, created.text().len().to_string().as_str())
    );
    assert_eq!(
        created.header("location"),
        format!("/posts/{}", created.json()["id"].as_str().unwrap())
    );
    let (get, head) = (
        server.get("/posts").await,
        server.send("HEAD", "/posts", "", "").await,
    );
    assert_eq!(
        (head.header("content-length"), head.text()),
        (get.header("content-length"), "")
    );
    let options = server.send("OPTIONS", "/posts", "", "").await;
    assert_eq!(
        (options.status, options.header("allow"), options.text()),
        (204, "GET, HEAD, POST, OPTIONS", "")
    );
    assert_eq!(
        options.header("content-length"),
        "",
        "a 204 has no content length"
    );
}

#[tokio::test]
async fn large_bodies_are_refused_before_reading() {
    let headers = "content-type: application/json\r\ncontent-length: 9999999\r\n";
    let answer = server().await.send("POST", "/posts", headers, "").await;
    assert_eq!(
        (answer.status, &answer.json()["code"]),
        (413, &"body_too_large".into())
    );
}

#[tokio::test]
async fn chunked_bodies_are_bounded_and_read() {
    let server = server().await;
    let head = "POST /posts HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 18, " ".repeat(1 << 18));
    let answer = server
        .exchange(format!("{head}{}", chunk.repeat(5)).as_bytes())
        .await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let good = "b\r\n{\"slug\":\"a\"\r\nd\r\n,\"title\":\"A\"}\r\n0\r\n\r\n";
    let answer = server.exchange(format!("{head}{good}").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
}

#[tokio::test]
async fn requests_follow_each_other_on_one_connection() {
    let first = "GET /posts HTTP/1.1\r\nhost: a\r\n\r\n";
    let wrong = "PUT /posts HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc";
    let last = "GET /posts/none HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let answer = server()
        .await
        .exchange(format!("{first}{wrong}{last}").as_bytes())
        .await;
    let statuses: Vec<&str> = answer.split("HTTP/1.1 ").skip(1).map(|a| &a[..3]).collect();
    assert_eq!(statuses, ["200", "405", "404"], "{answer}");
}

/// A route without input accepts at most 4 KiB, so a client cannot make the server store a megabyte
/// for a read.
#[tokio::test]
async fn routes_without_input_take_small_bodies() {
    let server = server().await;
    let post = server
        .send("POST", "/posts", JSON, r#"{"slug":"a","title":"A"}"#)
        .await
        .json();
    let post = format!("/posts/{}", post["id"].as_str().unwrap());
    let (small, large) = (
        format!("{{{}}}", " ".repeat(4000)),
        format!("{{{}}}", " ".repeat(4096)),
    );
    let retire = format!("{post}/retire");
    let routes = [
        ("GET", "/posts"),
        ("GET", &*post),
        ("GET", "/posts/by-slug/a"),
        ("POST", &*retire),
        ("DELETE", &*post),
    ];
    for (method, path) in routes {
        let answer = server.send(method, path, JSON, &large).await;
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (413, &"body_too_large".into()),
            "{method} {path}"
        );
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\n"
        );
        let chunks = format!(
            "transfer-encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n0\r\n\r\n",
            large.len()
        );
        let answer = server.exchange(format!("{head}{chunks}").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        let answer = server.send(method, path, JSON, &small).await;
        assert!(
            matches!(answer.status, 200 | 204 | 400) && !answer.text().contains("body_too_large"),
            "{method} {path}: {}",
            answer.status
        );
    }
    let answer = server
        .send(
            "POST",
            "/posts",
            JSON,
            &format!(r#"{{"slug":"b","title":"B"{}}}"#, " ".repeat(9000)),
        )
        .await;
    assert_eq!(answer.status, 201, "{}", answer.text());
}
