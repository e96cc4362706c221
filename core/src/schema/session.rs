//! The database itself: sessions that read and change its schema.

use std::collections::BTreeMap;
use std::time::Duration;

use super::action::{Action, Tables};
use super::dialect::Dialect;
use super::physical::{ColumnKind, Index, Table};
use super::rows::{RowStatement, RowsWritten};
use crate::{BoxFuture, Timestamp, Value};

/// A value of a statement with its kind.
pub type Bound = (Value, ColumnKind);

/// The schema of a store: see [`Store::schema`](crate::store::Store::schema).
pub trait SchemaStore: Send + Sync {
    /// The statements of the store.
    fn dialect(&self) -> &'static dyn Dialect;

    /// The name of the database for messages: a file name or a database name. It contains no host
    /// and no credentials.
    fn database(&self) -> String;

    /// Whether the database is a file of one process. Then a start in development may extend the
    /// tables, because no other instance uses the file. The default is `false`.
    fn is_embedded(&self) -> bool {
        false
    }

    /// Opens a new session.
    ///
    /// # Errors
    /// [`SchemaFault::Unreachable`], or another fault of the database.
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn SchemaSession>, SchemaError>>;

    /// Tries to take the migration lock of the database, which only one run of migrations can hold.
    /// It does not wait.
    ///
    /// # Errors
    /// [`SchemaFault::Unreachable`], or another fault of the database.
    fn try_lock(&self) -> BoxFuture<'_, Result<Locking, SchemaError>>;
}

/// The outcome of an attempt to take the lock.
pub enum Locking {
    /// The lock is taken for the caller.
    Taken(Box<dyn SchemaLock>),
    /// Another run holds it. The text describes that run: host, process id and start.
    Busy(String),
}

/// The lock of a run of migrations. It is released on drop, or when the process ends.
pub trait SchemaLock: Send {
    /// Checks that the lock is still held.
    ///
    /// # Errors
    /// [`SchemaFault::LockLost`] if another run may take it; [`SchemaFault::Unreachable`] if the
    /// server does not answer.
    fn check(&mut self) -> BoxFuture<'_, Result<(), SchemaError>>;
}

/// The allowed statements of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionMode {
    /// Only reads; all of them see the same state of the database.
    Read,
    /// Reads and writes.
    Write,
}

/// A session on a database.
pub trait SchemaSession: Send {
    /// Sets how long a statement waits for a lock of another session. The default is 2 s.
    fn set_lock_timeout(&mut self, timeout: Duration);

    /// Sets how long a concurrent index build waits for older transactions. After this time it
    /// fails with [`SchemaFault::LockTimeout`]. The default is 10 minutes. A store without
    /// concurrent builds ignores this setting.
    fn set_index_wait(&mut self, wait: Duration) {
        let _ = wait;
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// [`SchemaFault::LockTimeout`] if another session writes; any other fault of the database.
    fn begin(&mut self, mode: TransactionMode) -> BoxFuture<'_, Result<(), SchemaError>>;

    /// Commits the transaction.
    ///
    /// # Errors
    /// Any fault of the database. Then nothing of the transaction is stored.
    fn commit(&mut self) -> BoxFuture<'_, Result<(), SchemaError>>;

    /// Rolls the transaction back. Without one it does nothing.
    fn rollback(&mut self) -> BoxFuture<'_, ()>;

    /// Runs a statement and returns the number of changed rows. Parameters are `$1`, `$2` and so
    /// on.
    ///
    /// # Errors
    /// Any fault of the database.
    fn execute<'a>(
        &'a mut self,
        sql: &'a str,
        values: &'a [Bound],
    ) -> BoxFuture<'a, Result<u64, SchemaError>>;

    /// Runs a statement and returns its rows. `columns` are the kinds of its columns.
    ///
    /// # Errors
    /// Any fault of the database; [`SchemaFault::Other`] if a column holds values of another kind.
    fn query<'a>(
        &'a mut self,
        sql: &'a str,
        values: &'a [Bound],
        columns: &'a [ColumnKind],
    ) -> BoxFuture<'a, Result<Vec<Vec<Value>>, SchemaError>>;

    /// Runs a statement for each of many rows of values, in the open transaction. A row that
    /// violates a constraint is returned, and the others are changed.
    ///
    /// # Errors
    /// Any other fault of the database.
    fn write_rows<'a>(
        &'a mut self,
        statement: &'a RowStatement,
        rows: Vec<Vec<Value>>,
    ) -> BoxFuture<'a, Result<RowsWritten, SchemaError>>;

    /// Runs an action. `tables` is the physical model before the action. An action that
    /// [is transactional](Dialect::is_transactional) runs in the open transaction. Any other action
    /// may have run before a crash: if it was complete, it is not repeated; if not, its remains are
    /// removed first.
    ///
    /// # Errors
    /// Any fault of the database.
    fn perform<'a>(
        &'a mut self,
        action: &'a Action,
        tables: &'a Tables,
    ) -> BoxFuture<'a, Result<(), SchemaError>>;

    /// Creates the objects of the framework that are not tables of entities, in the open
    /// transaction: missing tables of the outbox, and functions that are missing or of another
    /// release. The default does nothing.
    ///
    /// # Errors
    /// Any fault of the database.
    fn create_system(&mut self) -> BoxFuture<'_, Result<(), SchemaError>> {
        Box::pin(async { Ok(()) })
    }

    /// The names of the tables that [`create_system`](Self::create_system) creates.
    fn system_tables(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns every difference between these tables and those of the database. Objects of other
    /// applications do not count as differences, except within these tables.
    ///
    /// # Errors
    /// Any fault of the database.
    fn compare<'a>(
        &'a mut self,
        expected: &'a [&'a Table],
    ) -> BoxFuture<'a, Result<Vec<Difference>, SchemaError>>;

    /// Returns the state of an index in the database, by its name.
    ///
    /// # Errors
    /// Any fault of the database.
    fn index_state<'a>(
        &'a mut self,
        index: &'a Index,
    ) -> BoxFuture<'a, Result<IndexState, SchemaError>>;

    /// Returns the names of all tables.
    ///
    /// # Errors
    /// Any fault of the database.
    fn tables(&mut self) -> BoxFuture<'_, Result<Vec<String>, SchemaError>>;

    /// Returns the number of rows of a table: exactly up to 100,000, then from statistics.
    ///
    /// # Errors
    /// Any fault of the database.
    fn count<'a>(&'a mut self, table: &'a str) -> BoxFuture<'a, Result<RowCount, SchemaError>>;

    /// Returns facts that identify the database, so that an approval is valid for one database
    /// only.
    ///
    /// # Errors
    /// Any fault of the database.
    fn locator(&mut self) -> BoxFuture<'_, Result<Locator, SchemaError>>;

    /// Copies the database before the first step of migration `seq` that an approval covers, and
    /// verifies the copy. Returns the name of the copy; `None` if the store makes none, which is the
    /// default. No transaction may be open.
    ///
    /// # Errors
    /// [`SchemaFault::Full`], or another fault of the database. Then there is no copy.
    fn back_up(&mut self, seq: u64) -> BoxFuture<'_, Result<Option<String>, SchemaError>> {
        let _ = seq;
        Box::pin(async { Ok(None) })
    }

    /// Returns the delay of the slowest replica; `None` without replicas, or if the role is not
    /// allowed to read it. The default is `None`.
    ///
    /// # Errors
    /// Any fault of the database.
    fn replica_lag(&mut self) -> BoxFuture<'_, Result<Option<Duration>, SchemaError>> {
        Box::pin(async { Ok(None) })
    }

    /// Returns the space that a rebuild of a table needs, and the free space, in bytes; `None` if
    /// the store rebuilds no tables or cannot find out. The default is `None`.
    ///
    /// # Errors
    /// Any fault of the database.
    fn space<'a>(
        &'a mut self,
        table: &'a str,
    ) -> BoxFuture<'a, Result<Option<Space>, SchemaError>> {
        let _ = table;
        Box::pin(async { Ok(None) })
    }

    /// Returns the time of the database's clock.
    ///
    /// # Errors
    /// Any fault of the database.
    fn now(&mut self) -> BoxFuture<'_, Result<Timestamp, SchemaError>>;
}

/// Facts that identify a database, by name; without hosts and credentials.
pub type Locator = BTreeMap<String, String>;

/// Space on the disk of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The bytes that a rebuild needs.
    pub needed: u64,
    /// The bytes that are free.
    pub free: u64,
}

/// The state of an index in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexState {
    /// It does not exist.
    Absent,
    /// An interrupted build left it unusable.
    Invalid,
    /// It is complete.
    Valid,
}

/// The number of rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowCount {
    /// Counted.
    Exact(u64),
    /// From statistics.
    Estimate(u64),
    /// Over 100,000, and the database has no statistics.
    Unknown,
}

/// A difference between the physical model and the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The kind of the difference.
    pub code: DifferenceCode,
    /// The table.
    pub table: String,
    /// The column, index or check, if it is not the table itself.
    pub object: Option<String>,
    /// The definition in the model; empty for an object that the model does not have.
    pub expected: String,
    /// The definition in the database; empty for a missing object.
    pub found: String,
}

impl std::fmt::Display for Difference {
    /// One line: the code, the table, the object, what was expected, and what was found.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: table `{}`", self.code.name(), self.table)?;
        if let Some(object) = &self.object {
            write!(f, " `{object}`")?;
        }
        if !self.expected.is_empty() {
            write!(f, ": expected {}", self.expected)?;
        }
        match (self.found.is_empty(), self.expected.is_empty()) {
            (true, _) => Ok(()),
            (false, true) => write!(f, ": found {}", self.found),
            (false, false) => write!(f, ", found {}", self.found),
        }
    }
}

/// The kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DifferenceCode {
    /// The table is absent, or its name belongs to another kind of object.
    MissingTable,
    /// The column is absent.
    MissingColumn,
    /// The index is absent.
    MissingIndex,
    /// The check or the primary key is absent.
    MissingCheck,
    /// The column has another type.
    TypeDiffers,
    /// The column allows null and should not, or the reverse.
    NullabilityDiffers,
    /// The column has another default.
    DefaultDiffers,
    /// The column has another collation.
    CollationDiffers,
    /// The index has other keys, another condition, or another uniqueness.
    IndexDiffers,
    /// The index places null at the other end of its order. It contains the same records, but the
    /// database must sort pages that it could otherwise read in the order of the index.
    IndexNullsDiffer,
    /// An interrupted build left the index unusable.
    IndexInvalid,
    /// The check has another condition. Or it has another name: then `expected` and `found` are the
    /// two names.
    CheckDiffers,
    /// The column is not in the model. An insert fails if it is required and has no default.
    ExtraRequiredColumn,
    /// The column is not in the model. It is optional or has a default.
    ExtraColumn,
    /// A constraint is not in the model, and may refuse records.
    ExtraConstraint,
    /// A unique index is not in the model, and may refuse records.
    ExtraUnique,
    /// A trigger is not in the model, and may refuse or change records.
    ExtraTrigger,
    /// An index is not in the model. It is not unique.
    ExtraIndex,
}

impl DifferenceCode {
    /// The name in reports: `missing_table`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MissingTable => "missing_table",
            Self::MissingColumn => "missing_column",
            Self::MissingIndex => "missing_index",
            Self::MissingCheck => "missing_check",
            Self::TypeDiffers => "type_differs",
            Self::NullabilityDiffers => "nullability_differs",
            Self::DefaultDiffers => "default_differs",
            Self::CollationDiffers => "collation_differs",
            Self::IndexDiffers | Self::IndexNullsDiffer => "index_differs",
            Self::IndexInvalid => "index_invalid",
            Self::CheckDiffers => "check_differs",
            Self::ExtraRequiredColumn | Self::ExtraColumn => "extra_column",
            Self::ExtraConstraint | Self::ExtraUnique => "extra_constraint",
            Self::ExtraTrigger => "extra_trigger",
            Self::ExtraIndex => "extra_index",
        }
    }

    /// Whether a server with this difference can serve.
    pub const fn is_harmless(self) -> bool {
        matches!(
            self,
            Self::ExtraColumn | Self::ExtraIndex | Self::IndexNullsDiffer
        )
    }
}

/// A fault of a database during work on its schema.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SchemaError {
    /// The kind.
    pub fault: SchemaFault,
    /// The message of the database, without values of records and credentials.
    pub message: String,
}

impl SchemaError {
    /// A fault with a message.
    pub fn new(fault: SchemaFault, message: impl std::fmt::Display) -> Self {
        Self {
            fault,
            message: message.to_string(),
        }
    }
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaFault {
    /// The database cannot be reached, or the connection was lost.
    Unreachable,
    /// Another session holds a lock for longer than the statement waits.
    LockTimeout,
    /// The migration lock has ended, or another run of migrations has taken it meanwhile.
    LockLost,
    /// The database is read-only, or the role may not do this.
    Forbidden,
    /// The disk is full.
    Full,
    /// The rows violate a constraint.
    Violation,
    /// The version or a setting of the server is not supported.
    Unsupported,
    /// The connection goes through a pooler, which cannot hold the migration lock.
    Pooler,
    /// The database has an object that the model does not have, and the action would remove it.
    Drift,
    /// The database is damaged, or the file is not a database.
    Damaged,
    /// Anything else.
    Other,
}
