//! Short attempts of reads that may examine any number of rows but mostly examine few: a filter
//! without an index on a small table, aggregates over the records of one owner.
//!
//! A switch to another thread costs more than such a read. So the read starts on the calling
//! thread, and is interrupted after some steps of SQLite's virtual machine. Then it runs again in
//! the pool, and so do the next runs of the statement for that caller, without an attempt here.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::error;
use linchpin_core::Result;
use linchpin_core::store::Rows;
use linchpin_sql::short_reads::ShortReads;

/// The number of steps between two checks. A row takes about ten.
const STRIDE: i32 = 100;
/// The number of checks before a read is stopped: about the time of the longest inline page.
const LOOKS: u32 = 60;
/// Steps are short, except those that fold or compare long texts.
const TIME: Duration = Duration::from_micros(500);
/// Runs a read while it is short; `None` if it was stopped.
pub(super) fn attempt(
    connection: &Connection,
    short_reads: &ShortReads,
    caller: Option<NonZeroU64>,
    read: impl FnOnce() -> Result<Rows>,
) -> Option<Result<Rows>> {
    let (started, mut looks) = (Instant::now(), 0);
    let too_long = move || {
        looks += 1;
        looks > LOOKS || started.elapsed() > TIME
    };
    // This fails only on connections that are in use elsewhere; without it no attempt is made.
    connection.progress_handler(STRIDE, Some(too_long)).ok()?;
    let outcome = read();
    // The connection is also used for reads without a limit.
    let cleared = connection.progress_handler(0, None::<fn() -> bool>);
    if let Err(error) = cleared {
        return Some(Err(linchpin_core::Error::internal(error)));
    }
    if outcome.as_ref().is_err_and(error::is_interrupted) {
        short_reads.given_up(caller);
        return None;
    }
    short_reads.ended(caller);
    Some(outcome)
}
