//! Runs actions in a transaction.

use rusqlite::Connection;

use linchpin_core::schema::{Action, Dialect, Tables};

use super::dependants::{self, Dependants};
use super::dialect::{SqliteDialect, as_rebuild};
use super::fault::{self, Outcome};
use super::rebuild;

/// Runs an action. If it fails, its changes are rolled back, but not the transaction.
pub(super) fn perform(connection: &Connection, action: &Action, tables: &Tables) -> Outcome<()> {
    let batch = |sql| connection.execute_batch(sql).map_err(fault::of);
    batch("SAVEPOINT linchpin_action")?;
    let outcome = run(connection, action, tables);
    if outcome.is_err() {
        // The first error is the one to report.
        drop(batch(
            "PRAGMA writable_schema = RESET; ROLLBACK TO linchpin_action; RELEASE linchpin_action; \
             PRAGMA writable_schema = RESET",
        ));
        return outcome;
    }
    batch("RELEASE linchpin_action")
}

fn run(connection: &Connection, action: &Action, tables: &Tables) -> Outcome<()> {
    let rebuild = as_rebuild(action, tables);
    if let Action::Rebuild { from, to, columns } = rebuild.as_ref().unwrap_or(action) {
        return rebuild::rebuild(connection, from, to, columns);
    }
    let run = || {
        let mut statements = SqliteDialect.statements(action, tables).into_iter();
        statements.try_for_each(|sql| connection.execute_batch(&sql).map_err(fault::of))
    };
    let Action::DropTable { table } = action else {
        return run();
    };
    dependants::refuse_referenced(connection, table)?;
    let dependants = Dependants::of(connection)?;
    run()?;
    dependants.check(connection, Some(table))
}
