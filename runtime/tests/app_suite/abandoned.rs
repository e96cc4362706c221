//! Clients that disconnect before the response, and clients that only close their side of the
//! connection.
//!
//! The test clock advances only for timers: it measures durations exactly, even on a busy machine.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::routing::get as on_get;
use linchpin::{Plugin, RoutesCx, Running};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::fixture::{Routes, notes, status};

/// Notifies when it is dropped.
struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[derive(Clone, Default)]
struct Signals {
    reached: Arc<Notify>,
    dropped: Arc<Notify>,
}

/// `/never` sends no response, `/late` responds after three seconds, `/parts` responds in four
/// parts three seconds apart, and the response of `/begun` has no end.
fn slow_routes(signals: &Signals) -> impl Plugin + use<> {
    let signals = signals.clone();
    Routes(move |cx: &mut RoutesCx| {
        let never = signals.clone();
        cx.route(
            "/never",
            on_get(move || async move {
                let _held = Dropped(never.dropped);
                never.reached.notify_one();
                std::future::pending::<&str>().await
            }),
        );
        cx.route(
            "/late",
            on_get(|| async {
                tokio::time::sleep(Duration::from_secs(3)).await;
                "late"
            }),
        );
        cx.route(
            "/parts",
            on_get(|| async {
                Body::from_stream(futures_util::stream::unfold(0, |n| async move {
                    if n == 4 {
                        return None;
                    }
                    tokio::time::sleep(Duration::from_secs(3)).await;
                    Some((
                        Ok::<_, std::io::Error>(Bytes::from(format!("<{n}>"))),
                        n + 1,
                    ))
                }))
            }),
        );
        let begun = signals.clone();
        cx.route(
            "/begun",
            on_get(move || async move {
                let drop_signal = Dropped(begun.dropped);
                begun.reached.notify_one();
                Body::from_stream(futures_util::stream::unfold(
                    drop_signal,
                    |drop_signal| async move {
                        std::future::pending::<()>().await;
                        Some((Ok::<_, std::io::Error>(Bytes::new()), drop_signal))
                    },
                ))
            }),
        );
    })
}

async fn started(signals: &Signals) -> Running {
    notes().plugin(slow_routes(signals)).start().await.unwrap()
}

async fn send_request(app: &Running, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(app.address()).await.unwrap();
    stream
        .write_all(
            format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").as_bytes(),
        )
        .await
        .unwrap();
    stream
}

#[tokio::test(start_paused = true)]
async fn a_request_of_a_disconnected_client_is_dropped() {
    let signals = Signals::default();
    let app = started(&signals).await;
    for path in ["/never", "/begun"] {
        // First a client that has disconnected, then a client that has only closed its side. The
        // server cannot distinguish the two.
        for closes_only_its_side in [false, true] {
            let began = Instant::now();
            let mut stream = send_request(&app, path).await;
            signals.reached.notified().await;
            let mut open_stream = None;
            if closes_only_its_side {
                stream.shutdown().await.unwrap();
                open_stream = Some(stream);
            } else {
                drop(stream);
            }
            signals.dropped.notified().await;
            let took = began.elapsed();
            assert!(
                took < Duration::from_secs(8),
                "{path} was kept for {took:?}"
            );
            drop(open_stream);
        }
    }
    app.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reset_connection_is_noticed_at_once() {
    let signals = Signals::default();
    let app = started(&signals).await;
    let began = Instant::now();
    let stream = send_request(&app, "/never").await;
    signals.reached.notified().await;
    // The server receives a TCP reset instead of the normal end of the connection.
    stream.set_zero_linger().unwrap();
    drop(stream);
    signals.dropped.notified().await;
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    app.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_closes_its_side_gets_the_whole_response() {
    let signals = Signals::default();
    let app = started(&signals).await;
    for (path, expected) in [("/late", "late"), ("/parts", "<3>")] {
        let mut stream = send_request(&app, path).await;
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(
            status(&answer) == "200" && answer.contains(expected),
            "{path}: {answer}"
        );
    }
    app.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiting_client_is_not_treated_as_disconnected() {
    let signals = Signals::default();
    let app = started(&signals).await;
    // With and without a request that is sent before the response to the first one.
    for next_request in [
        "",
        "GET /health/live HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(app.address()).await.unwrap();
        stream
            .write_all(format!("GET /parts HTTP/1.1\r\nhost: a\r\n\r\n{next_request}").as_bytes())
            .await
            .unwrap();
        // The connection stays open until all responses have arrived.
        let answered = if next_request.is_empty() { 1 } else { 2 };
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains("<3>")
            || String::from_utf8_lossy(&seen)
                .matches("HTTP/1.1 200")
                .count()
                < answered
        {
            assert!(
                stream.read_buf(&mut seen).await.unwrap() > 0,
                "closed: {}",
                String::from_utf8_lossy(&seen)
            );
        }
    }
    app.stop().await.unwrap();
}
