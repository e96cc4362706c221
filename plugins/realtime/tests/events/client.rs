//! A client of streams that returns all received text.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The longest wait for a block. It is never reached unless the test fails.
const RECEIVE_TIMEOUT: Duration = Duration::from_mins(1);

/// A response that is read while the server writes it.
pub struct Events {
    socket: TcpStream,
    /// Bytes of the response that are not decoded yet.
    raw: Vec<u8>,
    /// Decoded text that was not returned yet.
    text: String,
    pub status: u16,
    /// The status line and the headers, in lower case.
    pub head: String,
    ended: bool,
}

/// An event in the form in which a browser fires it.
#[derive(Debug, PartialEq, Eq)]
pub struct Fired {
    pub event: String,
    pub id: Option<String>,
    pub data: String,
}

impl Events {
    /// Sends a request and reads the head of the response.
    pub async fn open(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Self {
        Self::request(address, "GET", path, headers).await
    }

    pub async fn request(
        address: SocketAddr,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Self {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(
                timeout(RECEIVE_TIMEOUT, socket.read_u8())
                    .await
                    .unwrap()
                    .unwrap(),
            );
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self {
            socket,
            raw: Vec::new(),
            text: String::new(),
            status,
            head,
            ended: false,
        }
    }

    /// Returns the value of a header; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        let line = self.head.lines().find_map(|line| {
            let (own, value) = line.split_once(": ")?;
            (own == name).then_some(value)
        });
        line.unwrap_or("")
    }

    /// Returns the next block with its empty line; empty at the end of the response.
    pub async fn block(&mut self) -> String {
        let next = timeout(RECEIVE_TIMEOUT, self.read_block()).await;
        next.unwrap_or_else(|_| panic!("no block arrived; unread: {:?}", self.text))
    }

    async fn read_block(&mut self) -> String {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let rest = self.text.split_off(end + 2);
                return std::mem::replace(&mut self.text, rest);
            }
            if self.ended {
                assert_eq!(self.text, "", "the response ends within a block");
                return String::new();
            }
            self.decode().await;
        }
    }

    /// Returns the next event, and skips comments. Returns `None` at the end of the response.
    pub async fn event(&mut self) -> Option<Fired> {
        loop {
            let block = self.block().await;
            if block.is_empty() {
                return None;
            }
            let value = |name: &str| {
                let mut lines = block.lines().filter_map(|line| line.strip_prefix(name));
                let value = lines.next().map(str::to_owned);
                assert_eq!(lines.next(), None, "one line of each kind");
                value
            };
            if let Some(data) = value("data: ") {
                return Some(Fired {
                    event: value("event: ").unwrap(),
                    id: value("id: "),
                    data,
                });
            }
        }
    }

    /// Reads the rest of a response with a content length.
    pub async fn rest(mut self) -> String {
        let length = self.header("content-length").parse().unwrap();
        let mut body = vec![0; length];
        self.socket.read_exact(&mut body).await.unwrap();
        String::from_utf8(body).unwrap()
    }

    /// Reads one chunk of the body.
    async fn decode(&mut self) {
        loop {
            let line = self.raw.windows(2).position(|pair| pair == b"\r\n");
            if let Some(line) = line {
                let length = std::str::from_utf8(&self.raw[..line]).unwrap();
                let length = usize::from_str_radix(length, 16).unwrap();
                let end = line + 2 + length;
                if self.raw.len() >= end + 2 {
                    let chunk = String::from_utf8(self.raw[line + 2..end].to_vec()).unwrap();
                    self.text.push_str(&chunk);
                    self.raw.drain(..end + 2);
                    self.ended = length == 0;
                    return;
                }
            }
            if self.socket.read_buf(&mut self.raw).await.unwrap() == 0 {
                self.ended = true;
                return;
            }
        }
    }
}
