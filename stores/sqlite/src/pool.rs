//! Long reads run on threads that serve no requests, a limited number at a time. If the caller
//! stops waiting, its statement is interrupted.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, InterruptHandle};

use super::{BUSY_TIMEOUT, native, reader};
use linchpin_core::store::{Rows, Statement};
use linchpin_core::{Error, Result, Value};
use linchpin_sql::read_slots::ReadSlots;

/// The connections of long reads.
pub(super) struct Pool {
    path: PathBuf,
    pub(super) slots: ReadSlots,
    /// The connections that are not in use.
    idle: Mutex<Vec<Connection>>,
    closed: AtomicBool,
}

impl Pool {
    pub(super) fn new(path: PathBuf, size: usize, queue: usize) -> Self {
        Self {
            path,
            slots: ReadSlots::new(size, queue),
            idle: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Runs a read on a separate thread.
    pub(super) async fn run(
        self: Arc<Self>,
        statement: Arc<Statement>,
        args: Vec<Value>,
        mut rows: Rows,
    ) -> Result<Rows> {
        let slot = self.slots.take(rows.caller).await?;
        let job = Arc::new(Job::default());
        let _caller = Caller(Arc::clone(&job));
        let pool = Arc::clone(&self);
        let work = move || {
            // The slot is released when the read ends, even if its caller has stopped waiting.
            let _slot = slot;
            let connection = pool.connection()?;
            let outcome = if job.begin(connection.get_interrupt_handle()) {
                native(&statement)
                    .and_then(|native| {
                        reader::read(&connection, statement.entity, native, &args, &mut rows)
                    })
                    .map(|()| rows)
            } else {
                Err(Error::unavailable("the caller has stopped waiting"))
            };
            job.end();
            pool.keep(connection);
            outcome
        };
        tokio::task::spawn_blocking(work)
            .await
            .map_err(Error::internal)?
    }

    fn connection(&self) -> Result<Connection> {
        let idle = self.idle.lock().pop();
        idle.map_or_else(
            || reader::connect(&self.path, BUSY_TIMEOUT).map_err(Error::unavailable),
            Ok,
        )
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if !self.closed.load(Ordering::Acquire) {
            idle.push(connection);
        }
    }

    /// Waits for accepted reads to end, up to a time limit, and closes their connections.
    pub(super) async fn close(&self, time_limit: Duration) {
        self.slots.close(time_limit).await;
        self.closed.store(true, Ordering::Release);
        self.idle.lock().clear();
    }
}

/// A read on its thread, shared with its caller.
#[derive(Default)]
struct Job(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    Waiting,
    Reading(InterruptHandle),
    Over,
}

impl Job {
    /// Returns `false` if the caller has already stopped waiting.
    fn begin(&self, handle: InterruptHandle) -> bool {
        let mut state = self.0.lock();
        let waiting = matches!(*state, State::Waiting);
        if waiting {
            *state = State::Reading(handle);
        }
        waiting
    }

    fn end(&self) {
        *self.0.lock() = State::Over;
    }
}

/// Interrupts the read when its caller stops waiting.
struct Caller(Arc<Job>);

impl Drop for Caller {
    fn drop(&mut self) {
        // The lock is held, so the connection cannot already run the statement of another caller.
        let mut state = self.0.0.lock();
        if let State::Reading(handle) = &*state {
            handle.interrupt();
        }
        *state = State::Over;
    }
}
