//! Tests of the schema of a file: creation, comparison, changes.

mod actions;
mod definitions;
mod differences;
mod opening;
mod rebuilds;
#[cfg(unix)]
mod sessions;
mod statements;

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use linchpin_core::entity::EntityDesc;
use linchpin_core::schema::{Snapshot, Table};
use linchpin_core::store::create_tables;

use super::*;
use crate::{SqliteOptions, SqliteStore};
use linchpin_conformance::THING;
use linchpin_core::store::Store;

/// The statements of a valid file.
fn ddl() -> Vec<String> {
    statements(&thing())
}

/// The table of the entity.
fn thing() -> Table {
    let tables = Snapshot::of([&THING]).tables();
    tables[THING.storage_name].clone()
}

/// The statements that create a table and its indexes.
fn statements(table: &Table) -> Vec<String> {
    let table_itself = dialect::create_table(table, &table.name);
    std::iter::once(table_itself)
        .chain(dialect::create_indexes(table))
        .collect()
}

/// Runs statements on a file, which is created if it does not exist.
fn execute_on_file(path: &Path, statements: &[String]) {
    let connection = Connection::open(path).expect("a file");
    for sql in statements {
        connection
            .execute_batch(sql)
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
}

fn file(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("test.db")
}

/// The differences of a file that these statements create, one per line. The comparison must not
/// change the file.
async fn differences(entity: &'static EntityDesc, statements: &[String]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    execute_on_file(&file(&folder), statements);
    let before = std::fs::read(file(&folder)).expect("bytes");
    let store = SqliteStore::open(SqliteOptions::new(file(&folder))).expect("it is a database");
    let found = grave_differences(&store, entity).await;
    store.close().await;
    let after = std::fs::read(file(&folder)).expect("bytes");
    assert!(before == after, "the file was changed");
    found
}

/// The differences that prevent a server from starting, one per line.
async fn grave_differences(store: &SqliteStore, entity: &'static EntityDesc) -> String {
    let tables = Snapshot::of([entity]).tables();
    let expected: Vec<&Table> = tables.values().collect();
    let schema = store.schema().expect("a schema");
    let mut session = schema.connect().await.expect("a session");
    let found = session.compare(&expected).await.expect("compared");
    let grave = found.iter().filter(|found| !found.code.is_harmless());
    let lines: Vec<String> = grave.map(ToString::to_string).collect();
    lines.join("\n")
}

/// The statements of a valid file, with one text replaced by another. Panics if no statement
/// contains the text.
fn ddl_with(from: &str, to: &str) -> Vec<String> {
    let all = ddl();
    assert!(
        all.iter().any(|sql| sql.contains(from)),
        "{from} in {all:#?}"
    );
    all.into_iter().map(|sql| sql.replace(from, to)).collect()
}

/// The statements of a valid file, and one more.
fn ddl_and(sql: &str) -> Vec<String> {
    ddl().into_iter().chain([sql.to_owned()]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_differences_are_listed_together() {
    let mut statements = ddl_with("\"rank\" INTEGER", "\"rank\" TEXT");
    statements[0] = statements[0].replace(") STRICT", ")");
    statements.pop();
    statements
        .push("CREATE TRIGGER t AFTER DELETE ON conformance_things BEGIN SELECT 1; END".to_owned());
    let text = differences(&THING, &statements).await;
    for line in [
        "type_differs: table `conformance_things` `rank`: expected INTEGER, found TEXT",
        "type_differs: table `conformance_things`: expected STRICT",
        "missing_index: table `conformance_things` `ix_conformance_things_rank_order`: expected CREATE INDEX",
        "extra_trigger: table `conformance_things` `t`: found CREATE TRIGGER t",
    ] {
        let found = text.lines().any(|found| found.starts_with(line));
        assert!(found, "{line} in\n{text}");
    }
    assert_eq!(text.lines().count(), 4, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn equivalent_sql_matches_the_schema() {
    let tidy = |sql: String| {
        sql.replace("\"order\"", "[order]")
            .replace('"', "")
            .replace("  ", "\t")
            .to_lowercase()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut statements: Vec<String> = ddl().into_iter().map(tidy).collect();
    statements[0] = statements[0].replacen("id text", "-- the key, (unique)\n id /* , */ text", 1);
    // A column and an index added by hand, and objects of another application.
    statements.push("ALTER TABLE conformance_things ADD COLUMN note TEXT".to_owned());
    statements
        .push("CREATE INDEX fast ON conformance_things (lower(slug)) WHERE rank > 3".to_owned());
    statements.push("CREATE TABLE notes (a, b UNIQUE)".to_owned());
    statements.push("CREATE TRIGGER t AFTER INSERT ON notes BEGIN SELECT 1; END".to_owned());
    execute_on_file(&file(&folder), &statements);
    let store = SqliteStore::open(SqliteOptions::new(file(&folder))).expect("it is a database");
    assert_eq!(grave_differences(&store, &THING).await, "");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comparison_needs_no_lock() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(SqliteOptions::new(file(&folder))).expect("a fresh file opens");
    create_tables(&store, &[&THING]).await.expect("created");
    let other = Connection::open(file(&folder)).expect("the file");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    assert_eq!(grave_differences(&store, &THING).await, "");
    drop(other);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_would_refuse_every_write_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    execute_on_file(&file(&folder), &ddl());
    let connection = Connection::open(file(&folder)).expect("the file");
    let flags = rusqlite::functions::FunctionFlags::SQLITE_UTF8
        | rusqlite::functions::FunctionFlags::SQLITE_DETERMINISTIC;
    connection
        .create_scalar_function("theirs", 1, flags, |_| Ok(1))
        .expect("a function");
    connection
        .execute_batch("CREATE INDEX odd ON conformance_things (theirs(slug))")
        .expect("an index");
    drop(connection);
    let store = SqliteStore::open(SqliteOptions::new(file(&folder))).expect("it is a database");
    let text = grave_differences(&store, &THING).await;
    store.close().await;
    assert!(
        text.contains("records cannot be written") && text.contains("theirs"),
        "{text}"
    );
}
