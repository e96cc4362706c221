//! The socket of a connection: only its task reads from it, and any task may write to it.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::time::Instant;

use super::{Connection, State};
use crate::connection::output::{Io, Progress, Taken};

/// Access to the socket.
impl Connection {
    pub(in crate::connection) fn attach(&self, io: Box<dyn Io>) {
        self.state.lock().output.attach(io);
    }

    /// Closes the socket.
    pub(in crate::connection) fn detach(&self) {
        let mut state = self.state.lock();
        let (io, task) = (state.output.detach(), state.task.take());
        drop(state);
        // Dropping them may run other code, which must not run under the lock.
        drop((io, task));
    }

    /// Reads bytes. If there are none, it fails with `WouldBlock` and wakes the task once there
    /// are.
    pub(in crate::connection) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state.lock();
        let State { output, task, .. } = &mut *state;
        let task = task.as_ref().unwrap_or(Waker::noop());
        match output.read(&mut Context::from_waker(task), into) {
            Poll::Ready(read) => read,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Sets a control frame, which is written before the next frame of the queue.
    pub(in crate::connection) fn control(&self, frame: Bytes) {
        self.state.lock().output.control(frame);
    }

    /// Writes as much waiting data as the socket accepts. Returns whether frames left the queue.
    pub(in crate::connection) fn write(&self, now: Instant) -> (Progress, bool) {
        let mut state = self.state.lock();
        match self.write_out(&mut state, now) {
            Some((progress, taken)) => (progress, taken.frames > 0),
            None => (Progress::Broken, false),
        }
    }

    /// Writes as much waiting data as the socket accepts. The task writes the rest.
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

    /// Writes as much waiting data as the socket accepts. Returns `None` without a socket.
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

    /// Returns the state of the output.
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
    /// The time of the last write.
    pub(in crate::connection) sent: Instant,
    /// The time since which the socket accepts no bytes.
    pub(in crate::connection) stalled: Option<Instant>,
    /// Whether everything is written.
    pub(in crate::connection) is_empty: bool,
}

/// The number of connections that one task writes to. The async runtime allows a task about 128
/// socket operations before it must yield.
const CHUNK: usize = 128;

/// Writes the queued frames of connections for which [`Connection::enqueue`] returned `true`. It
/// writes to each socket directly, without waking the connection's task. More than 128 connections
/// are split into several tasks.
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
