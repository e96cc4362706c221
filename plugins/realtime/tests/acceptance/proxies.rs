//! Tests with nginx and `HAProxy` in front of the app. Clients use WebSocket over HTTP/1.1 (with
//! `HAProxy` also over HTTP/2), and HTTP/2 for all other requests.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::clients::Peer;
use crate::ports::free_port;
use crate::socket::Socket;
use crate::test_app::{TestApp, room};

/// A running proxy. Dropping the value ends it.
struct Proxy {
    /// The address that speaks HTTP/1.1.
    http1: SocketAddr,
    /// The address that speaks HTTP/2 without TLS.
    http2: SocketAddr,
    process: Child,
    _folder: tempfile::TempDir,
}

impl Proxy {
    fn nginx(app: SocketAddr) -> Self {
        let config = |http1: SocketAddr, http2: SocketAddr| {
            format!(
                "daemon off; master_process off; pid nginx.pid; events {{}}
                 http {{
                   access_log off;
                   client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
                   uwsgi_temp_path uwsgi; scgi_temp_path scgi;
                   map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
                   server {{
                     listen {http1}; listen {http2} http2;
                     location / {{
                       proxy_pass http://{app}; proxy_http_version 1.1;
                       proxy_set_header Host $http_host;
                       proxy_set_header Upgrade $http_upgrade;
                       proxy_set_header Connection $connection_upgrade;
                     }}
                   }}
                 }}\n"
            )
        };
        Self::start("nginx", &["-e", "stderr", "-p", ".", "-c"], config)
    }

    fn haproxy(app: SocketAddr) -> Self {
        let config = |http1: SocketAddr, http2: SocketAddr| {
            format!(
                "global\n maxconn 100\n\
                 defaults\n mode http\n timeout connect 5s\n timeout client 60s\n \
                 timeout server 60s\n timeout tunnel 60s\n\
                 frontend outside\n bind {http1}\n bind {http2} proto h2\n default_backend app\n\
                 backend app\n server one {app}\n"
            )
        };
        Self::start("haproxy", &["-db", "-f"], config)
    }

    /// Starts a program with a configuration for two addresses, in a new folder.
    fn start(
        name: &str,
        options: &[&str],
        config: impl Fn(SocketAddr, SocketAddr) -> String,
    ) -> Self {
        loop {
            let folder = tempfile::tempdir().unwrap();
            let [http1, http2] = [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], free_port())));
            let file = folder.path().join("config");
            std::fs::write(&file, config(http1, http2)).unwrap();
            let process = Command::new(program(name))
                .args(options)
                .arg(&file)
                .current_dir(folder.path())
                .stdout(Stdio::null())
                .spawn();
            let process = process.expect("cargo xtask services installs it");
            let mut proxy = Self {
                http1,
                http2,
                process,
                _folder: folder,
            };
            if proxy.listens() {
                return proxy;
            }
        }
    }

    /// Waits until the proxy listens. A proxy ends at once if another program uses one of its
    /// ports.
    fn listens(&mut self) -> bool {
        let until = Instant::now() + Duration::from_mins(1);
        let open = |address| std::net::TcpStream::connect(address).is_ok();
        loop {
            let open = open(self.http1) && open(self.http2);
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            if open {
                return true;
            }
            assert!(Instant::now() < until, "the proxy does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the path of a program. Debian installs servers in a folder that is not in every user's
/// search path.
fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join(name))
        .find(|program| Path::exists(program))
        .unwrap_or_else(|| panic!("{name} is missing; `cargo xtask services` installs it"))
}

/// A connection that speaks HTTP/2.
struct Http2 {
    peer: Peer,
    address: SocketAddr,
    bearer: String,
    unread: Vec<Json>,
}

impl Http2 {
    fn connect(address: SocketAddr, token: &str) -> Self {
        Self {
            peer: Peer::start(&["node", "http2.mjs", &format!("http://{address}")]),
            address,
            bearer: format!("Bearer {token}"),
            unread: Vec::new(),
        }
    }

    /// Sends a request with its pseudo headers.
    async fn send(&mut self, id: u32, pseudo: Json, body: Option<Json>) {
        let mut headers = pseudo;
        headers[":scheme"] = json!("http");
        headers[":authority"] = json!(self.address.to_string());
        headers["authorization"] = json!(self.bearer);
        headers["content-type"] = json!("application/json");
        headers["sec-websocket-version"] = json!("13");
        let body = body.map(|body| match body {
            Json::Null => String::new(),
            body => body.to_string(),
        });
        self.peer
            .send(json!({ "id": id, "headers": headers, "body": body }))
            .await;
    }

    /// Returns the next part of an answer.
    async fn next(&mut self, id: u32) -> Json {
        if let Some(at) = self.unread.iter().position(|next| next["id"] == id) {
            return self.unread.remove(at);
        }
        loop {
            let next = self.peer.next().await;
            if next["id"] == id {
                return next;
            }
            self.unread.push(next);
        }
    }

    async fn status(&mut self, id: u32) -> (u64, Json) {
        let mut head = self.next(id).await;
        let status = head["headers"][":status"].as_u64();
        let status = status.unwrap_or_else(|| panic!("no headers: {head}"));
        (status, head["headers"].take())
    }

    /// Reads the body until it contains this text.
    async fn until(&mut self, id: u32, text: &str) -> String {
        let mut body = String::new();
        while !body.contains(text) {
            let next = self.next(id).await;
            let data = next["data"].as_str();
            body += data.unwrap_or_else(|| panic!("the body lacks {text:?}: {body:?}, {next}"));
        }
        body
    }
}

async fn serves_behind(proxy: impl FnOnce(SocketAddr) -> Proxy, opens_sockets_over_http2: bool) {
    const STREAM: u32 = 1;
    let drain = Duration::from_millis(100);
    let test_app = TestApp::with(
        |plugin| plugin.configure(|config| config.drain = drain),
        |auth| auth,
    )
    .await;
    let ada = test_app.user("ada").await;
    let container = test_app.container(&ada, "public").await;
    let proxy = proxy(test_app.app.address());
    let bearer = format!("Bearer {}", ada.token);

    let mut socket = Socket::open(proxy.http1, &[("authorization", &bearer)]).await;
    assert_eq!(socket.next().await["userId"], json!(ada.id));
    socket.join(&room(&container)).await;
    // The proxy forwards the host that the client has called, so pages of that origin may connect.
    let cookie = format!("__Host-token={}", ada.token);
    for (origin, status) in [
        (format!("http://{}", proxy.http1), 101),
        (format!("http://{}", test_app.app.address()), 403),
    ] {
        let headers = [("cookie", cookie.as_str()), ("origin", &origin)];
        let answer = Socket::handshake(proxy.http1, "/__ws", &headers).await;
        let answer = answer.map_or_else(|refused| refused.status, |_| 101);
        assert_eq!(answer, status, "{origin}");
    }

    let mut http2 = Http2::connect(proxy.http2, &ada.token);
    let stream = json!({ ":path": "/__sse/tasks", "accept": "text/event-stream" });
    http2.send(STREAM, stream, Some(Json::Null)).await;
    let (status, headers) = http2.status(STREAM).await;
    assert_eq!(status, 200, "{headers}");
    assert_eq!(headers["content-type"], "text/event-stream; charset=utf-8");
    assert_eq!(headers["cache-control"], "no-store, no-transform");
    // Each block arrives before the next one is written: the proxy does not buffer it.
    http2.until(STREAM, "\nid: ").await;
    for (id, title) in [(2, "first"), (3, "second")] {
        let create = json!({ ":method": "POST", ":path": "/tasks" });
        let body = json!({ "title": title });
        http2.send(id, create, Some(body)).await;
        assert_eq!(http2.status(id).await.0, 201);
        let block = http2.until(STREAM, &format!("\"{title}\"")).await;
        assert!(block.contains("event: tasks.created\n"), "{block}");
    }
    let create = json!({
        ":method": "POST", ":path": "/threads",
    });
    let draft = json!({
        "containerId": container, "ownerId": ada.id, "title": "first", "status": "draft",
    });
    http2.send(4, create, Some(draft)).await;
    assert_eq!(http2.status(4).await.0, 201);
    assert_eq!(socket.until("threads.created").await["offset"], 1);
    if opens_sockets_over_http2 {
        let connect = json!({ ":method": "CONNECT", ":protocol": "websocket", ":path": "/__ws" });
        http2.send(5, connect, None).await;
        assert_eq!(http2.status(5).await.0, 200);
        let first = http2.until(5, "\"event\":\"connected\"").await;
        assert!(first.contains(&ada.id), "{first}");
    }

    let drained = async {
        assert!(socket.until("draining").await["reconnectInMs"].is_u64());
        assert_eq!(socket.closed().await, (1012, "restart".to_owned()));
        http2.until(STREAM, "retry: ").await;
        while http2.next(STREAM).await["end"] != true {}
    };
    let (stopped, ()) = tokio::join!(test_app.app.stop(), drained);
    stopped.unwrap();
    let refused = Socket::handshake(proxy.http1, "/__ws", &[("authorization", &bearer)]).await;
    let status = refused.err().expect("the app has stopped").status;
    assert!(matches!(status, 502 | 503), "{status}");
}

#[tokio::test]
async fn nginx_forwards_sockets_and_streams() {
    serves_behind(Proxy::nginx, false).await;
}

#[tokio::test]
async fn haproxy_forwards_sockets_and_streams() {
    serves_behind(Proxy::haproxy, true).await;
}
