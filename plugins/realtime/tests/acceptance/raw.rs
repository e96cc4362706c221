//! A client that writes frames by hand and answers nothing by itself.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub struct Raw(TcpStream);

impl Raw {
    /// Opens a connection of the user of a token.
    pub async fn open(address: SocketAddr, token: &str) -> Self {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "GET /__ws HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(socket.read_u8().await.unwrap());
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
        let accept = "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
        assert!(
            answer
                .to_ascii_lowercase()
                .contains(&accept.to_ascii_lowercase()),
            "{answer}"
        );
        Self(socket)
    }

    /// Sends a text of at most 125 bytes.
    pub async fn send(&mut self, text: &str) {
        let length = u8::try_from(text.len()).unwrap();
        assert!(length <= 125);
        let mut frame = vec![0x81, 0x80 | length, 0, 0, 0, 0];
        frame.extend_from_slice(text.as_bytes());
        self.0.write_all(&frame).await.unwrap();
    }

    /// Reads until the close frame; returns its code and reason. `None` if there was none.
    pub async fn closed(&mut self) -> Option<(u16, String)> {
        loop {
            let opcode = self.0.read_u8().await.ok()? & 0x0f;
            let length = match self.0.read_u8().await.ok()? {
                126 => u64::from(self.0.read_u16().await.ok()?),
                127 => self.0.read_u64().await.ok()?,
                short => u64::from(short),
            };
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            self.0.read_exact(&mut payload).await.ok()?;
            if opcode == 8 {
                let code = u16::from_be_bytes([payload[0], payload[1]]);
                return Some((code, String::from_utf8(payload[2..].to_vec()).unwrap()));
            }
        }
    }
}
