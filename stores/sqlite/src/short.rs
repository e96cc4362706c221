//! Reads that could look at any number of rows and mostly look at few: a filter without an index on
//! a small table, numbers over the records of one owner.
//!
//! A hop to another thread costs more than such a read. So it is begun on the thread that asks, and
//! given up after some steps of SQLite's machine; then it runs apart, from its beginning, and so do
//! that caller's next runs of the statement, without being begun here.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::error;
use linchpin_core::Result;
use linchpin_core::store::Rows;
use linchpin_sql::tries::Tries;

/// Steps between two looks at what was used. A row takes some ten.
const STRIDE: i32 = 100;
/// Looks until a read is given up: about as long as the longest page that is read inline.
const LOOKS: u32 = 60;
/// Steps are short, but for those that fold or compare long texts.
const TIME: Duration = Duration::from_micros(500);
/// Runs a read as long as it is short; `None` when it was given up.
pub(super) fn attempt(
    connection: &Connection,
    tries: &Tries,
    caller: Option<NonZeroU64>,
    read: impl FnOnce() -> Result<Rows>,
) -> Option<Result<Rows>> {
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
        return Some(Err(linchpin_core::Error::internal(error)));
    }
    if outcome.as_ref().is_err_and(error::is_interrupted) {
        tries.given_up(caller);
        return None;
    }
    tries.ended(caller);
    Some(outcome)
}
