//! Closes a connection whose client does not read the response: an unread response would occupy
//! memory and a file descriptor forever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::exchange::Exchange;

/// A stream whose writes fail if they wait for the client longer than a time limit.
pub(super) struct WriteTimeout<S> {
    stream: S,
    limit: Duration,
    /// Holds the time limit of the current response, if it sets one.
    exchange: Exchange,
    /// Runs while a write waits for the client.
    waiting: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl<S> WriteTimeout<S> {
    /// `limit` is the maximum; a response may set a shorter one.
    pub(super) fn new(stream: S, limit: Duration, exchange: Exchange) -> Self {
        Self {
            stream,
            limit,
            exchange,
            waiting: Box::pin(tokio::time::sleep(limit)),
            is_waiting: false,
        }
    }

    /// The stream itself.
    pub(super) fn into_inner(self) -> S {
        self.stream
    }

    /// Passes on the result of a write, and starts or stops the timer.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.is_waiting = false;
            return written;
        }
        if !self.is_waiting {
            self.is_waiting = true;
            let own = self.exchange.unread_limit();
            let limit = own.map_or(self.limit, |own| own.min(self.limit));
            self.waiting.as_mut().reset(Instant::now() + limit);
        }
        ready!(self.waiting.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read its response",
        )))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(cx, done)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_write_to_a_client_that_does_not_read_fails() {
        let (ours, mut theirs) = tokio::io::duplex(8);
        let mut stream = WriteTimeout::new(ours, Duration::from_secs(30), Exchange::default());
        stream.write_all(b"12345678").await.unwrap();
        let began = Instant::now();
        let stuck = stream.write_all(b"9").await.unwrap_err();
        assert_eq!(stuck.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), 30);
        let mut read = [0; 8];
        theirs.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"12345678");
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_has_a_shorter_limit_of_its_own() {
        let exchange = Exchange::default();
        for (limit, seconds) in [(10, 10), (40, 30)] {
            let _answering = exchange.begin();
            exchange.limit_unread(Duration::from_secs(limit));
            let (ours, _theirs) = tokio::io::duplex(8);
            let mut stream = WriteTimeout::new(ours, Duration::from_secs(30), exchange.clone());
            let began = Instant::now();
            assert!(stream.write_all(b"123456789").await.is_err());
            assert_eq!(began.elapsed().as_secs(), seconds);
        }
        // The limit of a response does not apply to the next response.
        let _answering = exchange.begin();
        assert_eq!(exchange.unread_limit(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_not_closed() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut stream = WriteTimeout::new(ours, Duration::from_millis(200), Exchange::default());
        let reader = tokio::spawn(async move {
            let mut seen = Vec::new();
            let mut chunk = [0; 4];
            while seen.len() < 40 {
                tokio::time::sleep(Duration::from_millis(40)).await;
                let n = theirs.read(&mut chunk).await.unwrap();
                seen.extend_from_slice(&chunk[..n]);
            }
            seen
        });
        stream.write_all(&[7; 40]).await.unwrap();
        assert_eq!(reader.await.unwrap(), [7; 40]);
    }
}
