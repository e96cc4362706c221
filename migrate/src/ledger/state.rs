//! The states of migrations, steps and renamed objects.

use serde::{Deserialize, Serialize};

/// The state of a migration in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MigrationState {
    /// It has started.
    Open,
    /// Its expand steps are done.
    Expanded,
    /// Its expand and backfill steps are done.
    Backfilled,
    /// A contract step has started. The migration can no longer be rolled back.
    Contracting,
    /// All its steps are done.
    Done,
    /// Its steps were undone.
    RolledBack,
}

impl MigrationState {
    const ALL: [Self; 6] = [
        Self::Open,
        Self::Expanded,
        Self::Backfilled,
        Self::Contracting,
        Self::Done,
        Self::RolledBack,
    ];

    /// The name in the ledger and in reports, such as `open`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Expanded => "expanded",
            Self::Backfilled => "backfilled",
            Self::Contracting => "contracting",
            Self::Done => "done",
            Self::RolledBack => "rolled_back",
        }
    }

    /// Whether the migration has started and is not finished.
    pub const fn is_open(self) -> bool {
        !matches!(self, Self::Done | Self::RolledBack)
    }

    pub(super) fn read(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// The state of a step in a database. A step without a row in the ledger is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepState {
    /// It was undone, and may run again.
    Pending,
    /// It has started. After a crash it is still in this state.
    Running,
    /// It is done and verified.
    Done,
    /// It ended with an error.
    Failed,
    /// It waits until all instances of older binaries have ended.
    Waiting,
}

impl StepState {
    const ALL: [Self; 5] = [
        Self::Pending,
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Waiting,
    ];

    /// The name in the ledger and in reports, such as `running`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Waiting => "waiting",
        }
    }

    /// Whether the step may have changed the database.
    pub const fn has_run(self) -> bool {
        !matches!(self, Self::Pending | Self::Waiting)
    }

    pub(super) fn read(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// The name that statements use for a renamed table or column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NameMode {
    /// The earlier name: the rename has not run.
    Old,
    /// The later name.
    New,
}
