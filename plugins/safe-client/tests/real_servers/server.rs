//! A server with scripted responses.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A server on a free port of this machine.
pub struct Server {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: mpsc::UnboundedReceiver<String>,
}

impl Server {
    /// Answers every request with these bytes, and closes the connection.
    pub async fn answering(response: impl Into<Vec<u8>>) -> Self {
        let response = Arc::new(response.into());
        Self::serving(move |mut stream: TcpStream| {
            let response = Arc::clone(&response);
            async move {
                // The client may close the connection before it has read the whole response.
                let _ = stream.write_all(&response).await;
            }
        })
        .await
    }

    /// Reads the request of every connection, and then passes the connection to `then`.
    pub async fn serving<F, R>(then: F) -> Self
    where
        F: Fn(TcpStream) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (seen, requests) = mpsc::unbounded_channel();
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            let then = Arc::new(then);
            while let Ok((mut stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (then, seen) = (Arc::clone(&then), seen.clone());
                tokio::spawn(async move {
                    let request = read(&mut stream).await;
                    let _ = seen.send(request);
                    then(stream).await;
                });
            }
        });
        Self {
            address,
            connections,
            requests,
        }
    }

    /// The number of accepted connections.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook?a=1", self.address)
    }

    /// The next request, as it was read.
    pub async fn request(&mut self) -> String {
        self.requests.recv().await.unwrap()
    }
}

/// Reads a head, and a body of the length in the head.
async fn read(stream: &mut TcpStream) -> String {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return text;
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return text,
            Ok(read) => all.extend_from_slice(&buffer[..read]),
        }
    }
}
