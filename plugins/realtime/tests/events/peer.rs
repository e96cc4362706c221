//! Tests with the npm package `eventsource`, which behaves as the `EventSource` of browsers.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::test_app::{TestApp, User};

/// The folder of the client, where `cargo xtask test` installs it.
const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/eventsource");
const PATH: &str = "/__sse/notifications";
const CREATED: [&str; 2] = [
    "notifications:notification.created",
    "community:notification.created",
];

/// A proxy that forwards connections to the app. A test can cut them.
struct Proxy {
    address: SocketAddr,
    forwarding: Arc<Mutex<JoinSet<()>>>,
    _accept: JoinSet<()>,
}

impl Proxy {
    async fn to(app: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let forwarding = Arc::<Mutex<JoinSet<()>>>::default();
        let mut accept = JoinSet::new();
        let all = Arc::clone(&forwarding);
        accept.spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let mut server = TcpStream::connect(app).await.unwrap();
                all.lock().await.spawn(async move {
                    // Either side may end the connection.
                    drop(copy_bidirectional(&mut client, &mut server).await);
                });
            }
        });
        Self {
            address,
            forwarding,
            _accept: accept,
        }
    }

    async fn cut(&self) {
        self.forwarding.lock().await.shutdown().await;
    }
}

/// A running client. Dropping the value ends it.
struct Source {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Source {
    fn open(address: SocketAddr, user: &User) -> Self {
        let url = format!("http://{address}{PATH}");
        let mut child = Command::new("node")
            .args(["client.mjs", &url, &user.token])
            .args(CREATED)
            .current_dir(PEER)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("node is missing: `cargo xtask test` prints how to install it");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            _child: child,
            lines,
        }
    }

    /// Returns the next line that the client prints.
    async fn next(&mut self) -> Json {
        let line = timeout(Duration::from_mins(1), self.lines.next_line()).await;
        let line = line.expect("the client prints a line in time").unwrap();
        serde_json::from_str(&line.expect("the client has ended")).unwrap()
    }

    async fn opened(&mut self) {
        let request = self.next().await;
        assert_eq!(request["status"], 200, "{request}");
        assert_eq!(self.next().await, json!({ "open": true }));
    }
}

#[tokio::test]
async fn listeners_of_every_name_fire_once_and_only_for_own_records() {
    let test_app = TestApp::start().await;
    let (ada, bob) = (test_app.user("ada").await, test_app.user("bob").await);
    let mut source = Source::open(test_app.address(), &ada);
    source.opened().await;
    test_app.notify(&bob, "for bob").await;
    let first = test_app.notify(&ada, "line\u{2028}one 😀\nline two").await;
    let second = test_app.notify(&ada, "second").await;
    for record in [first, second] {
        for name in [CREATED[1], CREATED[0]] {
            let fired = source.next().await;
            assert_eq!((&fired["event"], &fired["data"]), (&json!(name), &record));
        }
    }
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_client_resumes_automatically_after_its_connection_was_cut() {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let proxy = Proxy::to(test_app.address()).await;
    let mut source = Source::open(proxy.address, &ada);
    source.opened().await;
    test_app.notify(&ada, "before").await;
    source.next().await;
    let last = source.next().await["id"].clone();
    proxy.cut().await;
    assert_eq!(source.next().await, json!({ "closed": false }));
    for text in ["1", "2", "3"] {
        test_app.notify(&ada, text).await;
    }
    let request = source.next().await;
    assert_eq!(request, json!({ "request": last, "status": 200 }));
    assert_eq!(source.next().await, json!({ "open": true }));
    for text in ["1", "2", "3"] {
        for name in [CREATED[1], CREATED[0]] {
            let fired = source.next().await;
            assert_eq!(
                (&fired["event"], &fired["data"]["text"]),
                (&json!(name), &json!(text))
            );
        }
    }
    test_app.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_client_whose_session_ends_stops_after_one_refusal() {
    let test_app = TestApp::start().await;
    let ada = test_app.user("ada").await;
    let mut source = Source::open(test_app.address(), &ada);
    source.opened().await;
    ada.http.post("/auth/logout", ()).await.unwrap();
    let closed = source.next().await;
    assert_eq!(closed["event"], "linchpin:close");
    assert_eq!(
        closed["data"],
        json!({ "code": 4401, "reason": "session_ended" })
    );
    assert_eq!(source.next().await, json!({ "closed": false }));
    assert_eq!(source.next().await["status"], 401);
    assert_eq!(source.next().await, json!({ "closed": true }));
    test_app.app.stop().await.unwrap();
}
