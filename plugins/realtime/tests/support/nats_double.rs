//! A test double of a NATS server. It accepts one client, and supports only the start of a
//! connection.

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

/// Starts a server that reports this version. Returns its port.
pub async fn server_with_version(version: &str) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let greeting = json!({
        "server_id": "A", "server_name": "a", "version": version, "proto": 1, "host": "127.0.0.1",
        "port": port, "headers": true, "max_payload": 1 << 20, "jetstream": true,
    });
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let mut socket = BufReader::new(socket);
        let greeting = format!("INFO {greeting}\r\n");
        socket.write_all(greeting.as_bytes()).await.unwrap();
        let mut line = String::new();
        while socket
            .read_line(&mut line)
            .await
            .is_ok_and(|length| length > 0)
        {
            if line.starts_with("PING") {
                socket.write_all(b"PONG\r\n").await.unwrap();
            }
            line.clear();
        }
    });
    port
}
