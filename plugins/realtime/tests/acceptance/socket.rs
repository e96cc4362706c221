//! A client of the WebSocket protocol.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value as Json, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue, Request};
use tokio_tungstenite::tungstenite::{Error, protocol::CloseFrame};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

/// The longest wait for a frame. It only ends tests that fail.
const RECEIVE_TIMEOUT: Duration = Duration::from_mins(1);

pub struct Socket(pub WebSocketStream<MaybeTlsStream<TcpStream>>);

/// The answer to a refused handshake.
#[derive(Debug)]
pub struct Refused {
    pub status: u16,
    pub code: String,
    pub headers: linchpin::axum::http::HeaderMap,
}

impl Socket {
    /// Opens a connection with these headers.
    pub async fn open(address: SocketAddr, headers: &[(&str, &str)]) -> Self {
        Self::handshake(address, "/__ws", headers).await.unwrap()
    }

    /// Opens a connection, or returns the refusal.
    pub async fn handshake(
        address: SocketAddr,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Self, Refused> {
        match connect_async(request(address, path, headers)).await {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(Error::Http(response)) => {
                let body = response.body().as_deref().unwrap_or_default();
                let body: Json = serde_json::from_slice(body).unwrap_or_default();
                Err(Refused {
                    status: response.status().as_u16(),
                    code: body["code"].as_str().unwrap_or_default().to_owned(),
                    headers: response.headers().clone(),
                })
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// Opens a connection. Returns `None` if the server does not answer or refuses it.
    pub async fn attempt(address: SocketAddr, headers: &[(&str, &str)]) -> Option<Self> {
        let opened = connect_async(request(address, "/__ws", headers)).await;
        opened.ok().map(|(socket, _)| Self(socket))
    }

    pub async fn send(&mut self, frame: Json) {
        self.text(&frame.to_string()).await;
    }

    pub async fn text(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.unwrap();
    }

    /// Returns the next frame.
    pub async fn next(&mut self) -> Json {
        match self.message().await {
            Ok(frame) => frame,
            Err(close) => panic!("the connection was closed: {close:?}"),
        }
    }

    /// Returns the next frame, or the close frame if the connection has ended.
    pub async fn message(&mut self) -> Result<Json, Option<CloseFrame>> {
        loop {
            let message = timeout(RECEIVE_TIMEOUT, self.0.next())
                .await
                .expect("a frame");
            match message {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(frame))) => return Err(frame),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    /// Returns the next frame of this event, and skips other frames before it.
    pub async fn until(&mut self, event: &str) -> Json {
        loop {
            let frame = self.next().await;
            if frame["event"] == event {
                return frame;
            }
        }
    }

    /// Returns the code and reason with which the server closes the connection.
    pub async fn closed(&mut self) -> (u16, String) {
        loop {
            if let Err(close) = self.message().await {
                let close = close.expect("a close frame");
                return (close.code.into(), close.reason.to_string());
            }
        }
    }

    /// Joins a room. Returns the answer.
    pub async fn join(&mut self, room: &str) -> Json {
        self.send(json!({ "action": "subscribe", "room": room }))
            .await;
        let answer = self.until("subscribed").await;
        assert_eq!(answer["room"], room);
        answer
    }

    /// Sends a frame, and returns all frames that arrive before the answer to it.
    ///
    /// Events of commits may arrive later than this answer. First wait for a frame that follows the
    /// events, for example a frame that code publishes after the commits.
    pub async fn pending(&mut self) -> Vec<Json> {
        let room = "x";
        self.send(json!({ "action": "unsubscribe", "room": room, "ref": "pending" }))
            .await;
        let mut frames = Vec::new();
        loop {
            let frame = self.next().await;
            if frame["ref"] == "pending" {
                return frames;
            }
            frames.push(frame);
        }
    }
}

/// Returns the request of a handshake.
fn request(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Request<()> {
    let request = format!("ws://{address}{path}").into_client_request();
    let mut request = request.unwrap();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        let value = HeaderValue::from_str(value).unwrap();
        request.headers_mut().insert(name, value);
    }
    request
}
