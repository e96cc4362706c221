//! Reads that could look at any number of rows and mostly look at few: a filter without an index on a small table, numbers over
//! the records of one owner.
//!
//! A hop to another thread costs more than such a read. So it is begun on the thread that asks, and given up after some steps of
//! SQLite's machine; then it runs apart, from its beginning, and so do the next runs of that statement, without being begun here.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::error;
use crate::Result;
use crate::store::Rows;

/// Steps between two looks at what was used. A row takes some ten.
const STRIDE: i32 = 100;
/// Looks until a read is given up: about as long as the longest page that is read inline.
const LOOKS: u32 = 60;
/// Steps are short, but for those that fold or compare long texts.
const TIME: Duration = Duration::from_micros(500);
/// How many runs are not begun here after the first that was given up; twice as many after the next, and so on.
const FIRST: u32 = 16;
const DOUBLINGS: u32 = 8;

/// What is known of a statement.
#[derive(Debug, Default)]
pub(super) struct Tries {
    /// Runs that are still not to be begun here.
    skip: AtomicU32,
    /// How often it was given up since it last ended in time.
    missed: AtomicU32,
}

impl Tries {
    /// Whether the next run is to be begun here.
    pub(super) fn due(&self) -> bool {
        // Two that see the last one at a time begin both; no harm is done.
        self.skip.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    }

    /// Never begins it here: for tests of what runs apart.
    #[cfg(test)]
    pub(super) fn never(&self) {
        self.skip.store(u32::MAX, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn missed(&self) -> u32 {
        self.missed.load(Ordering::Relaxed)
    }

    fn ended(&self) {
        self.missed.store(0, Ordering::Relaxed);
    }

    fn given_up(&self) {
        let missed = self.missed.fetch_add(1, Ordering::Relaxed).min(DOUBLINGS);
        self.skip.store(FIRST << missed, Ordering::Relaxed);
    }
}

/// Runs a read as long as it is short; `None` when it was given up.
pub(super) fn attempt(connection: &Connection, tries: &Tries, read: impl FnOnce() -> Result<Rows>) -> Option<Result<Rows>> {
    let (started, mut looks) = (Instant::now(), 0);
    let too_long = move || {
        looks += 1;
        looks > LOOKS || started.elapsed() > TIME
    };
    // Setting it fails on connections that are given away only; without it nothing is begun.
    connection.progress_handler(STRIDE, Some(too_long)).ok()?;
    let outcome = read();
    // The connection goes on to reads that are not to be given up.
    let cleared = connection.progress_handler(0, None::<fn() -> bool>);
    if let Err(error) = cleared {
        return Some(Err(crate::Error::internal(error)));
    }
    if outcome.as_ref().is_err_and(error::is_interrupted) {
        tries.given_up();
        return None;
    }
    tries.ended();
    Some(outcome)
}
