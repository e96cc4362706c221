//! Changes rows in batches, in the order of the primary key. A backfill is resumable and throttled.

mod pace;
mod progress;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linchpin_core::Value;
use linchpin_core::schema::{ColumnKind, Dialect, SchemaError, SchemaSession, literal_of};
use tokio::time::{Instant, sleep};

pub use self::pace::Pace;
use self::pace::{MAX_BATCH, pause};
use self::progress::{Progress, transform_failed};
use crate::count::Counter;
use crate::data::DataAction;
use crate::error::{Exit, Refusal};
use crate::fault;
use crate::ledger::Runner;
use crate::plan::Declared;
use crate::rows::{self, ValueSource, in_transaction};

/// The number of refused rows after which the step fails without reading further rows.
const MAX_REFUSED_ROWS: usize = 1_000;
/// The maximum number of passes over rows that other writers have changed during the step.
const MAX_PASSES: usize = 10;
/// The maximum number of rows in the first batch of a counter. Each may have many counted records.
const FIRST_COUNTER_BATCH: u64 = 50;
/// A backfill pauses while a replica lags more than this.
const MAX_REPLICA_LAG: Duration = Duration::from_secs(10);
/// The interval at which a backfill reports progress and reads the lag of replicas.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// A request to end a run after the current batch or step. Clones share the request.
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
    /// The change of the rows.
    pub(crate) data: &'a DataAction,
    /// The runner that writes the ledger.
    pub(crate) runner: Runner,
    /// Whether older binaries no longer write. Then no row may be stale after the step.
    pub(crate) final_pass: bool,
    /// Ends the run early.
    pub(crate) stop: &'a Stop,
}

/// Runs a step to its end; it continues after the last batch of an earlier run. Returns the number
/// of rows that are stale again because other writers changed them.
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
    let source = match Counter::of(work.data, declared)? {
        Some(counter) => Source::Counter(counter),
        None => Source::Rows(ValueSource::of(work.data, declared)?),
    };
    let first_batch = match source {
        Source::Counter(_) => pace.batch.min(FIRST_COUNTER_BATCH),
        Source::Rows(_) => pace.batch,
    };
    let mut state = Progress::load(session, work).await?;
    state.batch = first_batch.clamp(1, MAX_BATCH);
    let mut backfill = Backfill {
        session,
        dialect,
        work,
        pace,
        report,
        last_report: Instant::now(),
        state,
    };
    let stale = backfill.all(&source).await?;
    if backfill.state.failed > 0 {
        return Err(transform_failed(&backfill.state));
    }
    // In the final pass, the verification of the step counts stale rows.
    Ok(if work.final_pass { 0 } else { stale })
}

/// The source of the new values.
enum Source<'a> {
    Rows(ValueSource<'a>),
    Counter(Counter<'a>),
}

struct Backfill<'a> {
    session: &'a mut dyn SchemaSession,
    dialect: &'a dyn Dialect,
    work: Work<'a>,
    pace: &'a Pace,
    report: &'a mut (dyn FnMut(&str) + Send),
    /// The time of the last report.
    last_report: Instant,
    state: Progress,
}

impl Backfill<'_> {
    /// Visits all rows once, then visits stale rows until there are none or a limit is reached.
    /// Returns the number of stale rows.
    async fn all(&mut self, source: &Source<'_>) -> Result<u64, Refusal> {
        // Without `final_pass`, the first pass excludes rows that are created while it runs. Later
        // passes visit them.
        let end = if self.work.final_pass {
            None
        } else {
            newest(self.session, self.dialect, self.work.data).await?
        };
        let start = self.state.cursor.clone();
        self.pass(source, start, end.as_ref(), true).await?;
        // Rows refused by an earlier run and rows changed by other writers are stale.
        let mut stale = self.stale().await?;
        for _ in 0..MAX_PASSES {
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
        in_transaction(self.session, async |session| {
            let progress = (cursor, done, failed);
            work.runner.progress(session, work.id, progress).await
        })
        .await?;
        Ok(stale)
    }

    /// The number of rows that are not up to date; 0 if the change has no condition for such rows.
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

    /// Visits rows in the order of their keys. Only the first pass stores its last key, so that a
    /// later run continues it.
    async fn pass(
        &mut self,
        source: &Source<'_>,
        mut after: Option<Value>,
        end: Option<&Value>,
        is_first_pass: bool,
    ) -> Result<(), Refusal> {
        loop {
            self.work.stop.check()?;
            self.report_and_await_replicas().await?;
            let begin = Instant::now();
            let limit = self.state.batch;
            let visited = match source {
                Source::Rows(values) => {
                    self.rows(values, (after.as_ref(), end), is_first_pass)
                        .await?
                }
                Source::Counter(counter) => self.counters(counter, after.as_ref()).await?,
            };
            let Some((last, visited)) = visited else {
                return Ok(());
            };
            after = Some(last);
            if self.state.failed >= MAX_REFUSED_ROWS {
                return Err(transform_failed(&self.state));
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
        values: &ValueSource<'_>,
        bounds: (Option<&Value>, Option<&Value>),
        is_first_pass: bool,
    ) -> Result<Option<(Value, u64)>, Refusal> {
        let (dialect, work) = (self.dialect, self.work);
        let stale: Vec<String> = work.data.stale(dialect).into_iter().collect();
        let (session, limit) = (&mut *self.session, self.state.batch);
        let batch = rows::batch(session, dialect, work.data, &stale, bounds, limit).await?;
        let Some(last) = batch.last().and_then(|row| row.first()).cloned() else {
            return Ok(None);
        };
        let visited = batch.len() as u64;
        let (updates, refused) = rows::compute(work.data, values, batch);
        self.state.add_refused(refused);
        let (done, failed) = (self.state.done, self.state.failed as u64);
        // A later run continues only the first pass, so later passes store the last key of the
        // first pass.
        let key = if is_first_pass {
            Some(&last)
        } else {
            self.state.cursor.as_ref()
        };
        let cursor = key.map(|key| literal_of(key).to_string());
        self.state.batches += 1;
        let batch = self.state.batches;
        let (written, refused) = in_transaction(self.session, async |session| {
            let (count, refused) = rows::write(session, dialect, work.data, updates).await?;
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
        self.state.add_refused(refused);
        if is_first_pass {
            self.state.cursor = Some(last.clone());
        }
        Ok(Some((last, visited)))
    }

    /// Writes the counters of a batch. Returns the last key and the number of rows.
    async fn counters(
        &mut self,
        counter: &Counter<'_>,
        after: Option<&Value>,
    ) -> Result<Option<(Value, u64)>, Refusal> {
        let (dialect, work, done) = (self.dialect, self.work, self.state.done);
        let limit = self.state.batch;
        self.state.batches += 1;
        let batch = self.state.batches;
        let found = in_transaction(self.session, async |session| {
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

    /// Reports progress and waits while a replica lags, at most once per `REPORT_INTERVAL`.
    async fn report_and_await_replicas(&mut self) -> Result<(), Refusal> {
        if self.last_report.elapsed() < REPORT_INTERVAL {
            return Ok(());
        }
        let line = format!("{} {} rows written", self.work.id, self.state.done);
        (self.report)(&line);
        while let Some(lag) = self
            .session
            .replica_lag()
            .await?
            .filter(|lag| *lag > MAX_REPLICA_LAG)
        {
            let line = format!(
                "{} waits: a replica lags by {} s",
                self.work.id,
                lag.as_secs()
            );
            (self.report)(&line);
            self.rest(REPORT_INTERVAL).await?;
        }
        self.last_report = Instant::now();
        Ok(())
    }

    /// Sleeps. Returns `interrupted` early after a request to end the run.
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
