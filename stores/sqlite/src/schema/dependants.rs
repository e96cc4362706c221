//! Objects that depend on a table: views, triggers and foreign keys. Other applications may have
//! created them.

use rusqlite::Connection;

use linchpin_core::schema::{SchemaError, SchemaFault};

use super::compare::{Object, objects};
use super::fault::{self, Outcome};
use super::session::texts;
use crate::render::quote;

/// The views and triggers that work before a schema action.
pub(super) struct Dependants(Vec<Object>);

impl Dependants {
    pub(super) fn of(connection: &Connection) -> Outcome<Self> {
        let mut all = objects(connection)?;
        all.retain(|object| matches!(object.kind.as_str(), "view" | "trigger"));
        all.retain(|object| fault_of(connection, object).is_none());
        Ok(Self(all))
    }

    /// Returns an error if one of them no longer works after the action. Triggers of the table
    /// `dropped` were dropped with it and are ignored.
    pub(super) fn check(&self, connection: &Connection, dropped: Option<&str>) -> Outcome<()> {
        let was_dropped = |object: &&Object| {
            let dropped = dropped.filter(|_| object.kind == "trigger");
            dropped.is_some_and(|table| object.table.eq_ignore_ascii_case(table))
        };
        let remaining = self.0.iter().filter(|object| !was_dropped(object));
        let broken = remaining.filter_map(|object| {
            let error = fault_of(connection, object)?;
            Some(format!("{} `{}`: {error}", object.kind, object.name))
        });
        let broken: Vec<String> = broken.collect();
        if broken.is_empty() {
            return Ok(());
        }
        Err(refused(&broken))
    }
}

/// Refuses to drop a table that a foreign key of another table names.
pub(super) fn refuse_referenced(connection: &Connection, table: &str) -> Outcome<()> {
    let sql = "SELECT DISTINCT 'foreign key of table `' || o.name || '`' \
               FROM sqlite_schema AS o, pragma_foreign_key_list(o.name) AS k \
               WHERE o.type = 'table' AND k.\"table\" = ?1 COLLATE NOCASE \
               AND o.name <> ?1 COLLATE NOCASE ORDER BY 1";
    let found = texts(connection, sql, &[table]).map_err(fault::of)?;
    if found.is_empty() {
        return Ok(());
    }
    Err(refused(&found))
}

fn refused(objects: &[String]) -> SchemaError {
    SchemaError::new(
        SchemaFault::Drift,
        format_args!("other objects depend on it: {}", objects.join("; ")),
    )
}

/// Prepares the statements that use an object, and returns the first error.
fn fault_of(connection: &Connection, object: &Object) -> Option<String> {
    let prepare = |sql: String| connection.prepare(&sql).map(drop).err();
    if object.kind == "view" {
        return prepare(format!("SELECT * FROM {}", quote(&object.name))).map(message);
    }
    let table = quote(&object.table);
    let sql = "SELECT name FROM pragma_table_info(?1)";
    let columns = texts(connection, sql, &[&object.table]).unwrap_or_default();
    let assignments = columns.iter().map(|column| quote(column));
    let assignments: Vec<String> = assignments
        .map(|column| format!("{column} = {column}"))
        .collect();
    let statements = [
        format!("INSERT INTO {table} DEFAULT VALUES"),
        format!("UPDATE {table} SET {}", assignments.join(", ")),
        format!("DELETE FROM {table}"),
    ];
    // A view accepts only the statements for which it has a trigger, so the error "cannot modify"
    // is ignored.
    let mut errors = statements.into_iter().filter_map(prepare).map(message);
    errors.find(|error| !error.starts_with("cannot modify"))
}

/// The message of the database, without the statement.
fn message(error: rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg,
        other => other.to_string(),
    }
}
