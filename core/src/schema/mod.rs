//! The schema of a database: the storage facts of declarations, as data, and the interface by which
//! a store creates and changes the schema.
//!
//! - [`Snapshot`]: the storage facts of entities. Its JSON form is recorded in migrations.
//! - [`Table`]: the physical model of one table. It follows from a snapshot alone.
//! - [`Action`]: one change of a database, with its effect on the physical model.
//! - [`Dialect`]: the statements of an action. It needs no connection.
//! - [`SchemaStore`] and [`SchemaSession`]: the database itself.
//!
//! The engine that compares snapshots and runs plans is the crate `linchpin-migrate`.

mod action;
mod chain;
mod create;
mod dialect;
mod physical;
mod rows;
mod session;
mod snapshot;

pub use action::{Action, Tables};
pub use chain::Chain;
pub use create::creation;
pub use dialect::{Dialect, LockLevel};
pub use physical::{
    Check, CheckRule, Column, ColumnKind, Index, IndexKey, Only, Table, check_name, key_name,
};
pub use rows::{RowStatement, RowsWritten};
pub use session::{
    Bound, Difference, DifferenceCode, IndexState, Locator, Locking, RowCount, SchemaError,
    SchemaFault, SchemaLock, SchemaSession, SchemaStore, Space, TransactionMode,
};
pub use snapshot::{
    ComputedSnapshot, CounterSnapshot, EntitySnapshot, FieldDefault, FieldSnapshot, IndexSnapshot,
    ItemSnapshot, KeySnapshot, ReferenceSnapshot, Snapshot, SoftDeleteSnapshot, TenantSnapshot,
    TtlSnapshot, VersionSnapshot, literal_of, value_of,
};
