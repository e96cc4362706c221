//! The ledger: the tables in a database that say what is installed there.

mod lease;
mod load;
mod state;
mod tables;
mod write;

use std::collections::BTreeMap;

use linchpin_core::Timestamp;
use linchpin_core::schema::{SchemaError, SchemaFault, Snapshot};

use crate::step::RowClass;

pub(crate) use self::lease::{lease, release, window};
pub use self::state::{MigrationState, NameMode, StepState};
pub(crate) use self::write::{Opening, Runner, create};

/// The version of the tables of the framework that this build creates.
pub(crate) const SYSTEM: u64 = 1;

/// How much longer than its lease an instance counts as alive.
const GRACE_MILLIS: i64 = 5_000;

/// What is installed in a database.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// The id of the database.
    pub database_id: String,
    /// The name of the app that created the ledger.
    pub app: String,
    /// The version of the tables of the framework.
    pub system: u64,
    /// The number of the newest migration that is done.
    pub seq: u64,
    /// The oldest binary that may serve.
    pub min_seq: u64,
    /// The newest binary that may serve.
    pub max_seq: u64,
    /// Grows with every change of names or of the window. Instances read it.
    pub epoch: u64,
    /// Grows with every runner. A runner with an older number writes nothing more.
    pub runner: u64,
    /// The snapshot that is installed: the one of `seq`, or a draft of a development start.
    pub snapshot: Snapshot,
    /// The digest of the snapshot when it was written.
    pub digest: String,
    /// Why the snapshot is not what was written; `None` if it is. [`Installed::load`] refuses such
    /// a ledger.
    pub damage: Option<String>,
    /// The storage names of the entities whose records are in this database.
    pub placed: Vec<String>,
    /// The tables and columns that open migrations rename, by their later names: `people` and
    /// `people.title`.
    pub names: BTreeMap<String, NameMode>,
    /// The migrations that have started here, by number.
    pub migrations: BTreeMap<u64, LedgerMigration>,
    /// The steps that have started here, by id.
    pub steps: BTreeMap<String, LedgerStep>,
    /// The instances that serve, or served until a moment ago.
    pub instances: Vec<Instance>,
}

/// A migration that has started in a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerMigration {
    /// Its name.
    pub name: String,
    /// The digest of its snapshot.
    pub digest: String,
    /// Its file, as JSON.
    pub document: String,
    /// How far it is.
    pub state: MigrationState,
    /// The digest of the plan that opened it; `None` if no plan did.
    pub plan: Option<String>,
    /// The digest with which its steps were approved last.
    pub approval: Option<String>,
    /// Whether a development start applied it before it was recorded.
    pub draft: bool,
    /// The version of the build that opened it.
    pub executor: String,
    /// When it started.
    pub opened_at: Timestamp,
    /// When it was done, or rolled back.
    pub done_at: Option<Timestamp>,
}

/// A step that has started in a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerStep {
    /// The number of its migration.
    pub seq: u64,
    /// The digest of its content.
    pub digest: String,
    /// The class of the number of rows of its table when it started.
    pub class: RowClass,
    /// How far it is.
    pub state: StepState,
    /// How often it was started.
    pub attempts: u64,
    /// The key after which a backfill continues, as JSON.
    pub cursor: Option<String>,
    /// The rows that it has written.
    pub rows_done: u64,
    /// The rows that its function refused.
    pub rows_failed: u64,
    /// The result of its verification, as JSON.
    pub result: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// The digest with which it was approved, if it needed an approval.
    pub approval: Option<String>,
    /// When it was started last.
    pub started_at: Timestamp,
    /// When it ended.
    pub done_at: Option<Timestamp>,
}

/// A process that serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its id.
    pub id: String,
    /// Its host.
    pub host: String,
    /// The number of its newest migration.
    pub seq: u64,
    /// The epoch that it has seen.
    pub epoch: u64,
    /// The end of its lease, by the clock of the database.
    pub lease_end: Timestamp,
}

/// The state of a database.
#[derive(Clone, Debug)]
pub enum Installed {
    /// There is no ledger. The names of the tables that exist.
    Nothing(Vec<String>),
    /// There is a ledger.
    Ledger(Box<Ledger>),
}

impl Installed {
    /// The ledger, if there is one.
    pub fn ledger(&self) -> Option<&Ledger> {
        match self {
            Self::Ledger(ledger) => Some(ledger),
            Self::Nothing(_) => None,
        }
    }
}

impl Ledger {
    /// Whether a step is done.
    pub(crate) fn is_done(&self, step: &str) -> bool {
        self.steps
            .get(step)
            .is_some_and(|step| step.state == StepState::Done)
    }

    /// The instances whose lease has not ended, with these numbers of their newest migrations.
    pub(crate) fn alive(&self, now: Timestamp, seq: impl Fn(u64) -> bool) -> Vec<String> {
        let lives = |one: &&Instance| one.lease_end.millis() + GRACE_MILLIS > now.millis();
        let instances = self.instances.iter().filter(lives);
        instances
            .filter(|one| seq(one.seq))
            .map(|one| format!("{} (schema {})", one.host, one.seq))
            .collect()
    }

    /// Whether no step of a migration has run.
    pub(crate) fn is_untouched(&self, seq: u64) -> bool {
        let mut steps = self.steps.values();
        !steps.any(|step| step.seq == seq && step.state.has_run())
    }
}

fn damaged(what: &str) -> SchemaError {
    SchemaError::new(
        SchemaFault::Other,
        format!("the ledger is damaged: {what}; restore it from a backup"),
    )
}

/// Whether a name belongs to a table of the framework.
pub(crate) fn is_ours(table: &str) -> bool {
    table.starts_with("linchpin_")
}
