//! Runs one step: records it as running, checks its conditions, does its work and verifies it.

use std::time::Duration;

use linchpin_core::schema::{Dialect, Difference, SchemaError, SchemaFault, SchemaSession, Tables};
use serde_json::{Value as Json, json};
use tokio::time::{Instant, sleep};

use super::drift::{drift, is_foreign};
use super::line;
use super::run::Run;
use crate::backfill;
use crate::check::{Check, Finding};
use crate::error::{Exit, Refusal};
use crate::fault;
use crate::ledger::{Installed, MigrationState, StepState};
use crate::plan::Planned;
use crate::step::{Phase, Step, Work};

/// The maximum number of attempts for a step that locks a table only briefly.
pub(crate) const MAX_ATTEMPTS: u32 = 8;
/// The first pause between two attempts. Each further pause is twice as long, up to `MAX_PAUSE`.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause between two attempts.
pub(crate) const MAX_PAUSE: Duration = Duration::from_secs(30);

impl Run<'_> {
    /// Runs a step. Retries it if another session holds a lock.
    pub(super) async fn step(
        &mut self,
        migration: &Planned,
        step: &Step,
        report: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), Refusal> {
        let approval = self.options.approve.as_deref();
        let approval = approval.filter(|_| step.needs_approval());
        fault::point(&step.id, "before-running");
        self.begin().await?;
        let session = &mut *self.session;
        let marked = self
            .runner
            .running(session, (step, migration.seq), approval)
            .await;
        self.commit_or_roll_back(marked).await?;
        fault::point(&step.id, "after-running");
        self.wait_for_instances(step).await?;
        // The build of an index has its own time limit. After this limit the build is not retried.
        let is_brief = match &step.work {
            Work::Schema(action) => self.dialect().lock(action).brief,
            Work::Data(_) | Work::Check { .. } => true,
        };
        let attempts = if is_brief { MAX_ATTEMPTS } else { 1 };
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            self.options.stop.check()?;
            let failure = match self.attempt(migration, step, report).await {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            self.session.rollback().await;
            // If another runner has taken over, its changes may be the cause of the failure.
            let ownership = self.runner.check_without_lock(&mut *self.session).await;
            let failure = match ownership {
                Err(lost) if lost.fault == SchemaFault::LockLost => lost.into(),
                _ => failure,
            };
            match failure {
                failure if failure.is_lock_timeout() && attempt < attempts => {
                    sleep(with_jitter(pause)).await;
                    pause = (pause * 2).min(MAX_PAUSE);
                }
                // The other runner continues the step.
                Failure::Database(error) if error.fault == SchemaFault::LockLost => {
                    return Err(error.into());
                }
                // The next run continues the step.
                Failure::Refused(refusal) if refusal.exit == Exit::Incomplete => {
                    return Err(refusal);
                }
                failure => return self.failed(step, failure.into_refusal(step)).await,
            }
        }
        Ok(())
    }

    /// Records that a step has failed.
    async fn failed(&mut self, step: &Step, refusal: Refusal) -> Result<(), Refusal> {
        let message = std::iter::once(refusal.message.as_str());
        let facts = refusal.facts.iter().map(|fact| fact.text.as_str());
        let lines: Vec<&str> = message.chain(facts).collect();
        let recorded = async {
            self.begin().await?;
            let error = (None, Some(lines.join("\n")));
            let session = &mut *self.session;
            let failed = self
                .runner
                .finish(session, &step.id, StepState::Failed, error);
            let failed = failed.await;
            self.commit_or_roll_back(failed).await
        }
        .await;
        // The refusal is reported, even if it could not be recorded.
        drop(recorded);
        Err(refusal)
    }

    async fn attempt(
        &mut self,
        migration: &Planned,
        step: &Step,
        report: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), Failure> {
        let mut after = self.tables.clone();
        step.apply(&mut after);
        let dialect = self.dialect();
        if step.is_transactional(dialect) {
            let modes = {
                self.done.insert(step.id.clone());
                let modes = self.modes(migration);
                self.done.remove(&step.id);
                modes
            };
            let window = self.narrowed(migration, step);
            self.begin().await?;
            self.narrow(migration, step, window).await?;
            let session = &mut *self.session;
            self.runner.check_without_lock(session).await?;
            check_conditions(session, dialect, &step.before, &self.tables).await?;
            fault::point(&step.id, "after-preconditions");
            if let Work::Schema(action) = &step.work {
                session.perform(action, &self.tables).await?;
            }
            fault::point(&step.id, "after-action");
            let result = check_conditions(session, dialect, &step.after, &after).await?;
            fault::point(&step.id, "after-verification");
            if step.narrows() {
                self.runner.names(session, &modes).await?;
            }
            let result = (Some(result.to_string()), None);
            self.runner
                .finish(session, &step.id, StepState::Done, result)
                .await?;
            session.commit().await?;
            fault::point(&step.id, "after-done");
            self.window = window;
            return Ok(());
        }
        let window = self.narrowed(migration, step);
        if window != self.window {
            fault::point(&step.id, "window:before");
            self.begin().await?;
            self.narrow(migration, step, window).await?;
            self.session.commit().await?;
            fault::point(&step.id, "window:after");
            self.window = window;
        }
        let session = &mut *self.session;
        self.runner.check_without_lock(session).await?;
        check_conditions(session, dialect, &step.before, &self.tables).await?;
        fault::point(&step.id, "after-preconditions");
        let mut stale = 0;
        match &step.work {
            Work::Schema(action) => session.perform(action, &self.tables).await?,
            Work::Data(data) => {
                let work = backfill::Work {
                    id: &step.id,
                    data,
                    runner: self.runner,
                    final_pass: step.phase == Phase::Contract,
                    stop: &self.options.stop,
                };
                let speed = (&self.options.pace, report);
                stale = backfill::run(session, dialect, work, self.declared, speed)
                    .await
                    .map_err(Failure::Refused)?;
            }
            Work::Check { .. } => {}
        }
        fault::point(&step.id, "after-action");
        let mut result = check_conditions(session, dialect, &step.after, &after).await?;
        fault::point(&step.id, "after-verification");
        if let (true, Some(list)) = (stale > 0, result.as_array_mut()) {
            // Other writers changed these rows during the step. The contract phase fills them.
            list.push(json!({ "kind": "rows_filled", "stale": stale }));
        }
        self.begin().await?;
        let result = (Some(result.to_string()), None);
        self.runner
            .finish(&mut *self.session, &step.id, StepState::Done, result)
            .await?;
        self.session.commit().await?;
        fault::point(&step.id, "after-done");
        Ok(())
    }

    /// The window of accepted binaries from this step on.
    fn narrowed(&self, migration: &Planned, step: &Step) -> (u64, u64) {
        if step.narrows() {
            (self.window.0.max(migration.seq), self.window.1)
        } else {
            self.window
        }
    }

    /// Closes the window for older binaries, within a transaction.
    async fn narrow(
        &mut self,
        migration: &Planned,
        step: &Step,
        window: (u64, u64),
    ) -> Result<(), Failure> {
        if window == self.window {
            return Ok(());
        }
        let session = &mut *self.session;
        self.runner.window(session, window).await?;
        // An older instance may have started after the leases were read. From now on none can
        // start, because a start reads the window in the transaction that writes its lease.
        let alive = alive(session, migration.seq).await?;
        if !alive.is_empty() {
            return Err(Failure::Refused(instances_alive(step, &alive)));
        }
        if step.phase == Phase::Contract {
            let state = MigrationState::Contracting;
            self.runner.state(session, migration.seq, state).await?;
        }
        Ok(())
    }

    /// Waits for instances of older binaries to end, at most `options.wait`.
    async fn wait_for_instances(&mut self, step: &Step) -> Result<(), Refusal> {
        let Some(seq) = step.before.iter().find_map(|check| match check {
            Check::NoInstancesBelow(seq) => Some(*seq),
            _ => None,
        }) else {
            return Ok(());
        };
        let begin = Instant::now();
        loop {
            let alive = alive(&mut *self.session, seq).await?;
            if alive.is_empty() {
                return Ok(());
            }
            if begin.elapsed() >= self.options.wait {
                self.begin().await?;
                let session = &mut *self.session;
                let waiting =
                    self.runner
                        .finish(session, &step.id, StepState::Waiting, (None, None));
                let waiting = waiting.await;
                self.commit_or_roll_back(waiting).await?;
                return Err(instances_alive(step, &alive));
            }
            self.options.stop.check()?;
            sleep(Duration::from_millis(500)).await;
        }
    }
}

/// The serving instances whose binary is older than a migration.
async fn alive(session: &mut dyn SchemaSession, seq: u64) -> Result<Vec<String>, SchemaError> {
    let installed = Installed::load(session).await?;
    let now = session.now().await?;
    let ledger = installed.ledger();
    let alive = ledger.map(|ledger| ledger.alive(now, |one| one < seq));
    Ok(alive.unwrap_or_default())
}

fn instances_alive(step: &Step, alive: &[String]) -> Refusal {
    let instances = match alive.len() {
        1 => "1 instance of an older schema is alive".to_owned(),
        n => format!("{n} instances of an older schema are alive"),
    };
    Refusal::new(
        "instances_alive",
        Exit::Incomplete,
        format!("waiting: {instances}: {}", alive.join(", ")),
    )
    .fact(format!("step {}", step.id))
    .help("stop them, or wait for them with `--wait TIME`, and run the command again")
}

/// A random pause of 50 to 100 % of `pause`, so that two runners do not retry at the same times.
pub(crate) fn with_jitter(pause: Duration) -> Duration {
    let random = uuid::Uuid::new_v4().as_bytes()[0];
    pause.mul_f64(0.5 + f64::from(random) / 512.0)
}

/// The reason why a step did not succeed.
pub(crate) enum Failure {
    Database(SchemaError),
    Refused(Refusal),
}

impl From<SchemaError> for Failure {
    fn from(error: SchemaError) -> Self {
        Self::Database(error)
    }
}

impl Failure {
    /// Whether another session held a lock for too long. A backfill reports this as a refusal.
    fn is_lock_timeout(&self) -> bool {
        match self {
            Self::Database(error) => error.fault == SchemaFault::LockTimeout,
            Self::Refused(refusal) => refusal.code == "lock_timeout",
        }
    }

    /// Returns the refusal without naming the step.
    pub(crate) fn refusal(self) -> Refusal {
        match self {
            Self::Refused(refusal) => refusal,
            Self::Database(error) => error.into(),
        }
    }

    fn into_refusal(self, step: &Step) -> Refusal {
        match self {
            Self::Refused(refusal) => refusal,
            Self::Database(error) => Refusal::from(error).fact(format!("step {}", line(step))),
        }
    }
}

/// Evaluates the conditions of a step and returns their results as JSON. `tables` is the model of
/// the present tables.
pub(crate) async fn check_conditions(
    session: &mut dyn SchemaSession,
    dialect: &dyn Dialect,
    checks: &[Check],
    tables: &Tables,
) -> Result<Json, Failure> {
    let mut measured = Vec::new();
    for check in checks {
        match check {
            // The leases were read before the step.
            Check::NoInstancesBelow(_) => continue,
            Check::TableAbsent(table) => {
                if session.tables().await?.contains(table) {
                    let refusal = Refusal::new(
                        "table_exists",
                        Exit::Data,
                        format!("a table `{table}` exists already, and is not in the ledger"),
                    );
                    return Err(Failure::Refused(refusal));
                }
            }
            Check::Matches(table) => {
                let Some(expected) = tables.get(table) else {
                    continue;
                };
                let differences: Vec<Difference> = session
                    .compare(&[expected])
                    .await?
                    .into_iter()
                    .filter(|difference| !is_foreign(difference))
                    .collect();
                if let Err(refusal) = drift(&differences) {
                    let refusal = Refusal {
                        code: "verification_failed",
                        message: "after the step, the table differs from the expected one"
                            .to_owned(),
                        ..refusal
                    };
                    return Err(Failure::Refused(refusal));
                }
            }
            check => {
                if let Finding::Fails { code, message, .. } =
                    check.evaluate(session, dialect).await?
                {
                    return Err(Failure::Refused(Refusal::new(code, Exit::Data, message)));
                }
            }
        }
        measured.push(json!({ "kind": check.kind(), "table": check.table(), "result": "holds" }));
    }
    Ok(Json::Array(measured))
}
