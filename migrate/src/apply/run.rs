//! Runs a plan: all migrations in order, and the steps of each in order.

use std::collections::{BTreeMap, BTreeSet};

use linchpin_core::schema::{
    Dialect, SchemaError, SchemaLock, SchemaSession, SchemaStore, Tables, TransactionMode,
};

use super::{Applied, Options, line};
use crate::canonical;
use crate::error::{Exit, Refusal};
use crate::fault;
use crate::ledger::{Ledger, MigrationState, NameMode, Opening, Runner};
use crate::plan::{Declared, Plan, Planned};
use crate::step::{Phase, Step};

/// A run of a plan, on a database with a ledger.
pub(super) struct Run<'a> {
    pub(super) store: &'a dyn SchemaStore,
    pub(super) session: Box<dyn SchemaSession>,
    pub(super) lock: Box<dyn SchemaLock>,
    pub(super) options: &'a Options,
    pub(super) declared: &'a Declared,
    pub(super) plan: &'a Plan,
    pub(super) ledger: &'a Ledger,
    pub(super) runner: Runner,
    /// The migration numbers of the oldest and the newest binary that may serve.
    pub(super) window: (u64, u64),
    /// The model of the present tables.
    pub(super) tables: Tables,
    /// The ids of the steps that are done, in this run and in earlier ones.
    pub(super) done: BTreeSet<String>,
    pub(super) applied: Applied,
    pub(super) backed_up: bool,
}

impl Run<'_> {
    pub(super) fn dialect(&self) -> &'static dyn Dialect {
        self.store.dialect()
    }

    /// Runs the pending steps up to the phase and the number of steps in the options.
    pub(super) async fn all(
        mut self,
        report: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Applied, Refusal> {
        let limit = self.options.phase.unwrap_or(Phase::Contract);
        if self.plan.migrations.is_empty() {
            return Ok(self.applied);
        }
        self.refuse_earlier_phase()?;
        self.refuse_drift().await?;
        self.begin().await?;
        let taken = Runner::take(&mut *self.session).await;
        self.runner = match taken {
            Ok(runner) => {
                self.session.commit().await?;
                runner
            }
            Err(error) => {
                self.session.rollback().await;
                return Err(error.into());
            }
        };
        let plan = self.plan;
        for (at, migration) in plan.migrations.iter().enumerate() {
            if at > 0 && !self.may_follow(at, limit)? {
                break;
            }
            self.open(migration).await?;
            // If the new binary needs no further step of this migration, it may serve from now on.
            if self.window.1 < migration.seq && self.is_ready(migration) {
                self.advance(migration).await?;
            }
            for step in &migration.steps {
                if self.done.contains(&step.id) {
                    continue;
                }
                if step.phase > limit {
                    break;
                }
                if self.applied.steps.len() >= self.options.max_steps {
                    return Ok(self.applied);
                }
                self.options.stop.check()?;
                report(&line(step));
                self.lock.check().await?;
                self.back_up(step).await?;
                self.step(migration, step, report).await?;
                step.apply(&mut self.tables);
                self.done.insert(step.id.clone());
                self.applied.steps.push(step.id.clone());
                self.advance(migration).await?;
            }
            self.advance(migration).await?;
            if self.state(migration) == MigrationState::Done {
                self.applied.seq = migration.seq;
            }
        }
        Ok(self.applied)
    }

    /// Refuses a phase whose earlier phases are not done.
    fn refuse_earlier_phase(&self) -> Result<(), Refusal> {
        let Some(phase) = self.options.phase else {
            return Ok(());
        };
        let next = self
            .plan
            .migrations
            .iter()
            .find(|m| m.pending().next().is_some());
        let missing: Vec<String> = next
            .into_iter()
            .flat_map(Planned::pending)
            .filter(|step| step.phase < phase)
            .map(line)
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let steps = match missing.len() {
            1 => "1 step of an earlier phase is".to_owned(),
            n => format!("{n} steps of earlier phases are"),
        };
        let mut refusal = Refusal::new(
            "phase_order",
            Exit::Planning,
            format!("`--phase {}`: {steps} pending", phase.name()),
        )
        .help("run `migrate apply` with the earlier phases first, or without `--phase`");
        for step in missing {
            refusal = refusal.fact(step);
        }
        Err(refusal)
    }

    /// Whether a migration may start now. Earlier migrations may still wait for their contract
    /// phase, unless one of their pending steps changes the same object.
    fn may_follow(&self, at: usize, limit: Phase) -> Result<bool, Refusal> {
        let migration = &self.plan.migrations[at];
        let earlier = &self.plan.migrations[..at];
        if earlier.iter().all(|m| self.is_done(m, Phase::Contract)) {
            let earlier_phase = self
                .options
                .phase
                .is_some_and(|phase| migration.pending().any(|step| step.phase < phase));
            return Ok(!earlier_phase);
        }
        if !migration.pending().any(|step| step.phase <= limit) {
            return Ok(false);
        }
        for other in earlier {
            let pending = other.steps.iter().filter(|s| !self.done.contains(&s.id));
            let Some(shared) = super::overlap::shared(pending, &migration.steps) else {
                continue;
            };
            return Err(Refusal::new(
                "earlier_contract_pending",
                Exit::Incomplete,
                format!(
                    "migration {} `{}` waits for the contract phase of migration {} `{}`: both change {shared}",
                    migration.seq, migration.name, other.seq, other.name
                ),
            )
            .help("run `migrate apply --phase contract`, then this command again"));
        }
        Ok(true)
    }

    /// Copies the database once in a run, before the first step that needs an approval.
    async fn back_up(&mut self, step: &Step) -> Result<(), Refusal> {
        if self.options.backup && !self.backed_up && step.needs_approval() {
            self.session.back_up(self.plan.to.0).await?;
            self.backed_up = true;
        }
        Ok(())
    }

    pub(super) async fn begin(&mut self) -> Result<(), SchemaError> {
        self.session.begin(TransactionMode::Write).await
    }

    /// Commits if the work succeeded, else rolls back.
    pub(super) async fn commit_or_roll_back(
        &mut self,
        outcome: Result<(), SchemaError>,
    ) -> Result<(), Refusal> {
        match outcome {
            Ok(()) => Ok(self.session.commit().await?),
            Err(error) => {
                self.session.rollback().await;
                Err(error.into())
            }
        }
    }

    /// Records that a migration has started, and the names that it changes.
    async fn open(&mut self, migration: &Planned) -> Result<(), Refusal> {
        let digest = canonical::digest_of(&migration.after);
        let known = self.ledger.migrations.get(&migration.seq);
        let known = known.filter(|known| known.digest == digest && known.state.is_open());
        let document = migration.recorded.as_ref();
        let plan = self.plan.digest(self.dialect());
        let opening = Opening {
            seq: migration.seq,
            name: migration.name.clone(),
            digest,
            document: document.map_or_else(String::new, |recorded| {
                canonical::canonical(&canonical::json_of(recorded))
            }),
            plan: Some(&plan),
            approval: self.options.approve.as_deref(),
            draft: false,
        };
        let state = known.map_or(MigrationState::Open, |known| known.state);
        let modes = self.modes(migration);
        self.begin().await?;
        let session = &mut *self.session;
        let written = async {
            self.runner.open(session, &opening, state).await?;
            if modes == self.ledger.names {
                Ok(())
            } else {
                self.runner.names(session, &modes).await
            }
        }
        .await;
        self.commit_or_roll_back(written).await
    }

    /// The present names of the tables and columns that this migration and other open migrations
    /// rename.
    pub(super) fn modes(&self, migration: &Planned) -> BTreeMap<String, NameMode> {
        let mut modes = BTreeMap::new();
        for one in &self.plan.migrations {
            let known = self.ledger.migrations.get(&one.seq);
            let is_open = known.is_some_and(|known| known.state.is_open());
            if (is_open || one.seq <= migration.seq) && !self.is_done(one, Phase::Contract) {
                modes.extend(one.modes(&self.done));
            }
        }
        modes
    }

    /// Whether all steps of a migration are done, up to and including a phase.
    pub(super) fn is_done(&self, migration: &Planned, phase: Phase) -> bool {
        let mut steps = migration.steps.iter();
        steps.all(|step| step.phase > phase || self.done.contains(&step.id))
    }

    /// Updates the window of accepted binaries and the state of a migration after a step.
    async fn advance(&mut self, migration: &Planned) -> Result<(), Refusal> {
        let seq = migration.seq;
        let (min, max) = self.window;
        let mut window = self.window;
        let state = self.state(migration);
        if state == MigrationState::Done {
            let floor = if migration.narrows() { seq } else { min };
            window = (min.max(floor), max.max(seq));
        } else if self.is_ready(migration) {
            window.1 = max.max(seq);
        }
        let modes = self.modes(migration);
        let last = self.applied.steps.last().cloned().unwrap_or_default();
        fault::point(&last, "window:before");
        self.begin().await?;
        let (session, runner) = (&mut *self.session, self.runner);
        let written = async {
            runner.state(session, seq, state).await?;
            if state != MigrationState::Done {
                return runner.window(session, window).await;
            }
            runner.names(session, &modes).await?;
            runner
                .installed(session, (seq, &migration.after), window)
                .await
        }
        .await;
        self.commit_or_roll_back(written).await?;
        fault::point(&last, "window:after");
        self.window = window;
        Ok(())
    }

    /// The state of a migration, from its steps that are done.
    fn state(&self, migration: &Planned) -> MigrationState {
        let contracts = |step: &Step| step.phase == Phase::Contract && self.done.contains(&step.id);
        // A migration is done only after all earlier ones, because the ledger has only one
        // installed snapshot.
        let mut up_to = self
            .plan
            .migrations
            .iter()
            .filter(|m| m.seq <= migration.seq);
        if up_to.all(|m| self.is_done(m, Phase::Contract)) {
            MigrationState::Done
        } else if migration.steps.iter().any(contracts) {
            MigrationState::Contracting
        } else if self.is_done(migration, Phase::Backfill) {
            MigrationState::Backfilled
        } else if self.is_done(migration, Phase::Expand) {
            MigrationState::Expanded
        } else {
            MigrationState::Open
        }
    }

    /// Whether the new binary may serve: all steps that it needs are done. It does not need a
    /// widening step: until this step is done, the binary refuses the values that the step allows.
    fn is_ready(&self, migration: &Planned) -> bool {
        migration.steps.iter().all(|step| {
            step.phase > migration.ready || step.is_widening() || self.done.contains(&step.id)
        })
    }
}
