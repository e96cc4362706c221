//! The servers: Linchpin, axum with tokio's broadcast channel, and a hand-written server that
//! encodes each message once and writes waiting frames in one system call.
//!
//! Each server creates a post at `POST /posts` and changes it at `PATCH /posts/{id}`. The change
//! sends a frame to each socket at `/__ws`. The Linchpin server commits the change, or only
//! publishes a frame.

use std::io::IoSlice;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Response, header};
use axum::routing::{get, patch, post};
use futures_util::SinkExt as _;
use hyper_util::rt::TokioIo;
use linchpin::http::OverrideCall;
use linchpin::prelude::*;
use linchpin::resource::Outcome as Answer;
use linchpin::{Config, Durability, Route};
use linchpin_benches::SECRET;
use linchpin_realtime::channel::{Declared, Rooms};
use linchpin_realtime::connection::Limits;
use linchpin_realtime::{Realtime, channel};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::broadcast;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use crate::Outcome;
use crate::posts::{POSTS, Post};

/// The changes of one post.
#[channel(of = Post, name = "live")]
pub enum PostLive {
    #[on(Post::updated)]
    Post(Post),
    #[publish]
    Announcement { text: String },
}

/// The length of an announcement. Its frame is as long as that of a change.
const ANNOUNCED: usize = 480;
/// The maximum number of frames that the hand-written server writes in one system call.
const BATCH: usize = 16;

pub(crate) async fn serve(name: &str, port: u16, url: &str) -> Outcome<()> {
    match name {
        "realtime-server" => ours(port, url, false).await,
        "publish-server" => ours(port, url, true).await,
        "broadcast-server" => by_hand(port, false).await,
        _ => by_hand(port, true).await,
    }
}

/// If `publishes` is true, a change is not committed: the handler only publishes its frame.
async fn ours(port: u16, url: &str, publishes: bool) -> Outcome<()> {
    let config = Config::new()
        .port(port)
        .signing_secret(SECRET)
        .database(url)
        .durability(Durability::Full);
    let realtime = Realtime::new(Declared::default().channel::<PostLive>()).configure(|config| {
        config.drain = Duration::ZERO;
        config.limits = Limits {
            connections_per_user: 100_000,
            connections_per_address: 100_000,
            connections_per_node: 100_000,
            handshakes_per_minute: 1_000_000,
            subscribes_per_minute: 1_000_000,
            // No ping during a measurement.
            heartbeat: Duration::from_mins(5),
            ..Limits::default()
        };
    });
    let app = App::new(config)
        .plugin(JwtAuth::new())
        .plugin(realtime)
        .package(&POSTS);
    let app = if publishes {
        app.override_route::<Post, _, _>(Route::Update, publish)
    } else {
        app
    };
    Ok(app.serve().await?)
}

async fn publish(call: OverrideCall) -> linchpin::Result<Answer> {
    let id: String = call.key()?;
    let text = "x".repeat(ANNOUNCED);
    let room = call.adapters.provided::<Rooms>()?.room::<PostLive>(&*id);
    room.publish(&call.cx, PostLive::Announcement { text })
        .await?;
    call.record(id).await
}

/// A message of a hand-written server: its text, and the bytes of its frame.
#[derive(Clone)]
struct Sent {
    text: Utf8Bytes,
    frame: Bytes,
}

#[derive(Clone)]
struct Shared {
    sender: broadcast::Sender<Sent>,
    /// Whether a socket writes the bytes as they are, without `tungstenite`.
    framed: bool,
}

async fn by_hand(port: u16, framed: bool) -> Outcome<()> {
    let (sender, _) = broadcast::channel(1_024);
    let router = axum::Router::new()
        .route("/posts", post(async || r#"{"id":"a"}"#))
        .route("/posts/{id}", patch(change))
        .route("/__ws", get(upgrade))
        .with_state(Shared { sender, framed });
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    Ok(axum::serve(listener, router).await?)
}

/// Sends a frame with the same content as that of our server: the record within its event.
async fn change(State(shared): State<Shared>, body: Bytes) -> &'static str {
    let changed = String::from_utf8_lossy(&body);
    let text = format!(
        r#"{{"event":"posts.updated","room":"posts:a:live","offset":1,"id":"018f0000-0000-7000-8000-000000000000","at":"2026-01-01T00:00:00.000Z","payload":{{"id":"018f0000-0000-7000-8000-000000000000","slug":"slug","title":"The title","status":"draft","views":0,"authorId":"author","createdAt":"2026-01-01T00:00:00.000Z","changed":{changed}}}}}"#
    );
    // The text has 126 to 65,535 bytes, so two bytes hold its length.
    let mut frame = vec![0x81, 126];
    frame.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    frame.extend_from_slice(text.as_bytes());
    // Sending fails while no socket is open.
    let _ = shared.sender.send(Sent {
        text: text.into(),
        frame: frame.into(),
    });
    "{}"
}

async fn upgrade(State(shared): State<Shared>, mut request: Request) -> Response<Body> {
    let upgraded = hyper::upgrade::on(&mut request);
    let mut messages = shared.sender.subscribe();
    tokio::spawn(async move {
        let Ok(upgraded) = upgraded.await else { return };
        let mut io = TokioIo::new(upgraded);
        if shared.framed {
            while let Some(first) = next(&mut messages).await {
                let more = std::iter::from_fn(|| messages.try_recv().ok());
                let frames: Vec<Sent> =
                    std::iter::once(first).chain(more.take(BATCH - 1)).collect();
                if write(&mut io, &frames).await.is_err() {
                    return;
                }
            }
            return;
        }
        let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
        while let Some(sent) = next(&mut messages).await {
            if socket.send(Message::Text(sent.text)).await.is_err() {
                return;
            }
        }
    });
    // The driver does not check the key.
    let mut response = Response::new(Body::empty());
    *response.status_mut() = axum::http::StatusCode::SWITCHING_PROTOCOLS;
    for (name, value) in [
        (header::CONNECTION, "upgrade"),
        (header::UPGRADE, "websocket"),
    ] {
        let value = axum::http::HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

async fn write(io: &mut TokioIo<hyper::upgrade::Upgraded>, frames: &[Sent]) -> std::io::Result<()> {
    if let [one] = frames {
        return io.write_all(&one.frame).await;
    }
    let mut slices: Vec<IoSlice<'_>> = frames
        .iter()
        .map(|sent| IoSlice::new(&sent.frame))
        .collect();
    let mut rest = &mut slices[..];
    while !rest.is_empty() {
        let n = io.write_vectored(rest).await?;
        IoSlice::advance_slices(&mut rest, n);
    }
    Ok(())
}

async fn next(messages: &mut broadcast::Receiver<Sent>) -> Option<Sent> {
    loop {
        match messages.recv().await {
            Ok(sent) => return Some(sent),
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return None,
        }
    }
}
