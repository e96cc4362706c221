//! Reads that may take long: a few at a time, apart from the threads that serve requests. A caller
//! that goes away takes its statement with it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, InterruptHandle};

use super::{BUSY, native, reader};
use linchpin_core::store::{Rows, Statement};
use linchpin_core::{Error, Result, Value};
use linchpin_sql::places::Places;

/// The connections of long reads.
pub(super) struct Pool {
    path: PathBuf,
    pub(super) places: Places,
    /// Not in use at present.
    idle: Mutex<Vec<Connection>>,
    closed: AtomicBool,
}

impl Pool {
    pub(super) fn new(path: PathBuf, size: usize, queue: usize) -> Self {
        Self {
            path,
            places: Places::new(size, queue),
            idle: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Runs a read on a thread of its own.
    pub(super) async fn run(
        self: Arc<Self>,
        statement: Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Result<Rows> {
        let place = self.places.take(rows.caller).await?;
        let job = Arc::new(Job::default());
        let _caller = Caller(Arc::clone(&job));
        let pool = Arc::clone(&self);
        let work = move || {
            // Free when the read has ended, not when its caller has gone.
            let _place = place;
            let connection = pool.connection()?;
            let outcome = if job.begin(connection.get_interrupt_handle()) {
                native(&statement).and_then(|native| {
                    reader::read(&connection, statement.entity, native, &args, rows)
                })
            } else {
                Err(Error::unavailable("the caller has gone"))
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
            || reader::connect(&self.path, BUSY).map_err(Error::unavailable),
            Ok,
        )
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if !self.closed.load(Ordering::Acquire) {
            idle.push(connection);
        }
    }

    /// Waits until accepted reads have ended, for a while, and closes their connections.
    pub(super) async fn close(&self, patience: Duration) {
        self.places.close(patience).await;
        self.closed.store(true, Ordering::Release);
        self.idle.lock().clear();
    }
}

/// A read on its thread, as its caller sees it.
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
    /// `false` when the caller has gone already.
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

/// Interrupts the read when its caller goes away.
struct Caller(Arc<Job>);

impl Drop for Caller {
    fn drop(&mut self) {
        // The lock is held, so the connection cannot have gone on to somebody else's statement.
        let mut state = self.0.0.lock();
        if let State::Reading(handle) = &*state {
            handle.interrupt();
        }
        *state = State::Over;
    }
}
