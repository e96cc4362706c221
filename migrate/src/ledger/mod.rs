//! The ledger: the tables in a database that record its installed schema and migrations.

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

/// An instance counts as alive for this time after the end of its lease.
const GRACE_MILLIS: i64 = 5_000;

/// The installed schema of a database, and its migrations.
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
    /// The newest migration of the oldest binary that may serve.
    pub min_seq: u64,
    /// The newest migration of the newest binary that may serve.
    pub max_seq: u64,
    /// A number that grows with every change of the names, the window or the installed schema.
    /// Instances poll it.
    pub epoch: u64,
    /// The number of the newest runner. A runner with a smaller number can no longer write.
    pub runner: u64,
    /// The installed snapshot: that of migration `seq`, or a draft of a development start.
    pub snapshot: Snapshot,
    /// The digest of the snapshot when it was written.
    pub digest: String,
    /// The reason why the snapshot is damaged; `None` if it is unchanged. [`Installed::load`]
    /// refuses a damaged ledger.
    pub damage: Option<String>,
    /// The storage names of the entities whose records are in this database.
    pub placed: Vec<String>,
    /// The tables and columns that open migrations rename, by their later names, such as `people`
    /// and `people.title`.
    pub names: BTreeMap<String, NameMode>,
    /// The migrations that have started here, by number.
    pub migrations: BTreeMap<u64, LedgerMigration>,
    /// The steps that have started here, by id.
    pub steps: BTreeMap<String, LedgerStep>,
    /// The instances that have a lease, including leases that ended less than an hour ago.
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
    /// Its state.
    pub state: MigrationState,
    /// The digest of the plan that opened it; `None` if it was opened without a plan.
    pub plan: Option<String>,
    /// The digest of the last approval of its steps.
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
    /// The size class of its table when it started.
    pub class: RowClass,
    /// Its state.
    pub state: StepState,
    /// The number of its starts.
    pub attempts: u64,
    /// The key after which a backfill continues, as JSON.
    pub cursor: Option<String>,
    /// The number of rows that it has written.
    pub rows_done: u64,
    /// The number of rows that its function refused.
    pub rows_failed: u64,
    /// The result of its verification, as JSON.
    pub result: Option<String>,
    /// The error of a failed step.
    pub error: Option<String>,
    /// The digest of its approval, if it needed one.
    pub approval: Option<String>,
    /// The time of its last start.
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
    /// The epoch that it read last.
    pub epoch: u64,
    /// The end of its lease, by the clock of the database.
    pub lease_end: Timestamp,
}

/// The state of a database.
#[derive(Clone, Debug)]
pub enum Installed {
    /// There is no ledger. Holds the names of the existing tables.
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

    /// The instances that are alive and for whose newest migration number `accepts` returns true,
    /// as lines of text.
    pub(crate) fn alive(&self, now: Timestamp, accepts: impl Fn(u64) -> bool) -> Vec<String> {
        let lives = |one: &&Instance| one.lease_end.millis() + GRACE_MILLIS > now.millis();
        let instances = self.instances.iter().filter(lives);
        instances
            .filter(|one| accepts(one.seq))
            .map(|one| format!("{} (schema {})", one.host, one.seq))
            .collect()
    }

    /// Whether no step of a migration has started its work.
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
pub(crate) fn is_framework_table(table: &str) -> bool {
    table.starts_with("linchpin_")
}
