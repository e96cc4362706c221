//! Tests with third-party clients: the npm package `ws`, and the Python packages `websockets` and
//! `wsproto`.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::test_app::{TestApp, room};

/// The folder of the clients. `cargo xtask test` installs their dependencies.
const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers");

/// A running client. Dropping the value ends it.
pub struct Peer {
    _child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn open(program: &[&str], address: SocketAddr, token: &str) -> Self {
        let url = format!("ws://{address}/__ws");
        Self::start(&[program, &[&url, token]].concat())
    }

    /// Starts a program with its arguments.
    pub fn start(program: &[&str]) -> Self {
        let mut child = Command::new(program[0])
            .args(&program[1..])
            .current_dir(PEERS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program is missing: `cargo xtask test` prints how to install it");
        Self {
            input: child.stdin.take().unwrap(),
            lines: BufReader::new(child.stdout.take().unwrap()).lines(),
            _child: child,
        }
    }

    /// Returns the next line that the client prints.
    pub async fn next(&mut self) -> Json {
        let line = timeout(Duration::from_mins(1), self.lines.next_line()).await;
        let line = line.expect("the client prints a line in time").unwrap();
        serde_json::from_str(&line.expect("the client has ended")).unwrap()
    }

    /// Returns the next frame of this event.
    async fn until(&mut self, event: &str) -> Json {
        loop {
            let next = self.next().await;
            assert!(next.get("frame").is_some(), "{next}");
            if next["frame"]["event"] == event {
                return next["frame"].clone();
            }
        }
    }

    pub async fn send(&mut self, frame: Json) {
        let line = format!("{frame}\n");
        self.input.write_all(line.as_bytes()).await.unwrap();
    }
}

async fn speaks_the_protocol(program: &[&str]) {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let container = test_app.container(&ada, "public").await;
    let address = test_app.app.address();
    let mut refused = Peer::open(program, address, "bad");
    assert_eq!(refused.next().await, json!({ "status": 401 }));

    let mut peer = Peer::open(program, address, &ada.token);
    let opened = peer.next().await;
    assert_eq!(
        opened,
        json!({ "protocol": "linchpin.v1", "extensions": "" })
    );
    let connected = peer.until("connected").await;
    assert_eq!(connected["userId"], json!(ada.id));
    peer.send(json!({ "action": "subscribe", "room": room(&container) }))
        .await;
    let joined = peer.until("subscribed").await;
    let thread = test_app.draft(&ada, &container).await;
    let frame = peer.until("threads.created").await;
    assert_eq!(
        (&frame["payload"]["id"], &frame["offset"]),
        (&json!(thread), &json!(1))
    );
    // The text is too long for a one-byte length, and has characters of several bytes.
    let text = "line\u{2028}one 😀 ".repeat(1_000);
    test_app.announce(&container, &text).await;
    assert_eq!(
        peer.until("announcement").await["payload"]["text"],
        json!(text)
    );
    drop(peer);
    test_app.wait_for_connections(0).await;
    test_app.announce(&container, "missed").await;

    let mut peer = Peer::open(program, address, &ada.token);
    peer.next().await;
    let since = json!({ "epoch": joined["epoch"], "offset": 2 });
    peer.send(json!({ "action": "subscribe", "room": room(&container), "since": since }))
        .await;
    assert_eq!(peer.until("subscribed").await["replayed"], 1);
    assert_eq!(
        peer.until("announcement").await["payload"]["text"],
        "missed"
    );
    test_app.app.stop().await.unwrap();
    assert!(peer.until("draining").await["reconnectInMs"].is_u64());
    assert_eq!(
        peer.next().await,
        json!({ "closed": 1012, "reason": "restart" })
    );
}

#[tokio::test]
async fn the_npm_client_ws_speaks_the_protocol() {
    speaks_the_protocol(&["node", "ws/client.mjs"]).await;
}

#[tokio::test]
async fn the_python_client_websockets_speaks_the_protocol() {
    speaks_the_protocol(&["python3", "client.py"]).await;
}

#[tokio::test]
async fn the_python_client_wsproto_speaks_the_protocol() {
    speaks_the_protocol(&["python3", "bytes.py"]).await;
}
