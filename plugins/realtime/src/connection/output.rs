//! The bytes on their way to a socket.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::queue::Queue;

/// A socket.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Io for S {}

/// The maximum number of frames that one system call writes.
const BATCH: usize = 16;
/// The first byte of a close frame.
const CLOSE: u8 = 0x88;

/// A socket, and the bytes to write before the next frame of the queue.
pub(super) struct Output {
    io: Option<Box<dyn Io>>,
    /// The unwritten rest of a frame.
    rest: Bytes,
    /// The control frame that is written next; empty without one.
    control: Bytes,
    unflushed: bool,
    /// Whether the last write has failed.
    broken: bool,
    /// The time of the last write.
    sent: Instant,
    /// The time since which the socket accepts no bytes.
    stalled: Option<Instant>,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Everything is written.
    All,
    /// The socket accepts no more bytes now. It wakes the task once it does.
    Part,
    /// The socket is closed.
    Broken,
}

/// The frames and bytes that a write has taken from the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) frames: u64,
    pub(super) bytes: usize,
}

impl Output {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            io: None,
            rest: Bytes::new(),
            control: Bytes::new(),
            unflushed: false,
            broken: false,
            sent: now,
            stalled: None,
        }
    }

    pub(super) fn attach(&mut self, io: Box<dyn Io>) {
        self.io = Some(io);
    }

    /// Returns the socket, and drops the bytes that wait for it.
    pub(super) fn detach(&mut self) -> Option<Box<dyn Io>> {
        self.forget();
        self.io.take()
    }

    pub(super) fn is_attached(&self) -> bool {
        self.io.is_some()
    }

    /// Drops everything that waits, except the frames of the queue.
    pub(super) fn forget(&mut self) {
        (self.rest, self.control) = (Bytes::new(), Bytes::new());
        self.unflushed = false;
    }

    /// Sets the control frame that is written next. It replaces an older one that waits, because
    /// one pong may answer several pings. A close frame is never replaced.
    pub(super) fn control(&mut self, frame: Bytes) {
        if self.control.first() != Some(&CLOSE) {
            self.control = frame;
        }
    }

    /// Whether nothing waits, except the frames of the queue.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty() && self.control.is_empty() && !self.unflushed
    }

    pub(super) fn sent(&self) -> Instant {
        self.sent
    }

    pub(super) fn stalled(&self) -> Option<Instant> {
        self.stalled
    }

    pub(super) fn read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let Some(io) = &mut self.io else {
            return Poll::Ready(Ok(0));
        };
        let mut buffer = ReadBuf::new(into);
        let polled = Pin::new(io).poll_read(cx, &mut buffer);
        polled.map_ok(|()| buffer.filled().len())
    }

    pub(super) fn shut_down(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Some(io) => Pin::new(io).poll_shutdown(cx),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Writes as much waiting data as the socket accepts.
    pub(super) fn write(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> (Progress, Taken) {
        let mut taken = Taken::default();
        loop {
            match self.write_once(queue, cx) {
                Poll::Ready(Ok(Some(0)) | Err(_)) => {
                    self.broken = true;
                    break;
                }
                Poll::Ready(Ok(Some(n))) => {
                    (self.sent, self.stalled, self.unflushed) = (now, None, true);
                    self.take(queue, n, &mut taken);
                }
                Poll::Ready(Ok(None)) => break,
                Poll::Pending => {
                    self.stalled.get_or_insert(now);
                    return (Progress::Part, taken);
                }
            }
        }
        if self.unflushed
            && let Some(io) = &mut self.io
        {
            match Pin::new(io).poll_flush(cx) {
                Poll::Ready(Ok(())) => self.unflushed = false,
                Poll::Ready(Err(_)) => self.broken = true,
                Poll::Pending => {
                    self.stalled.get_or_insert(now);
                    return (Progress::Part, taken);
                }
            }
        }
        self.stalled = None;
        let progress = if self.broken {
            Progress::Broken
        } else {
            Progress::All
        };
        (progress, taken)
    }

    /// Makes one system call. Returns `None` if there is nothing to write.
    fn write_once(
        &mut self,
        queue: &Queue,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Option<usize>>> {
        let Some(io) = self.io.as_mut().filter(|_| !self.broken) else {
            return Poll::Ready(Ok(None));
        };
        let io = Pin::new(io);
        let first = [&self.rest, &self.control].into_iter();
        let mut waiting = first
            .filter(|bytes| !bytes.is_empty())
            .chain(queue.waiting());
        let Some(one) = waiting.next() else {
            return Poll::Ready(Ok(None));
        };
        let Some(two) = waiting.next() else {
            return io.poll_write(cx, one).map_ok(Some);
        };
        let mut slices = [IoSlice::new(&[]); BATCH];
        let mut count = 0;
        for (slice, bytes) in slices.iter_mut().zip([one, two].into_iter().chain(waiting)) {
            *slice = IoSlice::new(bytes);
            count += 1;
        }
        io.poll_write_vectored(cx, &slices[..count]).map_ok(Some)
    }

    /// Removes the next `n` bytes, which have been written.
    fn take(&mut self, queue: &mut Queue, mut n: usize, taken: &mut Taken) {
        n -= advance(&mut self.rest, n);
        let control_bytes = advance(&mut self.control, n);
        if control_bytes > 0 && !self.control.is_empty() {
            // The frame is written in part, so no other may replace it.
            self.rest = std::mem::take(&mut self.control);
        }
        n -= control_bytes;
        while n > 0 {
            let Some(frame) = queue.pop() else { return };
            taken.frames += 1;
            taken.bytes += frame.len();
            let mut bytes = frame.into_bytes();
            n -= advance(&mut bytes, n);
            self.rest = bytes;
        }
    }
}

/// Drops at most `n` bytes from the start. Returns their number.
fn advance(bytes: &mut Bytes, n: usize) -> usize {
    let n = n.min(bytes.len());
    bytes.advance(n);
    if bytes.is_empty() {
        // An empty slice would keep the memory of its frame.
        *bytes = Bytes::new();
    }
    n
}
