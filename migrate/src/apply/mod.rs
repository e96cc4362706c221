//! Carries out a plan: takes the lock, checks the approval, and runs the steps in order.

mod drift;
mod install;
mod overlap;
mod run;
mod step;

use std::time::Duration;

use linchpin_core::schema::{Dialect, Locking, SchemaLock, SchemaStore};
use tokio::time::{Instant, sleep};

use self::run::Run;
use crate::backfill::{Pace, Stop};
use crate::chain::Chain;
use crate::error::{Exit, Refusal};
use crate::ledger::{Installed, Runner};
use crate::plan::{Declared, Plan, refuse_foreign, refuse_missing};
use crate::sample;
use crate::step::{Phase, Step};

pub(crate) use self::drift::{drift, is_foreign};
pub(crate) use self::install::{draft, expand_system, install, record_installed};
pub(crate) use self::step::{
    FIRST_PAUSE, Failure, MAX_ATTEMPTS, MAX_PAUSE, check_conditions, with_jitter,
};

/// The longest pause between two attempts to take a busy lock.
const POLL: Duration = Duration::from_millis(100);

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The only phase of the run; earlier phases must be done. `None` runs all phases.
    pub phase: Option<Phase>,
    /// The digest of the approved plan.
    pub approve: Option<String>,
    /// The digest of a saved plan, [`Plan::digest`]. A run of another plan is refused.
    pub plan: Option<String>,
    /// How long to wait for the lock of another runner. Default: 30 s.
    pub lock_wait: Duration,
    /// How long a statement waits for a lock of another session. Default: 2 s.
    pub lock_timeout: Duration,
    /// How long the build of an index waits for older transactions. Default: 10 min.
    pub index_wait: Duration,
    /// How long to wait for instances of older binaries to end. Default: 0.
    pub wait: Duration,
    /// The maximum number of steps in the run. Default: no limit.
    pub max_steps: usize,
    /// Whether to copy a SQLite file before the first step that needs an approval. Default: yes.
    pub backup: bool,
    /// The speed of backfills.
    pub pace: Pace,
    /// Ends the run after the current step or batch.
    pub stop: Stop,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            phase: None,
            approve: None,
            plan: None,
            lock_wait: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(2),
            index_wait: Duration::from_mins(10),
            wait: Duration::ZERO,
            max_steps: usize::MAX,
            backup: true,
            pace: Pace::default(),
            stop: Stop::default(),
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The ids of the steps that ran.
    pub steps: Vec<String>,
    /// The number of the newest migration that is done after the run.
    pub seq: u64,
    /// The number of the newest migration that was done before the run.
    pub from: u64,
}

/// Carries out the plan for a database.
///
/// # Errors
/// A refusal; see [`Exit`] for its kinds. Steps that ran before the refusal stay done.
pub async fn apply(
    store: &dyn SchemaStore,
    (chain, declared): (&Chain, &Declared),
    options: &Options,
    report: &mut (dyn FnMut(&str) + Send),
) -> Result<Applied, Refusal> {
    let mut session = store.connect().await?;
    session.set_lock_timeout(options.lock_timeout);
    session.set_index_wait(options.index_wait);
    let lock = lock(store, options.lock_wait).await?;
    let installed = Installed::load(&mut *session).await?;
    refuse_foreign(&installed, &declared.snapshot)?;
    let plan = Plan::make(store, &mut *session, &installed, (chain, declared)).await?;
    if !plan.recorded {
        return Err(unrecorded());
    }
    check_approval(&plan, store.dialect(), options)?;
    let phase = options.phase.unwrap_or(Phase::Contract);
    refuse_missing(plan.pending(phase), declared)?;
    // A trial run refuses a function that returns two different values for one record.
    sample::samples(&plan, &mut *session, store.dialect(), declared).await?;
    let Some(ledger) = installed.ledger() else {
        report("creating the tables");
        install(
            store.dialect(),
            &mut *session,
            declared,
            (chain.seq(), &chain.snapshot()),
            (chain, Some(&plan)),
        )
        .await?;
        return Ok(Applied {
            steps: plan
                .pending(Phase::Contract)
                .map(|step| step.id.clone())
                .collect(),
            seq: chain.seq(),
            from: 0,
        });
    };
    if ledger.system < declared.system_version() {
        report("expanding the tables of the framework");
        expand_system(store.dialect(), &mut *session, declared).await?;
    }
    let done = plan
        .migrations
        .iter()
        .flat_map(|m| &m.done)
        .cloned()
        .collect();
    let run = Run {
        store,
        session,
        lock,
        options,
        declared,
        plan: &plan,
        ledger,
        runner: Runner(ledger.runner),
        window: (ledger.min_seq, ledger.max_seq),
        tables: plan.present_tables(),
        done,
        applied: Applied {
            steps: Vec::new(),
            seq: ledger.seq,
            from: ledger.seq,
        },
        backed_up: false,
    };
    run.all(report).await
}

/// Refuses a run if the plan differs from the saved one, or if the run has a step that needs an
/// approval and the digest of this plan is not given.
pub(crate) fn check_approval(
    plan: &Plan,
    dialect: &dyn Dialect,
    options: &Options,
) -> Result<(), Refusal> {
    if let Some(saved) = &options.plan
        && *saved != plan.digest(dialect)
    {
        return Err(Refusal::new(
            "plan_stale",
            Exit::Approval,
            "the saved plan differs from the present plan",
        )
        .help("run `migrate plan --out FILE` again and review it"));
    }
    let phase = options.phase.unwrap_or(Phase::Contract);
    let wanted: Vec<&str> = plan
        .pending(phase)
        .filter(|step| step.needs_approval())
        .map(|step| step.id.as_str())
        .collect();
    let help = "review `migrate plan` and pass its digest with `--approve`";
    match &options.approve {
        // The digest is compared even if no step needs it: it identifies the reviewed plan.
        Some(given) if plan.migrations.is_empty() || *given == plan.digest(dialect) => Ok(()),
        Some(_) => {
            let refusal = Refusal::new(
                "approval_mismatch",
                Exit::Approval,
                "the given digest is not that of the current plan; the plan, the target or its size class has changed",
            )
            .help(help);
            Err(if wanted.is_empty() {
                refusal
            } else {
                refusal.fact(format!("steps that need approval: {}", wanted.join(", ")))
            })
        }
        None if wanted.is_empty() => Ok(()),
        None => {
            let steps = match wanted.len() {
                1 => "1 step that needs".to_owned(),
                n => format!("{n} steps that need"),
            };
            Err(Refusal::new(
                "approval_required",
                Exit::Approval,
                format!("this run reaches {steps} approval: {}", wanted.join(", ")),
            )
            .help(help))
        }
    }
}

/// Takes the lock of the database.
///
/// # Errors
/// `locked` if another runner has it for longer than `wait`.
pub(crate) async fn lock(
    store: &dyn SchemaStore,
    wait: Duration,
) -> Result<Box<dyn SchemaLock>, Refusal> {
    let begin = Instant::now();
    let mut pause = POLL / 8;
    loop {
        match store.try_lock().await? {
            Locking::Taken(lock) => return Ok(lock),
            Locking::Busy(holder) if begin.elapsed() >= wait => {
                return Err(Refusal::new(
                    "locked",
                    Exit::Busy,
                    "another run of migrations holds the lock of this database",
                )
                .fact(format!("holder: {holder}"))
                .help("wait until it ends, and run the command again"));
            }
            // The first pauses are short, because a development start holds the lock only for a
            // short time.
            Locking::Busy(_) => {
                sleep(pause).await;
                pause = (pause * 2).min(POLL);
            }
        }
    }
}

pub(crate) fn unrecorded() -> Refusal {
    Refusal::new(
        "unrecorded_changes",
        Exit::Planning,
        "the declared schema differs from the newest recorded migration",
    )
    .help("`migrate record NAME` records the difference as the next migration")
}

/// One line about a step: `0003.02 expand addColumn posts.rank`.
pub(crate) fn line(step: &Step) -> String {
    let object = step
        .object
        .as_deref()
        .map_or_else(String::new, |object| format!(".{object}"));
    format!(
        "{} {} {} {}{object}",
        step.id,
        step.phase.name(),
        step.kind,
        step.entity
    )
}
