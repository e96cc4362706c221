//! Creates a table again with another definition, and copies its rows.

use std::collections::BTreeMap;

use rusqlite::Connection;

use linchpin_core::schema::{SchemaError, SchemaFault, Table};

use super::compare::{Object, objects};
use super::dependants::Dependants;
use super::dialect::{copy_rows, create_indexes, create_table, interim, rename_to};
use super::digest;
use super::fault::{self, Outcome};
use super::session::texts;
use crate::render::quote;

/// Replaces a table in the open transaction, with foreign keys off. `columns` has the new and the
/// current name of each copied column.
pub(super) fn rebuild(
    connection: &Connection,
    from: &Table,
    to: &Table,
    columns: &[(String, String)],
) -> Outcome<()> {
    let batch = |sql: &str| connection.execute_batch(sql).map_err(fault::of);
    refuse_unknown_columns(connection, from)?;
    let orphans = orphans(connection);
    let dependants = Dependants::of(connection)?;
    let preserved = Preserved::of(connection, from, to)?;
    let copy = interim(&to.name);
    batch(&create_table(to, &copy))?;
    batch(&copy_rows(from, &copy, columns))?;
    let (new, present): (Vec<&str>, Vec<&str>) = columns
        .iter()
        .map(|(a, b)| (a.as_str(), b.as_str()))
        .unzip();
    if content(connection, &from.name, &present)? != content(connection, &copy, &new)? {
        let table = &from.name;
        return Err(fault::other(format_args!(
            "table `{table}`: the copied rows differ from the rows of the table"
        )));
    }
    // Views and triggers are dropped: if one names the table, SQLite would refuse the next two
    // statements.
    for sql in &preserved.dropped {
        batch(sql)?;
    }
    batch(&format!("DROP TABLE {}", quote(&from.name)))?;
    batch(&rename_to(&copy, &to.name))?;
    for sql in create_indexes(to) {
        batch(&sql)?;
    }
    for (name, sql) in &preserved.created {
        connection.execute_batch(sql).map_err(|error| {
            let text = format_args!("`{name}` cannot be created again: {error}");
            SchemaError::new(SchemaFault::Drift, text)
        })?;
    }
    dependants.check(connection, None)?;
    if self::orphans(connection) != orphans {
        let table = &to.name;
        return Err(SchemaError::new(
            SchemaFault::Violation,
            format_args!(
                "table `{table}`: after the rebuild, foreign keys of other tables refer to \
                 missing rows"
            ),
        ));
    }
    Ok(())
}

/// Refuses a table with columns that the model does not have: they would be lost.
fn refuse_unknown_columns(connection: &Connection, table: &Table) -> Outcome<()> {
    let name = &table.name;
    let sql = "SELECT name FROM pragma_table_xinfo(?1)";
    let found = texts(connection, sql, &[name]).map_err(fault::of)?;
    let known = |found: &String| {
        let mut columns = table.columns.iter();
        columns.any(|column| column.name.eq_ignore_ascii_case(found))
    };
    match found.iter().find(|column| !known(column)) {
        Some(column) => Err(SchemaError::new(
            SchemaFault::Drift,
            format_args!(
                "column `{name}.{column}` exists but is not in the ledger; a rebuild would lose it"
            ),
        )),
        None => Ok(()),
    }
}

/// Returns the number of rows and the checksum of these columns.
fn content(connection: &Connection, table: &str, columns: &[&str]) -> Outcome<(i64, String)> {
    let table = quote(table);
    let columns = columns
        .iter()
        .map(|name| format!("{table}.{}", quote(name)));
    let columns: Vec<String> = columns.collect();
    let sql = format!(
        "SELECT count(*), {}({}) FROM {table}",
        digest::NAME,
        columns.join(", ")
    );
    let found = connection.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
    found.map_err(fault::of)
}

/// Returns, for each foreign key of the database, the number of rows that refer to a missing row;
/// `None` if a foreign key is invalid. Entities have no foreign keys, but tables of other
/// applications may.
fn orphans(connection: &Connection) -> Option<BTreeMap<(String, i64), u64>> {
    let mut statement = connection.prepare("PRAGMA foreign_key_check").ok()?;
    let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(3)?)));
    let mut counts = BTreeMap::new();
    for key in found.ok()? {
        *counts.entry(key.ok()?).or_default() += 1;
    }
    Some(counts)
}

/// Objects that a rebuild must not lose.
struct Preserved {
    /// The statements that remove views and triggers.
    dropped: Vec<String>,
    /// The names of the objects, and the statements that create them again.
    created: Vec<(String, String)>,
}

impl Preserved {
    fn of(connection: &Connection, from: &Table, to: &Table) -> Outcome<Self> {
        let objects = objects(connection)?;
        let of_kind = |kind: &'static str| objects.iter().filter(move |o| o.kind == kind);
        // Indexes of the model are created from the model.
        let in_model = |name: &str| {
            let mut indexes = from.indexes.iter().chain(&to.indexes);
            indexes.any(|index| index.name.eq_ignore_ascii_case(name))
        };
        let of_table = |o: &&Object| o.table.eq_ignore_ascii_case(&from.name);
        let indexes = of_kind("index")
            .filter(of_table)
            .filter(|o| !in_model(&o.name));
        let drop = |o: &Object| format!("DROP {} {}", o.kind, quote(&o.name));
        // Triggers are dropped first and created last, because a trigger may belong to a view.
        Ok(Self {
            dropped: of_kind("trigger")
                .chain(of_kind("view"))
                .map(drop)
                .collect(),
            created: indexes
                .chain(of_kind("view"))
                .chain(of_kind("trigger"))
                .map(|o| (o.name.clone(), o.sql.clone()))
                .collect(),
        })
    }
}
