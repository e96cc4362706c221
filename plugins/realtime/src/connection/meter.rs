//! The counters of an endpoint.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::protocol::Close;

/// The counters of all connections of an endpoint. None of them is per room or user.
#[derive(Debug, Default)]
pub struct Meter {
    connections: AtomicU64,
    frames_in: AtomicU64,
    frames_out: AtomicU64,
    queue_bytes: AtomicU64,
    dropped_ephemeral: AtomicU64,
    filter_failures: AtomicU64,
    closes: [AtomicU64; Close::ALL.len()],
}

/// The values of the counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Open connections.
    pub connections: u64,
    /// Frames from clients so far.
    pub frames_in: u64,
    /// Frames to clients so far.
    pub frames_out: u64,
    /// Bytes in the queues of connections.
    pub queue_bytes: u64,
    /// Ephemeral frames that were dropped for slow clients so far.
    pub dropped_ephemeral: u64,
    /// Events that were withheld so far because a filter has panicked.
    pub filter_failures: u64,
    /// Connections that the server has closed so far, by reason. A reason that did not occur is
    /// absent.
    pub closes: Vec<(Close, u64)>,
}

impl Meter {
    /// Returns the current values of the counters.
    pub fn read(&self) -> Reading {
        let closes = Close::ALL.into_iter().zip(&self.closes);
        Reading {
            connections: self.connections.load(Relaxed),
            frames_in: self.frames_in.load(Relaxed),
            frames_out: self.frames_out.load(Relaxed),
            queue_bytes: self.queue_bytes.load(Relaxed),
            dropped_ephemeral: self.dropped_ephemeral.load(Relaxed),
            filter_failures: self.filter_failures.load(Relaxed),
            closes: closes
                .map(|(close, count)| (close, count.load(Relaxed)))
                .filter(|(_, count)| *count > 0)
                .collect(),
        }
    }

    pub(crate) fn filter_failed(&self) {
        self.filter_failures.fetch_add(1, Relaxed);
    }

    pub(super) fn opened(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub(super) fn ended(&self) {
        self.connections.fetch_sub(1, Relaxed);
    }

    pub(super) fn closed(&self, why: Close) {
        let at = Close::ALL.iter().position(|close| *close == why);
        if let Some(count) = at.and_then(|at| self.closes.get(at)) {
            count.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn received(&self) {
        self.frames_in.fetch_add(1, Relaxed);
    }

    pub(super) fn queued(&self, bytes: usize) {
        self.queue_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn unqueued(&self, bytes: usize) {
        self.queue_bytes.fetch_sub(bytes as u64, Relaxed);
    }

    pub(crate) fn sent(&self, frames: u64) {
        self.frames_out.fetch_add(frames, Relaxed);
    }

    pub(super) fn dropped(&self, frames: u64) {
        self.dropped_ephemeral.fetch_add(frames, Relaxed);
    }
}
