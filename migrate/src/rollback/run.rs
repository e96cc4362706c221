//! Runs a rollback.

use std::collections::BTreeSet;
use std::time::Duration;

use linchpin_core::schema::{
    Dialect, SchemaError, SchemaFault, SchemaSession, SchemaStore, TransactionMode,
};
use tokio::time::{Instant, sleep};

use super::{Rollback, Undo};
use crate::apply::{Failure, Options, check_conditions, lock, with_jitter};
use crate::check::Check;
use crate::error::{Exit, Refusal};
use crate::fault;
use crate::ledger::{Installed, Ledger, MigrationState, Runner, StepState};

/// The maximum number of attempts of an action that needs a lock.
const MAX_ATTEMPTS: u32 = 8;
/// The first pause between two attempts. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Undoes the newest migration of a database. Returns the rollback that was carried out.
///
/// # Errors
/// `rollback_closed`, `rollback_nothing`; `approval_required` and `approval_mismatch`;
/// `instances_alive` if a binary of the migration serves; a fault of the database.
pub async fn rollback(
    store: &dyn SchemaStore,
    options: &Options,
    report: &mut (dyn FnMut(&str) + Send),
) -> Result<Rollback, Refusal> {
    let mut session = store.connect().await?;
    let session = &mut *session;
    session.set_lock_timeout(options.lock_timeout);
    session.set_index_wait(options.index_wait);
    let mut lock = lock(store, options.lock_wait).await?;
    let installed = Installed::load(session).await?;
    let rollback = Rollback::make(store, session, &installed).await?;
    check_approval(&rollback, store.dialect(), options)?;
    let Some(ledger) = installed.ledger() else {
        return Ok(rollback);
    };
    wait_for_instances(session, rollback.seq, options).await?;
    let runner = begin(session, ledger, &rollback).await?;
    for undo in &rollback.undos {
        report(&format!("undo {}", undo.step));
        lock.check().await?;
        run(session, store.dialect(), runner, undo).await?;
    }
    end(session, ledger, &rollback, runner).await?;
    Ok(rollback)
}

fn check_approval(
    rollback: &Rollback,
    dialect: &dyn Dialect,
    options: &Options,
) -> Result<(), Refusal> {
    let help = "review `migrate plan --rollback` and pass its digest with `--approve`";
    match &options.approve {
        Some(given) if *given == rollback.digest(dialect) => Ok(()),
        Some(_) => Err(Refusal::new(
            "approval_mismatch",
            Exit::Approval,
            "the given digest is not that of the current rollback",
        )
        .help(help)),
        None if !rollback.needs_approval() => Ok(()),
        None => {
            let steps = rollback.undos.iter().filter(|undo| undo.is_destructive());
            let steps: Vec<&str> = steps.map(|undo| undo.step.as_str()).collect();
            Err(Refusal::new(
                "approval_required",
                Exit::Approval,
                format!(
                    "values are lost when these steps are undone: {}",
                    steps.join(", ")
                ),
            )
            .help(help))
        }
    }
}

/// Waits until no instance serves whose binary has the migration, at most for `options.wait`.
async fn wait_for_instances(
    session: &mut dyn SchemaSession,
    seq: u64,
    options: &Options,
) -> Result<(), Refusal> {
    let begin = Instant::now();
    loop {
        let alive = alive(session, seq).await?;
        if alive.is_empty() {
            return Ok(());
        }
        if begin.elapsed() >= options.wait {
            return Err(instances_alive(seq, &alive));
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// The serving instances whose binary has the migration or a later one.
async fn alive(session: &mut dyn SchemaSession, seq: u64) -> Result<Vec<String>, SchemaError> {
    let installed = Installed::load(session).await?;
    let now = session.now().await?;
    let ledger = installed.ledger();
    let alive = ledger.map(|ledger| ledger.alive(now, |one| one >= seq));
    Ok(alive.unwrap_or_default())
}

fn instances_alive(seq: u64, alive: &[String]) -> Refusal {
    Refusal::new(
        "instances_alive",
        Exit::Incomplete,
        format!(
            "waiting: instances of schema {seq} or newer are alive: {}",
            alive.join(", ")
        ),
    )
    .help("stop them and run the command again")
}

/// The window of accepted binaries without those that have the migration.
fn window(ledger: &Ledger, seq: u64) -> (u64, u64) {
    (ledger.min_seq.min(seq - 1), seq - 1)
}

/// Closes the window for binaries that have the migration, and records the migration as open.
async fn begin(
    session: &mut dyn SchemaSession,
    ledger: &Ledger,
    rollback: &Rollback,
) -> Result<Runner, Refusal> {
    let seq = rollback.seq;
    session.begin(TransactionMode::Write).await?;
    let outcome = async {
        let runner = Runner::take(session).await?;
        runner.state(session, seq, MigrationState::Open).await?;
        let window = window(ledger, seq);
        if ledger.seq == seq {
            let before = (seq - 1, &rollback.before);
            runner.installed(session, before, window).await?;
        } else {
            runner.window(session, window).await?;
        }
        // An instance may have started after the leases were read. From now on none can start.
        let alive = alive(session, seq).await?;
        if alive.is_empty() {
            Ok(runner)
        } else {
            Err(instances_alive(seq, &alive))
        }
    }
    .await;
    commit_or_roll_back(session, outcome, "begin").await
}

/// Records that the migration is undone.
async fn end(
    session: &mut dyn SchemaSession,
    ledger: &Ledger,
    rollback: &Rollback,
    runner: Runner,
) -> Result<(), Refusal> {
    let gone = rollback.planned.modes(&BTreeSet::new());
    let mut names = ledger.names.clone();
    names.retain(|name, _| !gone.contains_key(name));
    session.begin(TransactionMode::Write).await?;
    let outcome = async {
        for step in &rollback.planned.steps {
            if ledger.steps.contains_key(&step.id) {
                let nothing = (None, None);
                runner
                    .finish(session, &step.id, StepState::Pending, nothing)
                    .await?;
                runner.progress(session, &step.id, (None, 0, 0)).await?;
            }
        }
        let state = MigrationState::RolledBack;
        runner.state(session, rollback.seq, state).await?;
        runner.names(session, &names).await
    };
    let outcome: Result<(), SchemaError> = outcome.await;
    commit_or_roll_back(session, outcome, "end").await
}

/// Commits if the work succeeded, else rolls back.
async fn commit_or_roll_back<T>(
    session: &mut dyn SchemaSession,
    outcome: Result<T, impl Into<Refusal>>,
    part: &str,
) -> Result<T, Refusal> {
    match outcome {
        Ok(value) => {
            fault::point("rollback", &format!("{part}:before-commit"));
            session.commit().await?;
            fault::point("rollback", &format!("{part}:after-commit"));
            Ok(value)
        }
        Err(error) => {
            session.rollback().await;
            Err(error.into())
        }
    }
}

/// Undoes a step, and retries if another session holds a lock.
async fn run(
    session: &mut dyn SchemaSession,
    dialect: &dyn Dialect,
    runner: Runner,
    undo: &Undo,
) -> Result<(), Refusal> {
    let mut pause = FIRST_PAUSE;
    for attempt in 1.. {
        let failure = match attempt_once(session, dialect, runner, undo).await {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        };
        session.rollback().await;
        match failure {
            Failure::Database(error)
                if error.fault == SchemaFault::LockTimeout && attempt < MAX_ATTEMPTS =>
            {
                sleep(with_jitter(pause)).await;
                pause *= 2;
            }
            Failure::Database(error) => {
                return Err(Refusal::from(error).fact(format!("undo of step {}", undo.step)));
            }
            Failure::Refused(refusal) => return Err(refusal),
        }
    }
    Ok(())
}

async fn attempt_once(
    session: &mut dyn SchemaSession,
    dialect: &dyn Dialect,
    runner: Runner,
    undo: &Undo,
) -> Result<(), Failure> {
    let mut tables = undo.tables.clone();
    let after = undo.after();
    let point = |place: &str| fault::point(&undo.step, &format!("undo:{place}"));
    point("before");
    let outside_transaction = undo
        .actions
        .iter()
        .all(|action| !dialect.is_transactional(action));
    if !outside_transaction {
        session.begin(TransactionMode::Write).await?;
    }
    check_conditions(session, dialect, &undo.before, &undo.tables).await?;
    point("after-preconditions");
    for action in &undo.actions {
        session.perform(action, &tables).await?;
        action.apply(&mut tables);
    }
    point("after-action");
    let touched = undo.actions.last().map(|action| action.table().to_owned());
    let matches: Vec<Check> = touched
        .filter(|table| after.contains_key(table))
        .map(Check::Matches)
        .into_iter()
        .collect();
    check_conditions(session, dialect, &matches, &after).await?;
    point("after-verification");
    if outside_transaction {
        session.begin(TransactionMode::Write).await?;
    }
    runner
        .finish(session, &undo.step, StepState::Pending, (None, None))
        .await?;
    point("before-commit");
    session.commit().await?;
    point("after-done");
    Ok(())
}
