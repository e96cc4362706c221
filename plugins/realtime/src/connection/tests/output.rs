//! Tests of the output with a socket that accepts a limited number of bytes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::*;
use crate::connection::flush_all;
use crate::connection::output::{Output, Progress};
use crate::connection::queue::Queue;

/// A test double of a socket. It accepts a given number of bytes and stores them.
#[derive(Default)]
struct LimitedSocket {
    accepts: usize,
    written: Vec<u8>,
    calls: usize,
}

struct SharedSocket(Arc<Mutex<LimitedSocket>>);

impl AsyncRead for SharedSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for SharedSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut socket = self.0.lock();
        if socket.accepts == 0 {
            return Poll::Pending;
        }
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        let n = all.len().min(socket.accepts);
        socket.accepts -= n;
        socket.calls += 1;
        socket.written.extend_from_slice(&all[..n]);
        Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// An output with a socket and a queue.
struct Bench {
    output: Output,
    queue: Queue,
    socket: Arc<Mutex<LimitedSocket>>,
}

impl Bench {
    fn new() -> Self {
        let socket = Arc::<Mutex<LimitedSocket>>::default();
        let mut output = Output::new(Instant::now());
        output.attach(Box::new(SharedSocket(Arc::clone(&socket))));
        Self {
            output,
            queue: Queue::default(),
            socket,
        }
    }

    fn push(&mut self, user: &str) -> Bytes {
        let frame = ServerFrame::presence_join("a:b", user);
        let bytes = frame.bytes().clone();
        self.queue
            .push(frame, Class::Durable, 256, 1 << 20)
            .unwrap();
        bytes
    }

    /// Lets the socket accept this many more bytes, and writes.
    fn write(&mut self, accepts: usize) -> Progress {
        self.socket.lock().accepts += accepts;
        let mut cx = Context::from_waker(Waker::noop());
        let (progress, _) = self.output.write(&mut self.queue, &mut cx, Instant::now());
        progress
    }

    fn written(&self) -> Vec<u8> {
        self.socket.lock().written.clone()
    }
}

const PONG_FRAME: &[u8] = &[FIN | PONG, 1, b'x'];
const CLOSE_FRAME: &[u8] = &[FIN | CLOSE, 0];

#[tokio::test(start_paused = true)]
async fn frames_written_byte_by_byte_are_complete_and_in_order() {
    let mut bench = Bench::new();
    let frames = [bench.push("ada"), bench.push("bob"), bench.push("cid")].concat();
    for _ in 1..frames.len() {
        assert_eq!(bench.write(1), Progress::Part);
    }
    assert_eq!(bench.write(1), Progress::All);
    assert_eq!(bench.written(), frames);
    assert!(bench.output.is_empty() && bench.queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn waiting_frames_are_written_in_one_call() {
    let mut bench = Bench::new();
    let frames = [bench.push("ada"), bench.push("bob"), bench.push("cid")].concat();
    assert_eq!(bench.write(usize::MAX / 2), Progress::All);
    assert_eq!(bench.written(), frames);
    assert_eq!(bench.socket.lock().calls, 1);
}

#[tokio::test(start_paused = true)]
async fn a_control_frame_is_written_between_frames_and_never_within_one() {
    let mut bench = Bench::new();
    let (first, second) = (bench.push("ada"), bench.push("bob"));
    assert_eq!(bench.write(5), Progress::Part);
    bench.output.control(Bytes::from_static(PONG_FRAME));
    assert_eq!(bench.write(first.len() - 5 + 1), Progress::Part);
    // A partly written pong is finished before a newer one.
    bench.output.control(Bytes::from_static(PONG_FRAME));
    assert_eq!(bench.write(1_000), Progress::All);
    let expected = [&first, PONG_FRAME, PONG_FRAME, &second].concat();
    assert_eq!(bench.written(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_newer_pong_replaces_a_waiting_one_but_never_a_close_frame() {
    let mut bench = Bench::new();
    for _ in 0..1_000 {
        bench.output.control(Bytes::from_static(PONG_FRAME));
    }
    assert_eq!(bench.write(0), Progress::Part);
    bench.output.control(Bytes::from_static(CLOSE_FRAME));
    bench.output.control(Bytes::from_static(PONG_FRAME));
    assert_eq!(bench.write(1_000), Progress::All);
    assert_eq!(bench.written(), CLOSE_FRAME);
}

#[tokio::test(start_paused = true)]
async fn flush_all_writes_a_frame_without_running_the_tasks_of_the_connections() {
    let mut peers = Vec::new();
    for _ in 0..3 {
        peers.push(Peer::alice().await);
    }
    // The frame `connected` is written. Each task now waits for its client.
    let frame = ServerFrame::presence_join("a:b", "bob");
    let mut due = Vec::new();
    for peer in &peers {
        let (pushed, flush) = peer.connection.enqueue(frame.clone(), Class::Durable);
        assert_eq!((pushed, flush), (Pushed::Queued, true));
        // The task that pushed the first frame writes the second one too.
        let (_, again) = peer.connection.enqueue(frame.clone(), Class::Durable);
        assert!(!again);
        due.push(Arc::clone(&peer.connection));
    }
    flush_all(&mut due);
    for peer in &mut peers {
        assert_eq!(peer.meter.read().queue_bytes, 0);
        for _ in 0..2 {
            // No other task runs before the client reads the frame.
            let next = peer.next().now_or_never().flatten();
            assert_eq!(next, Some((FIN | TEXT, frame.as_str().as_bytes().to_vec())));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_frame_reaches_more_connections_than_one_task_writes_to() {
    let mut peers = Vec::new();
    for _ in 0..300 {
        peers.push(Peer::alice().await);
    }
    let frame = ServerFrame::presence_join("a:b", "bob");
    let mut due = Vec::new();
    for peer in &peers {
        peer.connection.enqueue(frame.clone(), Class::Durable);
        due.push(Arc::clone(&peer.connection));
    }
    flush_all(&mut due);
    for peer in &mut peers {
        assert_eq!(peer.next_event().await, "presence_join a:b");
    }
}
