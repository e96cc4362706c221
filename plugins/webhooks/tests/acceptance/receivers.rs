//! Tests that the receivers in the guide accept deliveries of the app, and refuse those of other
//! senders.

use std::collections::HashSet;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use linchpin::Timestamp;
use linchpin::axum::body::Bytes;
use linchpin::axum::extract::State;
use linchpin::axum::http::{HeaderMap, StatusCode};
use linchpin::axum::{Router, routing};
use linchpin_webhooks::{SigningSecret, Verifier, verify};
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::mpsc;

use crate::bed::TestApp;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers");

struct Hooks {
    verifier: Verifier,
    /// The ids of messages that were handled. An app would store them in a unique column, in the
    /// transaction in which it handles the message.
    handled_ids: Mutex<HashSet<String>>,
    titles: mpsc::UnboundedSender<String>,
}

async fn hook(State(hooks): State<Arc<Hooks>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let now = Timestamp::system_now();
    let Ok(message) = verify(&headers, &body, &hooks.verifier, now) else {
        return StatusCode::BAD_REQUEST;
    };
    let Ok(event) = serde_json::from_slice::<serde_json::Value>(&body) else {
        return StatusCode::BAD_REQUEST;
    };
    if hooks.handled_ids.lock().insert(message.message_id) {
        let title = format!("{} {}", event["type"], event["data"]["title"]);
        let _ = hooks.titles.send(title);
    }
    StatusCode::NO_CONTENT
}

/// The output to which a receiver reports accepted deliveries.
enum Output {
    Process(
        Lines<BufReader<ChildStdout>>,
        #[expect(dead_code, reason = "ends the process")] Box<Child>,
    ),
    Rust(mpsc::UnboundedReceiver<String>),
}

impl Output {
    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(Duration::from_mins(1), async {
            match self {
                Self::Process(lines, _) => lines.next_line().await.unwrap(),
                Self::Rust(titles) => titles.recv().await,
            }
        });
        line.await.expect("a line in time").expect("it still runs")
    }
}

async fn start(program: &[&str]) -> (u16, Output) {
    let mut child = Command::new(program[0])
        .args(&program[1..])
        .current_dir(PEERS)
        .env("WEBHOOK_SECRET", SECRET)
        .env("PORT", "0")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("cargo xtask test says how the program is installed");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut output = Output::Process(lines, Box::new(child));
    let line = output.line().await;
    let port = line.rsplit(' ').next().unwrap().parse().unwrap();
    (port, output)
}

async fn check_receiver((port, mut output): (u16, Output)) {
    let test_app = TestApp::start().await;
    let url = format!("http://127.0.0.1:{port}/hook");
    let secret = json!({ "secret": SECRET });
    let made = test_app.endpoint(&url, secret).await;
    test_app.order("first").await;
    let sent = test_app.until("delivered").await;
    let line = output.line().await.replace('"', "");
    assert_eq!(line, "shop.orders.created first");
    // The same message again: the receiver answers 204, and does nothing.
    let path = format!(
        "/webhooks/deliveries/{}/replay",
        sent["id"].as_str().unwrap()
    );
    let replayed = test_app.admin().post(&path, json!({})).await.unwrap();
    assert_eq!(replayed.status(), 200);
    test_app.until("delivered").await;
    test_app.order("second").await;
    test_app.until("delivered").await;
    let line = output.line().await.replace('"', "");
    assert_eq!(line, "shop.orders.created second");
    // After a rotation without overlap the receiver does not have the key of the signature.
    let path = format!(
        "/webhooks/endpoints/{}/rotate-secret",
        made["id"].as_str().unwrap()
    );
    let rotated = test_app
        .admin()
        .post(&path, json!({ "overlapSeconds": 0 }))
        .await;
    assert_eq!(rotated.unwrap().status(), 200);
    test_app.advance(Duration::from_secs(1));
    test_app.order("third").await;
    let failed = test_app.until("failed").await;
    assert_eq!(failed["lastAttempt"]["statusCode"], 400);
}

#[tokio::test]
async fn the_javascript_receiver_accepts_only_deliveries_of_the_app() {
    check_receiver(start(&["node", "node/receiver.mjs"]).await).await;
}

#[tokio::test]
async fn the_python_receiver_accepts_only_deliveries_of_the_app() {
    check_receiver(start(&["python3", "receiver.py"]).await).await;
}

#[tokio::test]
async fn the_rust_receiver_accepts_only_deliveries_of_the_app() {
    let (titles, output) = mpsc::unbounded_channel();
    let secrets = vec![SigningSecret::parse(SECRET).unwrap()];
    let hooks = Arc::new(Hooks {
        verifier: Verifier::StandardWebhooks { secrets },
        handled_ids: Mutex::default(),
        titles,
    });
    let router = Router::new()
        .route("/hook", routing::post(hook))
        .with_state(hooks);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { linchpin::axum::serve(listener, router).await.unwrap() });
    check_receiver((port, Output::Rust(output))).await;
}
