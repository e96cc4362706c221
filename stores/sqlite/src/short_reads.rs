//! Short attempts of reads that may examine any number of rows but mostly examine few: a filter
//! without an index on a small table, aggregates over the records of one owner.
//!
//! A switch to another thread costs more than such a read. So the read starts on the calling
//! thread, and is interrupted after 6,000 steps of SQLite's virtual machine or 500 µs. It then runs
//! again in the pool. The next runs of the statement for this caller use the pool without an
//! attempt.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::error;
use linchpin_core::Result;
use linchpin_core::store::Rows;
use linchpin_sql::short_reads::ShortReads;

/// The number of steps between two checks. A row takes about ten steps.
const CHECK_STEPS: i32 = 100;
/// A read is interrupted after this number of checks. That is about the time of the longest read
/// that runs inline: a page of 500 rows.
const MAX_CHECKS: u32 = 60;
/// The time limit of an attempt, because a step that folds or compares long texts can be slow.
const ATTEMPT_TIMEOUT: Duration = Duration::from_micros(500);

/// Runs a read within the limits. Returns `None` if it was interrupted.
pub(super) fn attempt(
    connection: &Connection,
    short_reads: &ShortReads,
    caller: Option<NonZeroU64>,
    read: impl FnOnce() -> Result<Rows>,
) -> Option<Result<Rows>> {
    let (started, mut checks) = (Instant::now(), 0);
    let too_long = move || {
        checks += 1;
        checks > MAX_CHECKS || started.elapsed() > ATTEMPT_TIMEOUT
    };
    // This fails only on a connection that rusqlite does not own. No attempt is made then.
    connection
        .progress_handler(CHECK_STEPS, Some(too_long))
        .ok()?;
    let outcome = read();
    // The handler is removed, because the connection also runs reads without a limit.
    let cleared = connection.progress_handler(0, None::<fn() -> bool>);
    if let Err(error) = cleared {
        return Some(Err(linchpin_core::Error::internal(error)));
    }
    if outcome.as_ref().is_err_and(error::is_interrupted) {
        short_reads.stopped(caller);
        return None;
    }
    short_reads.succeeded(caller);
    Some(outcome)
}
