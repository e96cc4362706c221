//! The queue of connections whose rights must be checked again. Each connection is in it at most
//! once, and at most [`MAX_CHECKS`] are checked at the same time.

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use parking_lot::Mutex;

use super::rights::MAX_CHECKS;
use super::{Entry, RoomHub};
use crate::protocol::Close;

/// The connections that wait for a check of their rights, the longest wait first. Each connection
/// of the node waits at most once, so their number does not depend on the number of changes.
#[derive(Default)]
pub(super) struct Due(Mutex<State>);

#[derive(Default)]
struct State {
    /// The number for the next connection that begins to wait.
    next: u64,
    waiting: BTreeMap<u64, Arc<Entry>>,
    /// The numbers of the connections that wait, by their ids.
    numbers: HashMap<Arc<str>, u64>,
    /// The number of running workers, at most [`MAX_CHECKS`].
    workers: usize,
}

impl State {
    fn remove(&mut self, id: &str) {
        if let Some(number) = self.numbers.remove(id) {
            self.waiting.remove(&number);
        }
    }
}

impl Due {
    /// Adds a connection, unless it is already waiting. Returns whether the caller must start
    /// another worker, which is already counted.
    fn add(&self, entry: Arc<Entry>) -> bool {
        let mut state = self.0.lock();
        let id = Arc::clone(entry.connection.shared_id());
        if state.numbers.contains_key(&id) {
            return false;
        }
        let number = state.next;
        state.next += 1;
        state.numbers.insert(id, number);
        state.waiting.insert(number, entry);
        let needed = state.workers < MAX_CHECKS;
        state.workers += usize::from(needed);
        needed
    }

    /// Removes a connection that has ended.
    pub(super) fn remove(&self, id: &str) {
        self.0.lock().remove(id);
    }

    /// The number of connections that wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        let state = self.0.lock();
        assert_eq!(state.waiting.len(), state.numbers.len());
        state.waiting.len()
    }
}

/// A task that checks connections until none waits.
struct Worker {
    hub: Arc<RoomHub>,
    ended: bool,
}

impl Worker {
    /// Takes the connection that has waited longest. The worker ends if none waits.
    fn next(&mut self) -> Option<Arc<Entry>> {
        let mut state = self.hub.due.0.lock();
        match state.waiting.pop_first() {
            Some((_, entry)) => {
                state.numbers.remove(entry.connection.id());
                Some(entry)
            }
            None => {
                state.workers -= 1;
                self.ended = true;
                None
            }
        }
    }

    async fn run(mut self) {
        while let Some(entry) = self.next() {
            let check = AssertUnwindSafe(self.hub.check_rights(&entry));
            if check.catch_unwind().await.is_err() {
                tracing::error!("a check of the rights of a connection has panicked");
                // The current rights of the connection are unknown.
                entry.connection.close(Close::Internal);
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.ended {
            // The runtime is stopping and has dropped the task.
            self.hub.due.0.lock().workers -= 1;
        }
    }
}

impl RoomHub {
    /// Schedules a check of the rights of a connection, unless one is scheduled already.
    pub(super) fn check_soon(&self, entry: Arc<Entry>) {
        if self.due.add(entry)
            && let Some(hub) = self.me.upgrade()
        {
            tokio::spawn(Worker { hub, ended: false }.run());
        }
    }
}
