//! Connections that leave HTTP for another protocol.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::header::{AsHeaderName, CONNECTION, UPGRADE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use bytes::{Buf, Bytes};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::Code;
use crate::resource::BoxFuture;

/// The error code if a request to a route with another protocol does not ask for an upgrade.
pub(crate) const UPGRADE_REQUIRED: Code = Code::Other(426, "upgrade_required");

/// The function that speaks the other protocol.
type Run = Box<dyn FnOnce(Socket) -> BoxFuture<'static, ()> + Send>;

/// The right to change the protocol of a connection, for one response.
pub struct Upgrade {
    on_upgrade: OnUpgrade,
    protocol: &'static str,
    /// The slot of the connection, if the app's listener has accepted it; `None` under another
    /// server.
    slot: Option<SocketSlot>,
}

impl Upgrade {
    /// The upgrade of a request that asks for a protocol; `None` if the request does not ask for
    /// it, or if the connection cannot change its protocol. The router also uses the `GET` route
    /// for `HEAD`, but a `HEAD` request cannot change the protocol.
    pub(super) fn of(parts: &Parts, protocol: &'static str) -> Option<Self> {
        let on_upgrade = parts.extensions.get::<OnUpgrade>()?;
        let asks = parts.method != Method::HEAD
            && has_element(&parts.headers, CONNECTION, "upgrade")
            && has_element(&parts.headers, UPGRADE, protocol);
        asks.then(|| Self {
            on_upgrade: on_upgrade.clone(),
            protocol,
            slot: parts.extensions.get().cloned(),
        })
    }

    /// The protocol that the route declares.
    pub fn protocol(&self) -> &'static str {
        self.protocol
    }

    /// Runs a function after the connection has changed its protocol.
    pub(super) fn then(self, run: Run) {
        let task = SocketTask {
            on_upgrade: self.on_upgrade,
            run,
        };
        match self.slot {
            Some(slot) => *slot.0.lock() = Some(task),
            // Another server does not run the task, so it is spawned here.
            None => drop(tokio::spawn(task.run(Socket::wrapped))),
        }
    }
}

impl fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgrade")
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}

/// Whether a header that is a list has an element.
fn has_element(headers: &HeaderMap, name: impl AsHeaderName, element: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .any(|one| one.trim().eq_ignore_ascii_case(element))
}

/// A slot of a connection for the function that runs after the change of protocol. The listener
/// adds it to requests that ask for a change.
#[derive(Clone, Default)]
pub(crate) struct SocketSlot(Arc<Mutex<Option<SocketTask>>>);

impl SocketSlot {
    /// Takes the function.
    pub(crate) fn take(&self) -> Option<SocketTask> {
        self.0.lock().take()
    }
}

/// A function that runs with the socket after the change of protocol.
pub(crate) struct SocketTask {
    on_upgrade: OnUpgrade,
    run: Run,
}

impl SocketTask {
    /// Waits until the connection has changed, and runs the function. Does nothing if the client
    /// has left before.
    pub(crate) async fn run(self, socket: impl FnOnce(Upgraded) -> Socket) {
        match self.on_upgrade.await {
            Ok(upgraded) => (self.run)(socket(upgraded)).await,
            Err(error) => tracing::debug!(%error, "the connection did not change its protocol"),
        }
    }
}

/// The socket of a connection that has left HTTP. It reads and writes bytes without time limits and
/// without a buffer.
pub struct Socket(Io);

enum Io {
    /// The socket itself, and the bytes after the request that were read together with it.
    Own(TcpStream, Bytes),
    /// A connection of another server.
    Wrapped(TokioIo<Upgraded>),
}

impl Socket {
    /// The socket of a connection, with the bytes that were read already.
    pub(crate) fn new(stream: TcpStream, read: &Bytes) -> Self {
        // A copy: even an empty slice would keep the buffer of the whole request alive, 8 KiB for
        // each socket.
        Self(Io::Own(stream, Bytes::copy_from_slice(read)))
    }

    /// A connection that another server has accepted.
    pub(crate) fn wrapped(upgraded: Upgraded) -> Self {
        Self(Io::Wrapped(TokioIo::new(upgraded)))
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").finish_non_exhaustive()
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Io::Own(stream, read) if read.is_empty() => Pin::new(stream).poll_read(cx, into),
            Io::Own(_, read) => {
                let n = read.len().min(into.remaining());
                into.put_slice(&read[..n]);
                read.advance(n);
                if read.is_empty() {
                    // An empty slice would keep its memory.
                    *read = Bytes::new();
                }
                Poll::Ready(Ok(()))
            }
            Io::Wrapped(io) => Pin::new(io).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Io::Own(stream, _) => Pin::new(stream).poll_write(cx, bytes),
            Io::Wrapped(io) => Pin::new(io).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Io::Own(stream, _) => Pin::new(stream).poll_write_vectored(cx, bytes),
            Io::Wrapped(io) => Pin::new(io).poll_write_vectored(cx, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.0 {
            Io::Own(stream, _) => stream.is_write_vectored(),
            Io::Wrapped(io) => io.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Io::Own(stream, _) => Pin::new(stream).poll_flush(cx),
            Io::Wrapped(io) => Pin::new(io).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Io::Own(stream, _) => Pin::new(stream).poll_shutdown(cx),
            Io::Wrapped(io) => Pin::new(io).poll_shutdown(cx),
        }
    }
}
