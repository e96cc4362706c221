//! Schema migrations: changes of a schema that keep its records.
//!
//! A migration leads from one recorded snapshot of the declarations to the next. A [`Change`] is
//! one difference between two snapshots. A plan turns changes into steps for one database, and the
//! ledger in the database records which steps are done.

mod adopt;
mod apply;
mod backfill;
mod canonical;
mod chain;
mod change;
mod check;
pub mod cli;
mod count;
mod data;
mod diff;
mod draft;
mod error;
mod fault;
mod files;
mod inspect;
mod ledger;
mod lower;
mod names;
mod own_sql;
mod pairs;
mod plan;
mod record;
mod rollback;
mod rows;
mod sample;
mod serve;
mod status;
mod step;
mod strict;
mod system;
mod uses;
mod verify;

pub use adopt::adopt;
pub use apply::{Applied, Options, apply};
pub use backfill::{Pace, Stop};
pub use canonical::{canonical, digest, digest_of, is_digest};
pub use chain::{Chain, Entry, Files, INDEX, Index, Migration, TransformRecord, is_name};
pub use change::Change;
pub use check::{Check, Finding};
pub use data::{Counted, DataAction, FillValue};
pub use diff::{Diff, diff, diff_after, diff_snapshots};
pub use error::{Exit, Fact, Refusal};
pub use files::{pretty, read_snapshot, read_text, write_document};
pub use ledger::{
    Installed, Instance, Ledger, LedgerMigration, LedgerStep, MigrationState, NameMode, StepState,
};
pub use lower::{Link, Lowered, Reverse, Terrain, lower};
pub use own_sql::OwnSql;
pub use plan::{Declared, Plan, Planned};
pub use record::{Declarations, Recorded, rebase, record, restore, squash};
pub use rollback::{Rollback, Undo, rollback};
pub use serve::{Mode, SchemaCheck, Serving, present_names, start};
pub use step::{Phase, Risk, RowClass, Step, Work};
pub use strict::{MAX_BYTES, decode, parse};
pub use uses::DeclaredOperation;
pub use verify::{Remark, Severity, exit_status};
