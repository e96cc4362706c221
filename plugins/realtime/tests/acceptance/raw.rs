//! A client that sends raw bytes and never answers automatically.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value as Json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The longest wait for bytes. It only ends tests that fail.
const RECEIVE_TIMEOUT: Duration = Duration::from_mins(1);

/// The first byte of a frame: its opcode, with [`FIN`] for the last frame of a message.
pub const FIN: u8 = 0x80;
pub const TEXT: u8 = 1;
pub const BINARY: u8 = 2;
pub const CLOSE: u8 = 8;
pub const PING: u8 = 9;
pub const PONG: u8 = 10;

pub struct Raw(TcpStream);

impl Raw {
    /// Opens a connection with the token of a user.
    pub async fn open(address: SocketAddr, token: &str) -> Self {
        let head = format!(
            "GET /__ws HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        let (raw, answer) = Self::request(address, head.as_bytes()).await;
        assert!(answer.starts_with("http/1.1 101"), "{answer}");
        let accept = "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=";
        assert!(answer.contains(accept), "{answer}");
        raw
    }

    /// Sends a request. Returns the status line and the headers of the answer in lower case.
    pub async fn request(address: SocketAddr, bytes: &[u8]) -> (Self, String) {
        let mut raw = Self(TcpStream::connect(address).await.unwrap());
        raw.0.set_nodelay(true).unwrap();
        raw.bytes(bytes).await;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let next = timeout(RECEIVE_TIMEOUT, raw.0.read_u8()).await;
            answer.push(next.expect("an answer").unwrap());
        }
        let answer = String::from_utf8(answer).unwrap();
        (raw, answer.to_ascii_lowercase())
    }

    /// Writes bytes. The server may have closed the connection before.
    pub async fn bytes(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes).await;
    }

    /// Sends a text in one frame.
    pub async fn send(&mut self, text: &str) {
        self.bytes(&frame(FIN | TEXT, text.as_bytes())).await;
    }

    /// Returns the first byte and the payload of the next frame; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        timeout(RECEIVE_TIMEOUT, self.read())
            .await
            .expect("a frame")
    }

    async fn read(&mut self) -> Option<(u8, Vec<u8>)> {
        let first = self.0.read_u8().await.ok()?;
        let length = match self.0.read_u8().await.ok()? {
            126 => u64::from(self.0.read_u16().await.ok()?),
            127 => self.0.read_u64().await.ok()?,
            short => {
                assert!(short < 126, "a server does not mask its frames");
                u64::from(short)
            }
        };
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.0.read_exact(&mut payload).await.ok()?;
        Some((first, payload))
    }

    /// Returns the next text frame.
    pub async fn json(&mut self) -> Json {
        match self.next().await {
            Some((first, text)) if first == FIN | TEXT => serde_json::from_slice(&text).unwrap(),
            other => panic!("not a text frame: {other:?}"),
        }
    }

    /// Reads until the close frame. Returns its code and reason, or `None` if there was none.
    pub async fn closed(&mut self) -> Option<(u16, String)> {
        loop {
            let (first, payload) = self.next().await?;
            if first == FIN | CLOSE {
                let code = u16::from_be_bytes([payload[0], payload[1]]);
                return Some((code, String::from_utf8(payload[2..].to_vec()).unwrap()));
            }
        }
    }
}

/// Returns a masked frame.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    let mut bytes = head(first, payload.len());
    bytes.extend_from_slice(&MASK);
    bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(b, m)| b ^ m));
    bytes
}

/// Returns the first bytes of a masked frame, up to its mask, with the shortest form of the length.
pub fn head(first: u8, length: usize) -> Vec<u8> {
    let mut bytes = vec![first];
    match length {
        0..126 => bytes.push(0x80 | length as u8),
        126..65_536 => {
            bytes.push(0x80 | 0x7e);
            bytes.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            bytes.push(0x80 | 0x7f);
            bytes.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    bytes
}
