//! Routes that stream, routes that change the protocol, and their end when the app stops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use linchpin::http::{AnswerDesc, Nothing, PluginCall, PluginRoute, Reply, Route, Socket};
use linchpin::{App, BoxFuture, Plugin, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, watch};

use crate::fixture::{Diary, config, get, notes, rest, status};

/// A route that changes to its own protocol.
static ECHO: Route<Nothing> = Route::get("echo", "echo")
    .of("echo")
    .doc("Sends back what it gets.")
    .upgrades("echo")
    .finds_caller();

/// A route that streams lines.
static LINES: Route<Nothing> = Route::get("lines", "lines")
    .of("echo")
    .doc("Sends lines.")
    .public()
    .streams("text/plain")
    .answers(&[AnswerDesc::empty(200, "Lines without an end.")]);

/// A plugin with the two routes; the test sends the lines, and observes the end of sockets.
struct Echo {
    diary: Diary,
    lines: Arc<parking_lot::Mutex<Option<mpsc::UnboundedReceiver<&'static str>>>>,
    /// `true` once sockets must end.
    stops: watch::Sender<bool>,
    /// Whether `stopping` ends the sockets.
    ends_sockets: bool,
    ended: Arc<Notify>,
}

async fn stop_signal(stops: &mut watch::Receiver<bool>) {
    drop(stops.wait_for(|stops| *stops).await);
}

/// Reports that it is dropped.
struct Ended(Arc<Notify>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Echo {
    fn new(ends_sockets: bool) -> (Self, mpsc::UnboundedSender<&'static str>) {
        let (send, lines) = mpsc::unbounded_channel();
        let echo = Self {
            diary: Diary::default(),
            lines: Arc::new(parking_lot::Mutex::new(Some(lines))),
            stops: watch::Sender::new(false),
            ends_sockets,
            ended: Arc::default(),
        };
        (echo, send)
    }
}

impl Plugin for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn routes(&self) -> Vec<PluginRoute> {
        let (stops, ended) = (self.stops.clone(), Arc::clone(&self.ended));
        let echo = move |mut call: PluginCall, _| {
            let (mut stops, ended) = (stops.subscribe(), Ended(Arc::clone(&ended)));
            async move {
                let Some(upgrade) = call.upgrade() else {
                    return Ok(Reply::upgrade_required("echo"));
                };
                let speak = move |mut socket: Socket| async move {
                    let _ended = ended;
                    let mut bytes = [0; 64];
                    loop {
                        tokio::select! {
                            read = socket.read(&mut bytes) => match read {
                                Ok(n @ 1..) => socket.write_all(&bytes[..n]).await.unwrap(),
                                _ => return,
                            },
                            () = stop_signal(&mut stops) => {
                                let _ = socket.write_all(b"bye").await;
                                return;
                            }
                        }
                    }
                };
                Ok(Reply::upgrade(upgrade, speak)
                    .header("x-mood".parse().unwrap(), "good".parse().unwrap()))
            }
        };
        let (lines, ended) = (Arc::clone(&self.lines), Arc::clone(&self.ended));
        let lines = move |_: PluginCall, _| {
            let (lines, ended) = (lines.lock().take(), Ended(Arc::clone(&ended)));
            async move {
                let next = |(mut lines, ended): (mpsc::UnboundedReceiver<&'static str>, Ended)| async move {
                    lines.recv().await.map(|line| (line, (lines, ended)))
                };
                let lines = lines.expect("one reader");
                Reply::stream(
                    200,
                    "text/plain",
                    futures_util::stream::unfold((lines, ended), next),
                )
            }
        };
        vec![ECHO.bind("/", echo), LINES.bind("/", lines)]
    }

    fn stopping(&self, grace: Duration) -> BoxFuture<'_, ()> {
        self.diary
            .note(format!("stopping within {} s", grace.as_secs()));
        if self.ends_sockets {
            let _ = self.stops.send(true);
        }
        Box::pin(async {})
    }

    fn teardown(&self) -> BoxFuture<'_, Result<()>> {
        self.diary.note("teardown");
        Box::pin(async { Ok(()) })
    }
}

const UPGRADE: &str = "GET /echo HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, Upgrade\r\nupgrade: other, ECHO\r\n\r\n";

/// Opens a connection and changes its protocol. `more` follows the request at once.
async fn open_socket(at: SocketAddr, more: &str) -> TcpStream {
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream
        .write_all(format!("{UPGRADE}{more}").as_bytes())
        .await
        .unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    assert_eq!(status(&head), "101", "{head}");
    for header in [
        "connection: upgrade\r\n",
        "upgrade: echo\r\n",
        "x-mood: good\r\n",
        "x-request-id: ",
    ] {
        assert!(head.contains(header), "{head}");
    }
    assert!(
        !head.contains("content-length") && !head.contains("transfer-encoding"),
        "{head}"
    );
    stream
}

/// Sends bytes and checks that they are sent back.
async fn check_echo(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
    check_bytes(stream, text).await;
}

async fn check_bytes(stream: &mut TcpStream, text: &str) {
    let mut bytes = vec![0; text.len()];
    stream.read_exact(&mut bytes).await.unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), text);
}

#[tokio::test]
async fn a_socket_speaks_another_protocol_after_its_request() {
    let (echo, _lines) = Echo::new(true);
    let ended = Arc::clone(&echo.ended);
    let app = notes().plugin(echo).start().await.unwrap();
    // Bytes that arrive together with the request belong to the other protocol.
    let mut stream = open_socket(app.address(), "first").await;
    check_bytes(&mut stream, "first").await;
    check_echo(&mut stream, "GET /notes HTTP/1.1\r\nhost: a\r\n\r\n").await;
    drop(stream);
    ended.notified().await;
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_request_without_the_upgrade_is_refused() {
    let (echo, _lines) = Echo::new(true);
    let app = notes().plugin(echo).start().await.unwrap();
    for headers in [
        "",
        "upgrade: echo\r\n",
        "connection: upgrade\r\n",
        "connection: upgrade\r\nupgrade: websocket\r\n",
    ] {
        let mut stream = TcpStream::connect(app.address()).await.unwrap();
        let request = format!("GET /echo HTTP/1.1\r\nhost: a\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        // The connection speaks HTTP as before.
        stream
            .write_all(b"GET /notes HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        let answers = rest(&mut stream).await;
        assert!(
            status(&answers) == "426"
                && answers.contains("\"code\":\"upgrade_required\"")
                && answers.contains("upgrade: echo\r\n")
                && answers.contains("HTTP/1.1 200 "),
            "{headers}: {answers}"
        );
    }
    let head = UPGRADE.replacen("GET", "HEAD", 1);
    let head = head.replacen("keep-alive", "close", 1);
    let mut stream = TcpStream::connect(app.address()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(
        answer.contains(" 426 ") && answer.ends_with("\r\n\r\n"),
        "{answer}"
    );
    let old = "GET /echo HTTP/1.0\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    let mut stream = TcpStream::connect(app.address()).await.unwrap();
    stream.write_all(old.as_bytes()).await.unwrap();
    assert!(rest(&mut stream).await.contains(" 426 "));
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_socket_keeps_its_place_in_the_limit_of_its_address() {
    let (echo, _lines) = Echo::new(true);
    let ended = Arc::clone(&echo.ended);
    let app = App::new(config().connections_per_address(2))
        .plugin(echo)
        .start()
        .await
        .unwrap();
    let mut first = open_socket(app.address(), "").await;
    let _second = open_socket(app.address(), "").await;
    let mut third = TcpStream::connect(app.address()).await.unwrap();
    assert_eq!(status(&rest(&mut third).await), "503");
    check_echo(&mut first, "still here").await;
    drop(first);
    ended.notified().await;
    // The slot of the connection may be released a moment after the function of the route has
    // ended.
    let mut tries = 0;
    while status(&get(app.address(), "/health/live", "").await) != "200" {
        tries += 1;
        assert!(tries < 500, "its place in the limit is not released");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    app.stop().await.unwrap();
}

/// A connection with a request that lacks its last line.
async fn begin_request(at: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(at).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn a_stop_notifies_plugins_first_and_waits_for_their_sockets() {
    let (echo, lines) = Echo::new(false);
    let (diary, stops) = (echo.diary.clone(), echo.stops.clone());
    let app = notes().plugin(echo).start().await.unwrap();
    let (at, service) = (app.address(), app.service());
    let mut socket = open_socket(at, "").await;
    let mut streaming = TcpStream::connect(at).await.unwrap();
    streaming
        .write_all(b"GET /lines HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    lines.send("one\n").unwrap();
    let mut head = [0; 15];
    streaming.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    // Requests that begin before the stop and are complete only after it.
    let (mut late, mut alive) = (
        begin_request(at, "/health/ready").await,
        begin_request(at, "/health/live").await,
    );
    // The server has read both: it has responded to a later request.
    assert_eq!(status(&get(at, "/health/ready", "").await), "200");

    let stop = tokio::spawn(app.stop());
    let mut tries = 0;
    while TcpStream::connect(at).await.is_ok() {
        tries += 1;
        assert!(tries < 500, "the port stays open");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for (stream, expected) in [(&mut late, "503"), (&mut alive, "200")] {
        stream.write_all(b"\r\n").await.unwrap();
        // The connection ends after the response.
        let answer = rest(stream).await;
        assert_eq!(status(&answer), expected, "{answer}");
        if expected == "503" {
            assert!(
                answer.contains("\"code\":\"unavailable\"") && answer.contains("retry-after: "),
                "{answer}"
            );
        }
    }
    let inside = tower_service::Service::call(
        &mut service.clone(),
        axum::http::Request::get("/notes")
            .body(axum::body::Body::empty())
            .unwrap(),
    );
    assert_eq!(inside.await.unwrap().status(), 503);
    check_echo(&mut socket, "still here").await;
    lines.send("two\n").unwrap();
    assert_eq!(diary.read(), "stopping within 10 s");
    assert!(!stop.is_finished());
    drop(lines);
    assert!(rest(&mut streaming).await.contains("two\n"));
    stops.send(true).unwrap();
    assert_eq!(rest(&mut socket).await, "bye");
    stop.await.unwrap().unwrap();
    assert_eq!(diary.read(), "teardown");
}

#[tokio::test]
async fn a_stop_cuts_sockets_after_the_grace_period() {
    let (echo, _lines) = Echo::new(false);
    let diary = echo.diary.clone();
    let app = App::new(config().shutdown_grace(Duration::from_millis(200)))
        .plugin(echo)
        .start()
        .await
        .unwrap();
    let mut socket = open_socket(app.address(), "").await;
    check_echo(&mut socket, "here").await;
    app.stop().await.unwrap();
    assert_eq!(rest(&mut socket).await, "");
    assert_eq!(diary.read(), "stopping within 0 s teardown");
}

#[tokio::test]
async fn a_stream_sends_each_part_at_once_and_ends_with_its_client() {
    let (echo, lines) = Echo::new(true);
    let ended = Arc::clone(&echo.ended);
    let app = notes().plugin(echo).start().await.unwrap();
    let mut stream = TcpStream::connect(app.address()).await.unwrap();
    stream
        .write_all(b"GET /lines HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    lines.send("one\n").unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"one\n\r\n") {
        seen.push(stream.read_u8().await.unwrap());
    }
    let seen = String::from_utf8(seen).unwrap();
    assert!(
        status(&seen) == "200"
            && seen.contains("content-type: text/plain\r\n")
            && seen.contains("transfer-encoding: chunked\r\n")
            && !seen.contains("content-length"),
        "{seen}"
    );
    lines.send("two\n").unwrap();
    check_bytes(&mut stream, "4\r\ntwo\n\r\n").await;
    drop(stream);
    // The server notices the disconnect when it writes.
    let mut tries = 0;
    while lines.send("three\n").is_ok() {
        tries += 1;
        assert!(tries < 500, "the stream continues");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    ended.notified().await;
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_document_shows_streams_and_protocols() {
    let (echo, _lines) = Echo::new(true);
    let app = notes().plugin(echo).start().await.unwrap();
    let answer = get(app.address(), "/openapi.json", "").await;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let document: serde_json::Value = serde_json::from_str(body).unwrap();
    let echo = &document["paths"]["/echo"]["get"];
    assert_eq!(echo["x-linchpin-kind"], "upgrade");
    assert_eq!(
        echo["responses"]["101"]["headers"]["Upgrade"]["schema"]["const"],
        "echo"
    );
    assert!(echo["responses"]["426"].is_object(), "{echo}");
    let lines = &document["paths"]["/lines"]["get"];
    assert_eq!(lines["x-linchpin-kind"], "stream");
    let ok = &lines["responses"]["200"];
    assert_eq!(ok["description"], "Lines without an end.");
    assert!(ok["content"]["text/plain"].is_object() && lines["responses"]["426"].is_null());
    app.stop().await.unwrap();
}
