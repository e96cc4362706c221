//! The changes of a development start, which is the start of a server in `Mode::Development`. It
//! creates the tables of an empty database. On an embedded store it also applies changes that only
//! add.

use std::time::Duration;

use linchpin_core::schema::{SchemaSession, Snapshot, Table, TransactionMode};

use super::{Target, terrain};
use crate::apply::{self, Options, install, lock};
use crate::draft::additive;
use crate::error::{Exit, Refusal};
use crate::ledger::{Installed, Ledger, MigrationState, Opening, Runner};
use crate::plan::{Plan, Planned, planned, refuse_foreign, same};
use crate::step::{Phase, Step, Work};
use crate::system;

/// The maximum wait for another start that changes the tables.
const MAX_LOCK_WAIT: Duration = Duration::from_mins(1);

/// A task of a development start.
#[derive(Debug)]
enum Task {
    /// Create the tables of an empty database.
    Create,
    /// Write a ledger for tables that equal the declarations.
    Adopt,
    /// Add missing tables and columns of the framework.
    System,
    /// Record migrations whose changes a draft has already applied.
    TakeOver,
    /// Apply the changes of recorded migrations that only add.
    Expand,
    /// Apply the unrecorded changes that only add.
    Draft,
}

impl Target<'_> {
    /// Carries out the tasks of a development start. If several instances start at once, one works;
    /// the others wait and then have no task.
    ///
    /// # Errors
    /// A refusal if this binary cannot serve the database.
    pub(super) async fn develop(&self, session: &mut dyn SchemaSession) -> Result<(), Refusal> {
        // A start extends the tables only once; remaining changes need `migrate apply`.
        let mut extended = false;
        loop {
            let installed = Installed::load(session).await?;
            match self.task(&installed, extended)? {
                None => return Ok(()),
                Some(Task::Expand) => {
                    extended = true;
                    self.expand(session, &installed).await?;
                }
                Some(_) => {
                    let _lock = lock(self.store, MAX_LOCK_WAIT).await?;
                    // Another instance may have done the task while this one waited.
                    let installed = Installed::load(session).await?;
                    if let Some(task) = self.task(&installed, extended)? {
                        extended |= matches!(task, Task::Draft);
                        self.perform(session, &installed, &task).await?;
                    }
                }
            }
        }
    }

    /// The next task of the start; `None` if there is none. `extended` is true if this start has
    /// already extended the tables.
    fn task(&self, installed: &Installed, extended: bool) -> Result<Option<Task>, Refusal> {
        let embedded = self.store.is_embedded();
        let Some(ledger) = installed.ledger() else {
            return match refuse_foreign(installed, &self.declared.snapshot) {
                Ok(()) => Ok(Some(Task::Create)),
                Err(_) if embedded => Ok(Some(Task::Adopt)),
                Err(refusal) => Err(self.refused(None, refusal, "")),
            };
        };
        if ledger.system < system::VERSION {
            return Ok(Some(Task::System));
        }
        let (head, seq) = (self.chain.snapshot(), self.chain.seq());
        if ledger.seq < seq && open_migration(ledger).is_none() && same(&ledger.snapshot, &head) {
            return Ok(Some(Task::TakeOver));
        }
        // Other instances may serve a database of a server, so only `migrate apply` changes it.
        if !embedded || ledger.seq > seq || extended {
            return Ok(None);
        }
        if same(&head, &self.declared.snapshot) {
            return Ok((ledger.max_seq < seq).then_some(Task::Expand));
        }
        let (added, fills) = self.draft(ledger);
        if added.steps.is_empty() && fills.is_empty() {
            return Ok(None);
        }
        if let Some(name) = open_migration(ledger) {
            let why = Refusal::new(
                "migration_open",
                Exit::Refused,
                format!(
                    "migration {name} is still open, and the declarations have unrecorded changes"
                ),
            )
            .help("run `migrate apply`, then start again");
            return Err(self.refused(Some(ledger), why, ""));
        }
        Ok(Some(Task::Draft))
    }

    async fn perform(
        &self,
        session: &mut dyn SchemaSession,
        installed: &Installed,
        task: &Task,
    ) -> Result<(), Refusal> {
        let (store, declared) = (self.store, self.declared);
        match (task, installed.ledger()) {
            (Task::Create, _) => {
                let state = (self.chain.seq(), &declared.snapshot);
                install(
                    store.dialect(),
                    session,
                    declared,
                    state,
                    (self.chain, None),
                )
                .await
            }
            (Task::Adopt, _) => self.adopt(session, installed).await,
            (Task::System, Some(_)) => {
                apply::expand_system(store.dialect(), session, declared).await
            }
            (Task::TakeOver, Some(ledger)) => take_over(session, ledger, self.chain).await,
            (Task::Draft, Some(ledger)) => {
                let (added, fills) = self.draft(ledger);
                apply::draft(store, session, (ledger, declared), (&added, &fills))
                    .await
                    .map_err(|refusal| self.refused(Some(ledger), refusal, ""))
            }
            (_, None) | (Task::Expand, _) => Ok(()),
        }
    }

    /// Writes a ledger for tables without one, if they equal the declarations.
    async fn adopt(
        &self,
        session: &mut dyn SchemaSession,
        installed: &Installed,
    ) -> Result<(), Refusal> {
        let tables = self.declared.snapshot.tables();
        let expected: Vec<&Table> = tables.values().collect();
        let differences = session.compare(&expected).await?;
        let mut harmful = differences
            .iter()
            .filter(|difference| !difference.code.is_harmless())
            .peekable();
        if harmful.peek().is_some() {
            let Err(mut why) = refuse_foreign(installed, &self.declared.snapshot) else {
                return Ok(());
            };
            for difference in harmful {
                why = why.fact(difference.to_string());
            }
            return Err(self.refused(None, why, ""));
        }
        let state = (self.chain.seq(), &self.declared.snapshot);
        apply::record_installed(
            self.store.dialect(),
            session,
            self.declared,
            state,
            self.chain,
        )
        .await
    }

    /// Applies the expand steps of recorded migrations, then the backfill steps. If a step of a
    /// phase needs an approval, no step of that phase is applied.
    async fn expand(
        &self,
        session: &mut dyn SchemaSession,
        installed: &Installed,
    ) -> Result<(), Refusal> {
        let of = (self.chain, self.declared);
        let plan = Plan::make(self.store, session, installed, of).await?;
        // Two runs, because a run with a phase carries out only the steps of that phase.
        for phase in [Phase::Expand, Phase::Backfill] {
            if plan.pending(phase).any(Step::needs_approval) {
                return Ok(());
            }
            let options = Options {
                phase: Some(phase),
                lock_wait: MAX_LOCK_WAIT,
                ..Options::default()
            };
            let report = &mut |line: &str| tracing::info!("{line}");
            apply::apply(self.store, of, &options, report)
                .await
                .map_err(|refusal| self.refused(installed.ledger(), refusal, ""))?;
        }
        Ok(())
    }

    /// The steps of unrecorded changes that only add: steps of the schema, then steps that fill new
    /// required fields. Only a recorded migration makes such a field required.
    fn draft(&self, ledger: &Ledger) -> (Planned, Vec<Step>) {
        let declared = &self.declared.snapshot;
        let between = additive(&ledger.snapshot, declared);
        let terrain = terrain(self.store, &self.declared.own_sql);
        let steps = |before: &Snapshot, after: &Snapshot| {
            planned(
                (self.chain.seq() + 1, "draft"),
                (before, after),
                None,
                &terrain,
            )
        };
        let mut added = steps(&ledger.snapshot, &between);
        // Values that a function computes need a recorded migration.
        added.steps.retain(|step| step.phase == Phase::Expand);
        let mut fills = steps(&between, declared).steps;
        fills.retain(|step| {
            step.phase == Phase::Backfill
                && matches!(&step.work, Work::Data(data) if data.is_known())
        });
        (added, fills)
    }
}

/// The number and the name of a migration that has started and has not ended.
fn open_migration(ledger: &Ledger) -> Option<String> {
    let mut open = ledger
        .migrations
        .iter()
        .filter(|(seq, migration)| **seq > ledger.seq && migration.state.is_open());
    open.next()
        .map(|(seq, migration)| format!("{seq} `{}`", migration.name))
}

/// Records migrations of the chain whose changes a draft has already applied.
async fn take_over(
    session: &mut dyn SchemaSession,
    ledger: &Ledger,
    chain: &crate::Chain,
) -> Result<(), Refusal> {
    session.begin(TransactionMode::Write).await?;
    let outcome = async {
        let runner = Runner::take(session).await?;
        for migration in chain.migrations().iter().filter(|m| m.seq > ledger.seq) {
            let opening = Opening::of(migration);
            runner.open(session, &opening, MigrationState::Done).await?;
        }
        let seq = chain.seq();
        runner
            .installed(session, (seq, &chain.snapshot()), (seq, seq))
            .await
    }
    .await;
    match outcome {
        Ok(()) => Ok(session.commit().await?),
        Err(error) => {
            session.rollback().await;
            Err(error.into())
        }
    }
}
