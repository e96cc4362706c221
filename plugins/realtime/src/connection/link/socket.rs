//! The socket of a connection: its task reads it, and anybody writes to it.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::time::Instant;

use super::{Connection, State};
use crate::connection::output::{Io, Progress, Taken};

/// The socket, for the task of the connection.
impl Connection {
    pub(in crate::connection) fn attach(&self, io: Box<dyn Io>) {
        self.state.lock().output.attach(io);
    }

    /// Closes the socket.
    pub(in crate::connection) fn detach(&self) {
        let mut state = self.state.lock();
        let (io, task) = (state.output.detach(), state.task.take());
        drop(state);
        // Their ends may call others.
        drop((io, task));
    }

    /// Reads bytes; fails with `WouldBlock` if there are none, and wakes the task once there are.
    pub(in crate::connection) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state.lock();
        let State { output, task, .. } = &mut *state;
        let task = task.as_ref().unwrap_or(Waker::noop());
        match output.read(&mut Context::from_waker(task), into) {
            Poll::Ready(read) => read,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Has a control frame written before the next frame of the queue.
    pub(in crate::connection) fn control(&self, frame: Bytes) {
        self.state.lock().output.control(frame);
    }

    /// Writes what waits, as far as the socket accepts it. Returns whether it has taken frames.
    pub(in crate::connection) fn write(&self, now: Instant) -> (Progress, bool) {
        let mut state = self.state.lock();
        match self.write_out(&mut state, now) {
            Some((progress, taken)) => (progress, taken.frames > 0),
            None => (Progress::Broken, false),
        }
    }

    /// Writes what waits to the socket, as far as it accepts it. The task does the rest.
    fn flush(&self, now: Instant) {
        let mut state = self.state.lock();
        let written = if state.close.is_none() {
            self.write_out(&mut state, now)
        } else {
            None
        };
        drop(state);
        if written.is_none_or(|(progress, _)| progress != Progress::All) {
            self.wake();
        }
    }

    /// `None` without a socket.
    fn write_out(&self, state: &mut State, now: Instant) -> Option<(Progress, Taken)> {
        let task = state.task.as_ref().filter(|_| state.output.is_attached())?;
        let mut cx = Context::from_waker(task);
        let (progress, taken) = state.output.write(&mut state.queue, &mut cx, now);
        if taken.frames > 0 {
            self.meter.unqueued(taken.bytes);
            self.meter.sent(taken.frames);
            if std::mem::take(&mut state.waits_for_space) {
                self.space_freed.notify_waiters();
            }
        }
        Some((progress, taken))
    }

    /// The state of the output.
    pub(in crate::connection) fn output(&self) -> OutputState {
        let state = self.state.lock();
        OutputState {
            sent: state.output.sent(),
            stalled: state.output.stalled(),
            is_empty: state.queue.is_empty() && state.output.is_empty(),
        }
    }

    /// Drops bytes that the client will not read.
    pub(in crate::connection) fn forget_output(&self) {
        self.state.lock().output.forget();
    }

    pub(in crate::connection) fn shut_down(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.state.lock().output.shut_down(cx)
    }
}

/// The state of the output of a connection.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct OutputState {
    /// When something was written last.
    pub(in crate::connection) sent: Instant,
    /// Since when the socket accepts nothing.
    pub(in crate::connection) stalled: Option<Instant>,
    /// Whether everything is written.
    pub(in crate::connection) is_empty: bool,
}

/// The connections that one task writes to before others have a turn. The runtime lets a task use
/// 128 resources at once.
const CHUNK: usize = 128;

/// Writes the frames of connections that [`Connection::enqueue`] has named: to each socket at
/// once, without waking its task. Many of them are shared out to the threads of the runtime.
pub(crate) fn flush_all(connections: &mut Vec<Arc<Connection>>) {
    let flush = |chunk: Vec<Arc<Connection>>| {
        let now = Instant::now();
        for connection in chunk {
            connection.flush(now);
        }
    };
    while connections.len() > CHUNK {
        let chunk = connections.split_off(connections.len() - CHUNK);
        tokio::spawn(async move { flush(chunk) });
    }
    flush(std::mem::take(connections));
}
