//! Watches a connection for a client that leaves before the response.
//!
//! The HTTP library does not read while a request is open, because a client that closed its side
//! may still wait for its response. So a client that has left would go unnoticed, and its request
//! would keep its memory, its locks and its slot until the time-out.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use super::exchange::Exchange;

/// The time limit for the next part of the response after a client has closed its side.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// A stream that fails if its client leaves during an exchange. After a socket error, it fails
/// immediately. If the client has only closed its side, the stream fails when no part of the
/// response is written for [`GRACE`].
pub(super) struct ClientWatch {
    stream: TcpStream,
    exchange: Exchange,
    /// Runs since the client closed its side, or since the last write of a response after that.
    leaving: Option<Pin<Box<Sleep>>>,
}

impl ClientWatch {
    pub(super) fn new(stream: TcpStream, exchange: Exchange) -> Self {
        Self {
            stream,
            exchange,
            leaving: None,
        }
    }

    /// The socket itself.
    pub(super) fn into_inner(self) -> TcpStream {
        self.stream
    }

    /// Checks that the client is still connected. Bytes from the client stay unread.
    fn check_client(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if !self.exchange.is_answering() {
            self.leaving = None;
            return Ok(());
        }
        let mut byte = [0];
        match self.stream.poll_peek(cx, &mut ReadBuf::new(&mut byte)) {
            Poll::Ready(Ok(0)) => {}
            Poll::Ready(Err(error)) => return Err(error),
            // More bytes have arrived, or none yet.
            Poll::Ready(Ok(_)) | Poll::Pending => return Ok(()),
        }
        let leaving = self
            .leaving
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(GRACE)));
        match leaving.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the client has left",
            )),
            Poll::Pending => Ok(()),
        }
    }

    /// Restarts the time limit if a write has succeeded.
    fn after_write(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let (Poll::Ready(Ok(1..)), Some(leaving)) = (&written, &mut self.leaving) {
            leaving.as_mut().reset(Instant::now() + GRACE);
        }
        written
    }
}

impl AsyncRead for ClientWatch {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for ClientWatch {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.after_write(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.after_write(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    // The HTTP library calls this function after it has read a request, even if there is nothing to
    // write yet, and again whenever the connection makes progress.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_client(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
