//! An HTTP client over a plain connection. It returns the response without changes.

use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use serde_json::Value as Json;

use crate::session::Server;

/// A caller of a server.
pub struct Client {
    port: u16,
    token: Option<String>,
}

/// A response: the status, the headers in lower case, and the body as JSON; null without a body.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Json,
}

impl Client {
    /// An anonymous caller.
    pub fn anonymous(server: &Server) -> Self {
        Self {
            port: server.port,
            token: None,
        }
    }

    /// A user with roles, named `NAME@example.com`, with a token that the app's program prints.
    pub fn user(server: &Server, name: &str, roles: &[&str]) -> Self {
        let email = format!("{name}@example.com");
        let arguments: Vec<&str> = ["token", &email]
            .into_iter()
            .chain(roles.iter().flat_map(|role| ["--role", role]))
            .collect();
        Self {
            port: server.port,
            token: Some(server.printed(&arguments).trim().to_owned()),
        }
    }

    /// A caller with this token.
    pub fn bearer(&self, token: &str) -> Self {
        Self {
            port: self.port,
            token: Some(token.to_owned()),
        }
    }

    /// The same user on a server that was started later.
    pub fn at(&self, server: &Server) -> Self {
        Self {
            port: server.port,
            token: self.token.clone(),
        }
    }

    /// The id of the account of the caller.
    pub fn id(&self) -> String {
        self.ask("GET", "/auth/me", "").body["id"]
            .as_str()
            .expect("an id")
            .to_owned()
    }

    /// Sends a request with a body.
    pub fn send(&self, method: &str, path: &str, body: Json) -> Reply {
        self.call(method, path, "", &body.to_string())
    }

    /// Sends a request without a body. `headers` are complete lines.
    pub fn ask(&self, method: &str, path: &str, headers: &str) -> Reply {
        self.call(method, path, headers, "")
    }

    /// Sends a request with a body and the version of the record (`If-Match`).
    pub fn call_with_version(&self, method: &str, path: &str, version: u32, body: Json) -> Reply {
        self.call(
            method,
            path,
            &format!("if-match: \"{version}\"\r\n"),
            &body.to_string(),
        )
    }

    /// Sends a `GET` and returns the response as a stream of its head and body. A read fails after
    /// 20 seconds without a byte.
    pub fn open(&self, path: &str) -> BufReader<TcpStream> {
        let mut stream =
            TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("the application listens");
        stream
            .set_read_timeout(Some(Duration::from_mins(1)))
            .expect("a limit");
        let token = self.authorization();
        let head =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{token}\r\n");
        stream.write_all(head.as_bytes()).expect("sent");
        BufReader::new(stream)
    }

    fn authorization(&self) -> String {
        self.token
            .as_ref()
            .map(|token| format!("authorization: Bearer {token}\r\n"))
            .unwrap_or_default()
    }

    fn call(&self, method: &str, path: &str, headers: &str, body: &str) -> Reply {
        let mut stream =
            TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("the application listens");
        let token = self.authorization();
        let kind = if body.is_empty() {
            String::new()
        } else {
            format!(
                "content-type: application/json\r\ncontent-length: {}\r\n",
                body.len()
            )
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{token}{kind}{headers}\r\n"
        );
        stream.write_all((head + body).as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .expect("a status");
        let body = if body.is_empty() {
            Json::Null
        } else {
            serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {body}"))
        };
        Reply {
            status,
            head: head.to_lowercase(),
            body,
        }
    }
}
