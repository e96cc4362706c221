//! The test app, and a client that sends exact bytes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use linchpin::prelude::*;
use linchpin::{Config, Running};
use linchpin_webhooks::{Inbound, Received, SigningSecret, Verifier};
use serde_json::Value as Json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

pub struct TestApp {
    app: Running,
    messages: UnboundedReceiver<Received>,
    /// Milliseconds by which the clock of the app is ahead.
    ahead: Arc<AtomicI64>,
    folder: tempfile::TempDir,
}

pub fn now() -> i64 {
    Timestamp::system_now().millis() / 1_000
}

/// The headers of a signed message.
pub fn signed(id: &str, at: i64, body: &str) -> Vec<(&'static str, String)> {
    let key = STANDARD.decode(&SECRET["whsec_".len()..]).unwrap();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let tag = hmac::sign(&key, format!("{id}.{at}.{body}").as_bytes());
    vec![
        ("content-type", "application/json".to_owned()),
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", at.to_string()),
        ("webhook-signature", format!("v1,{}", STANDARD.encode(tag))),
    ]
}

impl TestApp {
    /// The app on a SQLite file in this folder.
    pub fn app(folder: &Path, inbound: Inbound) -> App {
        let config = Config::new()
            .port(0)
            .database(format!("sqlite:{}", folder.join("app.db").display()));
        App::new(config).plugin(inbound)
    }

    pub async fn start() -> Self {
        let verifier = || Verifier::StandardWebhooks {
            secrets: vec![
                SigningSecret::generate().unwrap(),
                SigningSecret::parse(SECRET).unwrap(),
            ],
        };
        let (sender, messages) = unbounded_channel();
        let inbound = Inbound::new().provider("other", verifier()).handled(
            "billing",
            verifier(),
            move |message| {
                sender.send(message).unwrap();
                std::future::ready(Ok(()))
            },
        );
        let folder = tempfile::tempdir().unwrap();
        let ahead = Arc::<AtomicI64>::default();
        let clock = {
            let ahead = Arc::clone(&ahead);
            move || {
                let now = Timestamp::system_now().millis();
                Timestamp::from_millis(now + ahead.load(Ordering::Relaxed))
            }
        };
        let app = Self::app(folder.path(), inbound).clock(clock);
        Self {
            app: app.start().await.unwrap(),
            messages,
            ahead,
            folder,
        }
    }

    /// Advances the clock of the app.
    pub fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).unwrap();
        self.ahead.fetch_add(by, Ordering::Relaxed);
    }

    /// Runs SQL on the database of the app in another process.
    pub async fn sql(&self, sql: &str) {
        let code =
            "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=20).execute(sys.argv[2])";
        let status = Command::new("python3")
            .args(["-c", code])
            .arg(self.folder.path().join("app.db"))
            .arg(sql)
            .status();
        assert!(status.await.unwrap().success());
    }

    /// The next message that the function of `billing` gets.
    pub async fn next(&mut self) -> Received {
        let next = timeout(Duration::from_mins(1), self.messages.recv());
        next.await.expect("no message came").unwrap()
    }

    /// Checks that the function gets no further message.
    pub async fn expect_no_message(&mut self) {
        let more = timeout(Duration::from_millis(700), self.messages.recv()).await;
        assert!(more.is_err(), "{more:?}");
    }

    pub async fn post(
        &self,
        provider: &str,
        headers: &[(&str, String)],
        body: &str,
    ) -> (u16, Json) {
        self.send(provider, headers, body, false).await
    }

    /// The API document of the app.
    pub async fn document(&self) -> Json {
        let client = linchpin::testing::Client::new(&self.app);
        let answer = client.get("/openapi.json").await.unwrap();
        answer.json().unwrap()
    }

    /// Sends a request, and returns the status and the body. If the response has the header
    /// `retry-after`, its value is a member of the returned body.
    pub async fn send(
        &self,
        provider: &str,
        headers: &[(&str, String)],
        body: &str,
        chunked: bool,
    ) -> (u16, Json) {
        let mut socket = TcpStream::connect(self.app.address()).await.unwrap();
        let mut head = format!(
            "POST /webhooks/inbound/{provider} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n"
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let (length, mut bytes) = if chunked {
            let chunks = body.as_bytes().chunks(60_000).flat_map(|chunk| {
                [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat()
            });
            let mut bytes: Vec<u8> = chunks.collect();
            bytes.extend_from_slice(b"0\r\n\r\n");
            ("transfer-encoding: chunked".to_owned(), bytes)
        } else {
            let length = format!("content-length: {}", body.len());
            (length, body.as_bytes().to_vec())
        };
        bytes.splice(0..0, format!("{head}{length}\r\n\r\n").into_bytes());
        socket.write_all(&bytes).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head[9..12].parse().unwrap();
        let mut body: Json = serde_json::from_str(body).expect("a body of JSON");
        let mut lines = head.lines();
        if let Some(wait) = lines.find_map(|line| line.strip_prefix("retry-after: ")) {
            body["retry-after"] = wait.into();
        }
        (status, body)
    }
}
