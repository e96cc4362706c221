//! Serving on a port, and a stop that finishes all accepted requests.

use std::sync::Arc;
use std::time::Duration;

use axum::routing::get as on_get;
use linchpin::{App, BoxFuture, MiddlewareCx, Plugin, RoutesCx};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::fixture::{
    Diary, JSON, NOTES, Recorder, Routes, config, exchange, get, notes, rest, status,
};

#[tokio::test]
async fn health_and_documents_are_served() {
    let app = notes().start().await.unwrap();
    let at = app.address();
    for path in ["/health/live", "/health/ready", "/openapi.json", "/docs"] {
        assert_eq!(status(&get(at, path, "").await), "200", "{path}");
    }
    assert!(get(at, "/openapi.json", "").await.contains("\"/notes\""));
    app.stop().await.unwrap();
    let app = App::new(config().docs(false))
        .package(&NOTES)
        .start()
        .await
        .unwrap();
    assert_eq!(status(&get(app.address(), "/docs", "").await), "404");
    assert_eq!(status(&get(app.address(), "/health/live", "").await), "200");
    app.stop().await.unwrap();
}

/// A route that reports when it is reached, and waits for permission to respond.
fn slow(
    reached: &Arc<Notify>,
    go_on: &Arc<Notify>,
) -> Routes<impl Fn(&mut RoutesCx) + Send + Sync + 'static> {
    let (reached, go_on) = (Arc::clone(reached), Arc::clone(go_on));
    Routes(move |cx: &mut RoutesCx| {
        let (reached, go_on) = (Arc::clone(&reached), Arc::clone(&go_on));
        let handler = move || {
            let (reached, go_on) = (Arc::clone(&reached), Arc::clone(&go_on));
            async move {
                reached.notify_one();
                go_on.notified().await;
                "finished"
            }
        };
        cx.route("/slow", on_get(handler));
    })
}

#[tokio::test]
async fn a_stop_finishes_accepted_requests() {
    let (reached, go_on, diary) = (
        Arc::new(Notify::new()),
        Arc::new(Notify::new()),
        Diary::default(),
    );
    let app = notes()
        .plugin(slow(&reached, &go_on))
        .plugin(Recorder::new("last", &[], &diary))
        .start()
        .await
        .unwrap();
    let at = app.address();
    // An idle connection does not delay the stop.
    let mut idle = TcpStream::connect(at).await.unwrap();
    idle.write_all(b"GET /notes HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    let mut first = [0; 12];
    idle.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");

    let request = tokio::spawn(async move { get(at, "/slow", "").await });
    reached.notified().await;
    diary.read();
    let stop = tokio::spawn(app.stop());
    // New connections are refused while the old one is still served.
    let mut tries = 0;
    while TcpStream::connect(at).await.is_ok() {
        tries += 1;
        assert!(tries < 500, "the port stays open");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!stop.is_finished());
    assert_eq!(diary.read(), "", "no plugin is torn down during a request");
    go_on.notify_one();
    let answer = request.await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("finished"),
        "{answer}"
    );
    stop.await.unwrap().unwrap();
    assert_eq!(diary.read(), "last.teardown");
    rest(&mut idle).await;
}

#[tokio::test]
async fn a_stop_cuts_requests_after_the_grace_period() {
    let (reached, go_on, diary) = (
        Arc::new(Notify::new()),
        Arc::new(Notify::new()),
        Diary::default(),
    );
    let config = config().shutdown_grace(Duration::from_millis(200));
    let app = App::new(config)
        .plugin(slow(&reached, &go_on))
        .plugin(Recorder::new("last", &[], &diary))
        .start()
        .await
        .unwrap();
    let at = app.address();
    let request = tokio::spawn(async move { get(at, "/slow", "").await });
    reached.notified().await;
    // The request never ends by itself: a stop that waited for it would not return.
    app.stop().await.unwrap();
    assert_eq!(request.await.unwrap(), "", "the connection was cut");
    assert!(diary.read().ends_with("last.teardown"));
}

#[tokio::test]
async fn dropping_the_handle_stops_the_app() {
    let diary = Diary::default();
    let app = notes()
        .plugin(Recorder::new("last", &[], &diary))
        .start()
        .await
        .unwrap();
    let at = app.address();
    assert_eq!(
        status(&exchange(at, "POST", "/notes", JSON, r#"{"text":"a"}"#).await),
        "201"
    );
    drop(app);
    let mut tries = 0;
    while !diary.read().ends_with("last.teardown") {
        tries += 1;
        assert!(tries < 500, "the app still serves without its handle");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Invalid HTTP gets a response, even if more bytes follow.
#[tokio::test]
async fn invalid_requests_get_a_response() {
    let app = notes().start().await.unwrap();
    let many: String = (0..200)
        .map(|i| format!("x-{i}: y\r\n"))
        .fold(String::new(), |all, one| all + &one);
    let long = format!("x: {}\r\n", "y".repeat(100_000));
    let head = "GET /notes HTTP/1.1\r\nhost: localhost\r\n";
    for (request, expected) in [
        (format!("{head}{many}\r\n"), "431"),
        (format!("{head}{long}\r\n"), "431"),
        ("\u{16}\u{3}\u{1}\r\n\r\n".to_owned(), "400"),
        ("POST /notes HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n{}".to_owned(), "400"),
        (
            "POST /notes HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"
                .to_owned(),
            "400",
        ),
    ] {
        let mut stream = TcpStream::connect(app.address()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = vec![0; 512];
        let read = tokio::time::timeout(Duration::from_mins(1), stream.read(&mut answer)).await.unwrap().unwrap();
        let answer = String::from_utf8_lossy(&answer[..read]);
        assert_eq!(status(&answer), expected, "{}", &request[..40]);
        assert!(answer.contains("\"requestId\":\"") && answer.contains("x-request-id: "), "{answer}");
    }
    app.stop().await.unwrap();
}

/// The same on a connection that has served a request before.
#[tokio::test]
async fn an_invalid_second_request_gets_a_response() {
    let app = notes().start().await.unwrap();
    let mut stream = TcpStream::connect(app.address()).await.unwrap();
    let mut answer = vec![0; 4096];
    for (request, expected, code) in [
        (
            "GET /notes HTTP/1.1\r\nhost: localhost\r\n\r\n",
            "200",
            "\"items\"",
        ),
        (
            "GET /none HTTP/1.1\r\nhost: localhost\r\n\r\n",
            "404",
            "\"not_found\"",
        ),
        (
            "GET /notes\u{1} HTTP/1.1\r\nhost: localhost\r\n\r\n",
            "400",
            "\"validation_failed\"",
        ),
    ] {
        stream.write_all(request.as_bytes()).await.unwrap();
        let read = stream.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..read]);
        assert!(
            status(&answer) == expected && answer.contains(code),
            "{answer}"
        );
    }
    assert_eq!(
        stream.read(&mut answer).await.unwrap(),
        0,
        "the server reads no further request"
    );
    app.stop().await.unwrap();
}

#[tokio::test]
async fn pages_of_allowed_origins_may_read_responses() {
    let config = config().cors(["https://app.example"], true);
    let app = App::new(config).package(&NOTES).start().await.unwrap();
    let preflight = "origin: https://app.example\r\naccess-control-request-method: POST\r\n";
    let answer = exchange(app.address(), "OPTIONS", "/notes", preflight, "")
        .await
        .to_lowercase();
    assert!(
        answer.contains("access-control-allow-origin: https://app.example\r\n"),
        "{answer}"
    );
    assert!(
        answer.contains("access-control-allow-credentials: true"),
        "{answer}"
    );
    let missing = get(
        app.address(),
        "/notes/none",
        "origin: https://app.example\r\n",
    )
    .await
    .to_lowercase();
    assert!(
        status(&missing.to_uppercase()) == "404"
            && missing.contains("access-control-allow-origin: https://app.example"),
        "{missing}"
    );
    let other = get(app.address(), "/notes", "origin: https://evil.example\r\n")
        .await
        .to_lowercase();
    assert!(!other.contains("access-control-allow-origin"), "{other}");
    app.stop().await.unwrap();
}

/// A plugin that allows pages of these origins to read responses, with cookies if the flag is set.
struct Pages(&'static [&'static str], bool);

impl Plugin for Pages {
    fn name(&self) -> &'static str {
        "pages"
    }

    fn setup_middleware<'a>(
        &'a self,
        cx: &'a mut MiddlewareCx,
    ) -> BoxFuture<'a, linchpin::Result<()>> {
        assert_eq!(
            cx.allowed_origins()[0].origins.len(),
            2,
            "the origins of the app come first"
        );
        Box::pin(async { cx.allow_origins(self.0.iter().copied(), self.1) })
    }
}

#[tokio::test]
async fn plugins_allow_further_origins() {
    let app = || {
        App::new(config().cors(["https://app.example", "https://both.example"], false))
            .package(&NOTES)
    };
    let running = app()
        .plugin(Pages(
            &["https://spa.example", "https://both.example"],
            true,
        ))
        .start()
        .await
        .unwrap();
    // An origin has the permissions of every list that contains it. A list with cookies does not
    // allow cookies for origins that are only in other lists.
    for (origin, read, cookies) in [
        ("https://app.example", true, false),
        ("https://spa.example", true, true),
        ("https://both.example", true, true),
        ("https://evil.example", false, false),
    ] {
        let answer = get(
            running.address(),
            "/notes",
            &format!("origin: {origin}\r\n"),
        )
        .await
        .to_lowercase();
        assert_eq!(
            answer.contains(&format!("access-control-allow-origin: {origin}\r\n")),
            read,
            "{answer}"
        );
        assert_eq!(
            answer.contains("access-control-allow-credentials"),
            cookies,
            "{answer}"
        );
        assert!(answer.contains("vary: origin"), "{answer}");
    }
    running.stop().await.unwrap();
    for origin in ["*", "https://spa.example/", "spa.example"] {
        let error = app()
            .plugin(Pages(Box::leak(Box::new([origin])), true))
            .start()
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("plugin `pages` cannot start: an allowed origin must"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn the_document_has_the_title_and_version_of_the_app() {
    let plain = notes().start().await.unwrap();
    let answer = get(plain.address(), "/openapi.json", "").await;
    assert!(
        answer.contains(r#""title":"notes""#) && answer.contains(r#""version":"1.2.3""#),
        "{}",
        &answer[..400]
    );
    plain.stop().await.unwrap();
    let named = notes()
        .title("Notes of ours")
        .version("9")
        .start()
        .await
        .unwrap();
    let answer = get(named.address(), "/openapi.json", "").await;
    assert!(answer.contains(r#""title":"Notes of ours""#) && answer.contains(r#""version":"9""#));
    named.stop().await.unwrap();
    let closed = App::new(config().openapi(false))
        .package(&NOTES)
        .start()
        .await
        .unwrap();
    assert_eq!(
        status(&get(closed.address(), "/openapi.json", "").await),
        "404"
    );
    closed.stop().await.unwrap();
}

#[tokio::test]
async fn a_request_names_one_host() {
    let app = notes().start().await.unwrap();
    for head in ["", "host: a\r\nhost: b\r\n"] {
        let mut stream = tokio::net::TcpStream::connect(app.address()).await.unwrap();
        stream
            .write_all(format!("GET /notes HTTP/1.1\r\nconnection: close\r\n{head}\r\n").as_bytes())
            .await
            .unwrap();
        let answer = rest(&mut stream).await;
        assert!(
            status(&answer) == "400" && answer.contains("header:Host"),
            "{answer}"
        );
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let app = App::new(config().max_connections(2))
        .package(&NOTES)
        .start()
        .await
        .unwrap();
    let mut open = vec![
        open_used_connection(app.address()).await,
        open_used_connection(app.address()).await,
    ];
    let waiting = tokio::spawn({
        let address = app.address();
        async move { get(address, "/health/live", "").await }
    });
    // The server answers requests on the two open connections, and does not serve the third one.
    for _ in 0..100 {
        for stream in &mut open {
            request_again(stream).await;
        }
    }
    assert!(!waiting.is_finished(), "a third connection was served");
    open.pop();
    assert_eq!(status(&waiting.await.unwrap()), "200");
    app.stop().await.unwrap();
}

/// Opens a connection, gets one response and keeps the connection open.
async fn open_used_connection(at: std::net::SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(at).await.unwrap();
    request_again(&mut stream).await;
    stream
}

/// Sends a request and waits for the head of the response. The rest of the previous response comes
/// first.
async fn request_again(stream: &mut TcpStream) {
    stream
        .write_all(b"GET /health/live HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    let mut seen = Vec::new();
    while !seen.windows(12).any(|part| part == b"HTTP/1.1 200") {
        assert!(
            stream.read_buf(&mut seen).await.unwrap() > 0,
            "closed: {seen:?}"
        );
    }
}

#[tokio::test]
async fn bodies_being_read_share_a_memory_limit() {
    let app = App::new(config().bodies_mib(1))
        .package(&NOTES)
        .start()
        .await
        .unwrap();
    // The first request is passed to the service directly, not over a socket. The server asks for
    // the second part of the body only after it has reserved memory for the first part.
    let (first_reserved, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (reserved_signal, go_on_signal) = (Arc::clone(&first_reserved), Arc::clone(&go_on));
    let parts = futures_util::stream::unfold(0, move |sent| {
        let (reserved_signal, go_on_signal) =
            (Arc::clone(&reserved_signal), Arc::clone(&go_on_signal));
        async move {
            let length = match sent {
                0 => 900_000,
                900_000 => {
                    reserved_signal.notify_one();
                    go_on_signal.notified().await;
                    100_000
                }
                _ => return None,
            };
            let part = Ok::<_, std::io::Error>(vec![b' '; length]);
            Some((part, sent + length))
        }
    });
    let request = axum::http::Request::post("/notes")
        .header("content-type", "application/json")
        .body(axum::body::Body::from_stream(parts))
        .unwrap();
    let first = tokio::spawn(tower_service::Service::call(&mut app.service(), request));
    first_reserved.notified().await;
    let answer = loop {
        let mut second = TcpStream::connect(app.address()).await.unwrap();
        let head = "POST /notes HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 900000\r\n\r\n";
        second.write_all(head.as_bytes()).await.unwrap();
        // If the body of a refused request does not arrive soon, the server closes the connection,
        // and the response can be lost.
        drop(second.write_all(&vec![b' '; 900_000]).await);
        let mut answer = Vec::new();
        drop(second.read_to_end(&mut answer).await);
        if !answer.is_empty() {
            break String::from_utf8(answer).unwrap();
        }
    };
    assert_eq!(status(&answer), "503", "{answer}");
    assert!(
        answer.contains("retry-after: 1") && answer.contains("\"unavailable\""),
        "{answer}"
    );
    // Accepted requests continue.
    go_on.notify_one();
    assert_eq!(first.await.unwrap().unwrap().status(), 400);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn an_address_may_use_its_share_of_connections_only() {
    let app = App::new(config().connections_per_address(2))
        .package(&NOTES)
        .start()
        .await
        .unwrap();
    let at = app.address();
    let mut open = vec![
        open_used_connection(at).await,
        open_used_connection(at).await,
    ];
    let mut third = TcpStream::connect(at).await.unwrap();
    let answer = rest(&mut third).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 503 ")
            && head.contains("retry-after: 1")
            && head.contains("connection: close"),
        "{answer}"
    );
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["code"], "unavailable");
    // The server releases the slot of a closed connection a moment later.
    open.pop();
    loop {
        let mut stream = TcpStream::connect(at).await.unwrap();
        // A connection that is refused before its request is read may end without a response.
        drop(
            stream
                .write_all(b"GET /health/live HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
                .await,
        );
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer).await);
        if answer.starts_with(b"HTTP/1.1 200") {
            break;
        }
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 503"),
            "{answer:?}"
        );
    }
    app.stop().await.unwrap();
}

/// The test clock advances only for timers: the first timeout that fires ends the connection.
#[tokio::test(start_paused = true)]
async fn silent_connections_time_out_before_idle_ones() {
    let app = notes().start().await.unwrap();
    let mut idle = open_used_connection(app.address()).await;
    let (mut silent, mut slow) = (
        TcpStream::connect(app.address()).await.unwrap(),
        TcpStream::connect(app.address()).await.unwrap(),
    );
    slow.write_all(b"GET /health/live HTTP/1.1\r\nhos")
        .await
        .unwrap();
    // Tokio's clock is paused and advances only when all tasks are idle, so it is exact on a busy
    // machine.
    let began = tokio::time::Instant::now();
    assert_eq!(rest(&mut silent).await, "");
    assert_eq!(rest(&mut slow).await, "");
    let waited = began.elapsed();
    // After the first request, a connection may idle for longer.
    idle.read_to_end(&mut Vec::new()).await.unwrap();
    assert!(
        waited.as_secs() < 12 && began.elapsed().as_secs() > 20,
        "{waited:?}, then {:?}",
        began.elapsed()
    );
    app.stop().await.unwrap();
}
