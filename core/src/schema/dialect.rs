//! The statements of a store, without a connection.

use std::time::Duration;

use super::action::{Action, Tables};
use super::physical::{Index, Table};

/// The lock with which a statement blocks other sessions, for printed plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockLevel {
    /// The name of the lock in the database, such as `ACCESS EXCLUSIVE`; empty for none.
    pub name: &'static str,
    /// Whether the lock lasts only a short time, regardless of the size of the table.
    pub brief: bool,
}

/// The schema statements of a store: a pure function of an action.
pub trait Dialect: Send + Sync {
    /// The name of the store: `sqlite`, `postgres`.
    fn name(&self) -> &'static str;

    /// Returns the statements of an action, in order. `tables` is the physical model before the
    /// action. Statements contain no parameters, no `BEGIN` and no `COMMIT`.
    fn statements(&self, action: &Action, tables: &Tables) -> Vec<String>;

    /// Whether the action runs in a transaction, together with the ledger.
    fn is_transactional(&self, action: &Action) -> bool;

    /// The lock with which the action blocks other sessions.
    fn lock(&self, action: &Action) -> LockLevel;

    /// Whether a change of a constraint rebuilds the table ([`Action::Rebuild`]).
    fn rebuilds(&self) -> bool;

    /// Whether an index must be created again after a change of the table from `before` to `after`.
    /// This is so if the definition of the index depends on whether its columns allow null, and the
    /// change makes one of them optional or required. `index` uses the names of `after`. The
    /// default is `false`.
    fn rewrites_index(&self, index: &Index, before: &Table, after: &Table) -> bool {
        let _ = (index, before, after);
        false
    }

    /// The SQL text at the end of a query that locks the rows of its result against other writers
    /// until the end of the transaction. It is empty if a transaction that writes blocks all other
    /// writers. The default is empty.
    fn row_lock(&self) -> &'static str {
        ""
    }

    /// How long a batch of changed rows should take. The default is 100 ms.
    fn batch_time(&self) -> Duration {
        Duration::from_millis(100)
    }

    /// Quotes a name.
    fn quote(&self, name: &str) -> String;
}
