//! Changes of rows in batches: in the order of the primary key, resumable, throttled.

mod pace;
mod progress;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linchpin_core::Value;
use linchpin_core::schema::{ColumnKind, Dialect, SchemaError, SchemaSession, literal_of};
use tokio::time::{Instant, sleep};

pub use self::pace::Pace;
use self::pace::{LARGEST, pause};
use self::progress::{Progress, failed};
use crate::count::Counter;
use crate::data::DataAction;
use crate::error::{Exit, Refusal};
use crate::fault;
use crate::ledger::Runner;
use crate::plan::Declared;
use crate::rows::{self, Maker, within};

/// The number of refused rows at which the step fails at once.
const FAILURES: usize = 1_000;
/// The maximum number of passes over rows that other writers have changed meanwhile.
const PASSES: usize = 10;
/// The rows of the first batch of a counter. Each may have many counted records.
const COUNTERS: u64 = 50;
/// The lag of a replica at which a backfill pauses.
const LAG: Duration = Duration::from_secs(10);
/// How often the lag is read, and how often progress is reported.
const LOOK: Duration = Duration::from_secs(1);

/// A request to end a run after the present batch or step. A clone is the same request.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks the run to end.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Refuses to continue after a request.
    ///
    /// # Errors
    /// `interrupted`.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if self.0.load(Ordering::Relaxed) {
            return Err(Refusal::new(
                "interrupted",
                Exit::Incomplete,
                "the run was interrupted; everything up to its last batch is stored",
            )
            .help("run the command again; it continues"));
        }
        Ok(())
    }
}

/// A step that changes rows.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    /// The id of the step.
    pub(crate) id: &'a str,
    /// The change.
    pub(crate) data: &'a DataAction,
    /// The runner.
    pub(crate) runner: Runner,
    /// Whether no older binary writes any more, so that afterwards no row is stale.
    pub(crate) final_pass: bool,
    /// Ends the run early.
    pub(crate) stop: &'a Stop,
}

/// Runs a step to its end, from where an earlier run ended. Returns the number of rows that other
/// writers have made stale again.
///
/// # Errors
/// `transform_failed` with the keys of the rows that the function refused; `interrupted`; a fault
/// of the database.
pub(crate) async fn run(
    session: &mut dyn SchemaSession,
    dialect: &dyn Dialect,
    work: Work<'_>,
    declared: &Declared,
    (pace, report): (&Pace, &mut (dyn FnMut(&str) + Send)),
) -> Result<u64, Refusal> {
    let maker = match Counter::of(work.data, declared)? {
        Some(counter) => Source::Counter(counter),
        None => Source::Rows(Maker::of(work.data, declared)?),
    };
    let first = match maker {
        Source::Counter(_) => pace.batch.min(COUNTERS),
        Source::Rows(_) => pace.batch,
    };
    let mut state = Progress::load(session, work).await?;
    state.batch = first.clamp(1, LARGEST);
    let mut backfill = Backfill {
        session,
        dialect,
        work,
        pace,
        report,
        looked: Instant::now(),
        state,
    };
    let stale = backfill.all(&maker).await?;
    if backfill.state.failed > 0 {
        return Err(failed(&backfill.state));
    }
    // The verification of the last pass counts again.
    Ok(if work.final_pass { 0 } else { stale })
}

/// The source of the new values.
enum Source<'a> {
    Rows(Maker<'a>),
    Counter(Counter<'a>),
}

struct Backfill<'a> {
    session: &'a mut dyn SchemaSession,
    dialect: &'a dyn Dialect,
    work: Work<'a>,
    pace: &'a Pace,
    report: &'a mut (dyn FnMut(&str) + Send),
    /// When the lag was read.
    looked: Instant,
    state: Progress,
}

impl Backfill<'_> {
    /// One pass over all rows, then passes over those that are stale. Returns the number of stale
    /// rows.
    async fn all(&mut self, source: &Source<'_>) -> Result<u64, Refusal> {
        // Rows that are created meanwhile belong to the next passes.
        let end = if self.work.final_pass {
            None
        } else {
            newest(self.session, self.dialect, self.work.data).await?
        };
        let start = self.state.cursor.clone();
        self.pass(source, start, end.as_ref(), true).await?;
        // An earlier run may have left rows behind, and other writers may have changed some.
        let mut stale = self.stale().await?;
        for _ in 0..PASSES {
            let before = self.state.done;
            if self.work.data.has_condition() {
                self.state.failed = 0;
                self.state.refused.clear();
            }
            if stale == 0 {
                break;
            }
            self.pass(source, None, None, false).await?;
            stale = self.stale().await?;
            if self.state.done == before {
                break;
            }
        }
        let cursor = self.state.cursor.as_ref();
        let cursor = cursor.map(|key| literal_of(key).to_string());
        let (work, done, failed) = (self.work, self.state.done, self.state.failed as u64);
        within(self.session, async |session| {
            let progress = (cursor, done, failed);
            work.runner.progress(session, work.id, progress).await
        })
        .await?;
        Ok(stale)
    }

    /// The number of rows that are not up to date; 0 if no condition tells.
    async fn stale(&mut self) -> Result<u64, Refusal> {
        let Some(stale) = self.work.data.stale(self.dialect) else {
            return Ok(0);
        };
        let table = self.dialect.quote(self.work.data.table());
        let sql = format!("SELECT count(*) FROM {table} WHERE {stale}");
        let kinds = [ColumnKind::Integer];
        let rows = self.session.query(&sql, &[], &kinds).await?;
        let count = rows.into_iter().flatten().next().and_then(|n| n.as_int());
        Ok(count.and_then(|n| u64::try_from(n).ok()).unwrap_or(0))
    }

    /// Visits rows in the order of their keys.
    async fn pass(
        &mut self,
        source: &Source<'_>,
        mut after: Option<Value>,
        end: Option<&Value>,
        first: bool,
    ) -> Result<(), Refusal> {
        loop {
            self.work.stop.check()?;
            self.look().await?;
            let begin = Instant::now();
            let limit = self.state.batch;
            let visited = match source {
                Source::Rows(maker) => self.rows(maker, (after.as_ref(), end), first).await?,
                Source::Counter(counter) => self.counters(counter, after.as_ref()).await?,
            };
            let Some((last, visited)) = visited else {
                return Ok(());
            };
            after = Some(last);
            if self.state.failed >= FAILURES {
                return Err(failed(&self.state));
            }
            let took = begin.elapsed();
            let target = self.pace.target.unwrap_or(self.dialect.batch_time());
            self.state.adapt(took, target, self.pace.largest());
            if visited < limit {
                return Ok(());
            }
            self.rest(pause(took, self.pace, visited)).await?;
        }
    }

    /// Reads and writes a batch. Returns the last key and the number of rows.
    async fn rows(
        &mut self,
        maker: &Maker<'_>,
        bounds: (Option<&Value>, Option<&Value>),
        first: bool,
    ) -> Result<Option<(Value, u64)>, Refusal> {
        let (dialect, work) = (self.dialect, self.work);
        let stale: Vec<String> = work.data.stale(dialect).into_iter().collect();
        let (session, limit) = (&mut *self.session, self.state.batch);
        let batch = rows::batch(session, dialect, work.data, &stale, bounds, limit).await?;
        let Some(last) = batch.last().and_then(|row| row.first()).cloned() else {
            return Ok(None);
        };
        let visited = batch.len() as u64;
        let (written, refused) = rows::computed(work.data, maker, batch);
        self.state.note(refused);
        let (done, failed) = (self.state.done, self.state.failed as u64);
        // Later passes have no place from which they could continue.
        let place = if first {
            Some(&last)
        } else {
            self.state.cursor.as_ref()
        };
        let cursor = place.map(|key| literal_of(key).to_string());
        self.state.batches += 1;
        let batch = self.state.batches;
        let (written, refused) = within(self.session, async |session| {
            let (count, refused) = rows::write(session, dialect, work.data, written).await?;
            let failed = failed + refused.len() as u64;
            work.runner
                .progress(session, work.id, (cursor, done + count, failed))
                .await?;
            fault::point(work.id, &format!("batch:{batch}:before-commit"));
            Ok((count, refused))
        })
        .await?;
        fault::point(work.id, &format!("batch:{batch}:after-commit"));
        self.state.done += written;
        self.state.note(refused);
        if first {
            self.state.cursor = Some(last.clone());
        }
        Ok(Some((last, visited)))
    }

    /// Counts for a batch.
    async fn counters(
        &mut self,
        counter: &Counter<'_>,
        after: Option<&Value>,
    ) -> Result<Option<(Value, u64)>, Refusal> {
        let (dialect, work, done) = (self.dialect, self.work, self.state.done);
        let limit = self.state.batch;
        self.state.batches += 1;
        let batch = self.state.batches;
        let found = within(self.session, async |session| {
            let next = counter.next(session, dialect, after, limit).await?;
            if let Some((last, _, written)) = &next {
                let cursor = Some(literal_of(last).to_string());
                work.runner
                    .progress(session, work.id, (cursor, done + written, 0))
                    .await?;
                fault::point(work.id, &format!("batch:{batch}:before-commit"));
            }
            Ok(next)
        })
        .await?;
        fault::point(work.id, &format!("batch:{batch}:after-commit"));
        Ok(found.map(|(last, read, written)| {
            self.state.done += written;
            self.state.cursor = Some(last.clone());
            (last, read)
        }))
    }

    /// Waits while a replica is behind, and reports progress now and then.
    async fn look(&mut self) -> Result<(), Refusal> {
        if self.looked.elapsed() < LOOK {
            return Ok(());
        }
        let line = format!("{} {} rows written", self.work.id, self.state.done);
        (self.report)(&line);
        while let Some(lag) = self.session.replica_lag().await?.filter(|lag| *lag > LAG) {
            let line = format!(
                "{} waits: a replica is {} s behind",
                self.work.id,
                lag.as_secs()
            );
            (self.report)(&line);
            self.rest(LOOK).await?;
        }
        self.looked = Instant::now();
        Ok(())
    }

    /// Sleeps, and ends early if the run is to end.
    async fn rest(&self, pause: Duration) -> Result<(), Refusal> {
        let end = Instant::now() + pause;
        loop {
            self.work.stop.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(Duration::from_millis(200))).await;
        }
    }
}

/// The greatest key of a table.
async fn newest(
    session: &mut dyn SchemaSession,
    dialect: &dyn Dialect,
    data: &DataAction,
) -> Result<Option<Value>, SchemaError> {
    let key = data.key();
    let name = dialect.quote(&key.name);
    let table = dialect.quote(data.table());
    let sql = format!("SELECT {name} FROM {table} ORDER BY {name} DESC LIMIT 1");
    let kinds = [key.kind.clone()];
    let rows = session.query(&sql, &[], &kinds).await?;
    Ok(rows.into_iter().flatten().next())
}

#[cfg(test)]
mod tests;
