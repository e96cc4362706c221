//! Adds a body to the responses that the HTTP library writes itself. A request that cannot be
//! parsed does not reach the service; the HTTP library refuses it without a body. An exchange is a
//! request with its response. If the HTTP library writes bytes between two exchanges, these bytes
//! are such a refusal.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::SocketTask;

/// Tracks whether a connection is between two exchanges. It is used by one task only; the atomics
/// make it `Send`.
#[derive(Clone, Default)]
pub(super) struct Exchange(Arc<State>);

#[derive(Default)]
struct State {
    /// The number of requests in the service whose responses are not dropped yet.
    open: AtomicUsize,
    /// Whether a part of a response may not be flushed yet.
    unflushed: AtomicBool,
    /// Whether the connection was upgraded to another protocol.
    upgraded: AtomicBool,
    /// Whether any request has reached the service.
    begun: AtomicBool,
    /// The time limit in milliseconds for a client that does not read the current response; 0 if
    /// the response sets no limit.
    unread: AtomicU64,
    /// The function that takes over the socket after the change of protocol.
    socket: Mutex<Option<SocketTask>>,
}

impl Exchange {
    /// Begins an exchange, because a request has reached the service. The exchange lasts until its
    /// response is dropped and flushed.
    pub(super) fn begin(&self) -> OpenExchange {
        self.0.open.fetch_add(1, Relaxed);
        self.0.unflushed.store(true, Relaxed);
        self.0.begun.store(true, Relaxed);
        self.0.unread.store(0, Relaxed);
        OpenExchange(self.clone())
    }

    /// Sets the time limit for a client that does not read the current response.
    pub(super) fn limit_unread(&self, limit: Duration) {
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.0.unread.store(millis.max(1), Relaxed);
    }

    /// The time limit for a client that does not read the current response, if the response sets
    /// one.
    pub(super) fn unread_limit(&self) -> Option<Duration> {
        let millis = self.0.unread.load(Relaxed);
        (millis > 0).then(|| Duration::from_millis(millis))
    }

    /// Whether there has been any request.
    pub(super) fn has_begun(&self) -> bool {
        self.0.begun.load(Relaxed)
    }

    /// Marks the connection as upgraded: from now on its bytes are not HTTP. `socket` speaks the
    /// other protocol; it is `None` if a router of the app speaks it.
    pub(super) fn upgrade(&self, socket: Option<SocketTask>) {
        self.0.upgraded.store(true, Relaxed);
        *self.0.socket.lock() = socket;
    }

    /// Takes the function that speaks the other protocol.
    pub(super) fn take_socket(&self) -> Option<SocketTask> {
        self.0.socket.lock().take()
    }

    /// Whether a request waits for its response, or for the rest of it.
    pub(super) fn is_answering(&self) -> bool {
        self.0.open.load(Relaxed) > 0 && !self.0.upgraded.load(Relaxed)
    }

    fn is_over(&self) -> bool {
        !self.0.unflushed.load(Relaxed) && !self.0.upgraded.load(Relaxed)
    }

    fn flushed(&self) {
        if self.0.open.load(Relaxed) == 0 {
            self.0.unflushed.store(false, Relaxed);
        }
    }
}

/// An exchange in progress.
pub(super) struct OpenExchange(Exchange);

impl OpenExchange {
    /// The response body, which ends the exchange when it is dropped.
    pub(super) fn answer(self, body: Body) -> ResponseBody {
        ResponseBody { body, _begun: self }
    }
}

impl Drop for OpenExchange {
    fn drop(&mut self) {
        self.0.0.open.fetch_sub(1, Relaxed);
    }
}

/// The body of a response.
pub(super) struct ResponseBody {
    body: Body,
    _begun: OpenExchange,
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that adds a body to the HTTP library's own refusals.
pub(super) struct RefusalBodies<S> {
    stream: S,
    exchange: Exchange,
    /// The bytes written instead of a refusal, and the number already written.
    replacement: Option<(Vec<u8>, usize)>,
}

impl<S: AsyncWrite + Unpin> RefusalBodies<S> {
    pub(super) fn new(stream: S, exchange: Exchange) -> Self {
        Self {
            stream,
            exchange,
            replacement: None,
        }
    }

    /// The stream itself.
    pub(super) fn into_inner(self) -> S {
        self.stream
    }

    /// Writes `bytes`, or their replacement. Returns how many of the `bytes` are done: all of them
    /// once the replacement is written.
    fn write_with_body(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.replacement.is_none() {
            self.replacement = crate::http::with_error_body(bytes).map(|whole| (whole, 0));
        }
        let Some((whole, out)) = &mut self.replacement else {
            return Pin::new(&mut self.stream).poll_write(cx, bytes);
        };
        while *out < whole.len() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &whole[*out..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *out += written;
        }
        self.replacement = None;
        Poll::Ready(Ok(bytes.len()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for RefusalBodies<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RefusalBodies<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.exchange.is_over() {
            return self.write_with_body(cx, bytes);
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.exchange.is_over() {
            return self.write_with_body(
                cx,
                &bytes
                    .iter()
                    .flat_map(|part| part.iter().copied())
                    .collect::<Vec<u8>>(),
            );
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.exchange.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const BARE: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";

    /// The received bytes of a refusal that is written eight bytes at a time.
    async fn received(exchange: Exchange) -> String {
        let (ours, mut theirs) = tokio::io::duplex(8);
        let mut stream = RefusalBodies::new(ours, exchange);
        let writer = tokio::spawn(async move {
            stream.write_all(BARE).await.unwrap();
            stream.shutdown().await.unwrap();
        });
        let mut seen = String::new();
        theirs.read_to_string(&mut seen).await.unwrap();
        writer.await.unwrap();
        seen
    }

    #[tokio::test]
    async fn refusals_between_exchanges_have_a_body() {
        assert!(
            received(Exchange::default())
                .await
                .contains("\"code\":\"validation_failed\"")
        );
    }

    #[tokio::test]
    async fn responses_of_the_service_are_not_changed() {
        // Three cases: a request in progress, a response that is not flushed yet, and an upgraded
        // connection.
        let exchange = Exchange::default();
        let begun = exchange.begin();
        assert_eq!(received(exchange.clone()).await.as_bytes(), BARE);
        drop(begun);
        assert_eq!(received(exchange).await.as_bytes(), BARE);
        let upgraded = Exchange::default();
        upgraded.upgrade(None);
        assert_eq!(received(upgraded).await.as_bytes(), BARE);
    }

    #[tokio::test]
    async fn a_flushed_response_ends_its_exchange() {
        let exchange = Exchange::default();
        let mut stream = RefusalBodies::new(tokio::io::sink(), exchange.clone());
        let begun = exchange.begin();
        stream.flush().await.unwrap();
        assert!(!exchange.is_over(), "the response is still in progress");
        drop(begun.answer(Body::empty()));
        stream.flush().await.unwrap();
        assert!(exchange.is_over());
    }
}
