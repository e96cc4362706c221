//! Tests of rebuilds: a rebuild keeps the rows and the objects of other applications, or changes
//! nothing.

use linchpin_core::Value;
use linchpin_core::schema::{
    Action, Column, ColumnKind, SchemaError, SchemaFault, SchemaSession, Table, Tables,
    TransactionMode,
};
use rusqlite::Connection;

use super::{execute_on_file, file, statements, thing};
use crate::schema::SqliteSchema;
use crate::schema::session::Session;

/// A file with the table, some rows, and objects of another application.
fn prepare(folder: &tempfile::TempDir) -> Session {
    let mut all = statements(&thing());
    all.extend(
        [
            "CREATE TABLE log (line TEXT) STRICT",
            "CREATE TABLE notes (id INTEGER PRIMARY KEY, thing TEXT REFERENCES conformance_things (id) ON DELETE CASCADE, slug TEXT REFERENCES conformance_things (slug))",
            "CREATE INDEX fast ON conformance_things (lower(\"order\"))",
            "CREATE VIEW names AS SELECT id, slug FROM conformance_things",
            "CREATE VIEW more AS SELECT slug FROM names",
            "CREATE TRIGGER logged AFTER UPDATE ON conformance_things BEGIN INSERT INTO log VALUES (new.id); END",
            "CREATE TRIGGER noted AFTER INSERT ON notes BEGIN UPDATE conformance_things SET rank = rank + 1 WHERE id = new.thing; END",
            "CREATE TRIGGER named INSTEAD OF DELETE ON names BEGIN DELETE FROM conformance_things WHERE id = old.id; END",
            "INSERT INTO conformance_things (id, slug, rank, status, ratio, meta) VALUES ('a', 'x', 5, 'draft', 1.5, '{}'), ('b', NULL, NULL, 'gone', -0.0, NULL), ('c', 'z', 7, 'draft', 3, '[1]')",
            "INSERT INTO notes (thing, slug) VALUES ('a', 'x')",
        ]
        .map(str::to_owned),
    );
    execute_on_file(&file(folder), &all);
    SqliteSchema::unshared(file(folder)).session()
}

/// The rebuild that gives `due_at` a default and moves it to the end.
fn rebuild() -> (Action, Tables) {
    let from = thing();
    let mut to = from.clone();
    let at = to.columns.iter().position(|c| c.name == "due_at");
    let mut column = to.columns.remove(at.expect("the column"));
    column.default = Some(Value::Date(linchpin_core::Timestamp::from_millis(5)));
    to.columns.push(column);
    let columns = to.columns.iter().map(|c| (c.name.clone(), c.name.clone()));
    let columns = columns.collect();
    let tables = Tables::from([(from.name.clone(), from.clone())]);
    (Action::Rebuild { from, to, columns }, tables)
}

async fn perform(
    session: &mut Session,
    action: &Action,
    tables: &Tables,
) -> Result<(), SchemaError> {
    session.begin(TransactionMode::Write).await.expect("begun");
    let done = session.perform(action, tables).await;
    // A failed action has changed nothing, even if the transaction continues.
    session.commit().await.expect("committed");
    done
}

/// The objects of the schema, as text.
fn contents_of_schema(folder: &tempfile::TempDir) -> Vec<String> {
    let sql = "SELECT type || name || sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY 1";
    lines(folder, sql)
}

/// The first column of the rows of a query, as texts.
fn lines(folder: &tempfile::TempDir, sql: &str) -> Vec<String> {
    let connection = Connection::open(file(folder)).expect("the file");
    let mut statement = connection.prepare(sql).expect("a statement");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.map(|row| row.expect("a text")).collect()
}

/// The whole content of the file, as text.
fn contents(folder: &tempfile::TempDir) -> Vec<String> {
    let mut all = contents_of_schema(folder);
    for sql in [
        "SELECT quote(id) || quote(slug) || quote(rank) || quote(status) || quote(ratio) || quote(meta) || quote(due_at) FROM conformance_things ORDER BY 1",
        "SELECT quote(thing) || quote(slug) FROM notes",
    ] {
        all.extend(lines(folder, sql));
    }
    all
}

#[tokio::test]
async fn a_rebuild_keeps_rows_and_objects_of_other_applications() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut session = prepare(&folder);
    let before = contents(&folder);
    let (action, mut tables) = rebuild();
    perform(&mut session, &action, &tables)
        .await
        .expect("rebuilt");
    action.apply(&mut tables);
    let expected: Vec<&Table> = tables.values().collect();
    let found = session.compare(&expected).await.expect("compared");
    // The trigger and the index were there before.
    let others: Vec<_> = found.iter().map(|d| d.object.as_deref()).collect();
    assert_eq!(others, [Some("fast"), Some("logged")], "{found:#?}");
    let after = contents(&folder);
    let changed: Vec<_> = before.iter().filter(|line| !after.contains(line)).collect();
    assert_eq!(changed.len(), 1, "{changed:#?}");
    assert!(changed[0].starts_with("tableconformance_things"));
    // All of them still work.
    let connection = Connection::open(file(&folder)).expect("the file");
    connection
        .execute_batch(
            "PRAGMA foreign_keys = ON; INSERT INTO notes (thing) VALUES ('c'); \
             DELETE FROM names WHERE id = 'a'",
        )
        .expect("the triggers and the foreign key work");
    let count = |sql: &str| {
        let counted = connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        counted.expect("a count")
    };
    assert_eq!(count("SELECT count(*) FROM more"), 2);
    assert_eq!(
        count("SELECT rank FROM conformance_things WHERE id = 'c'"),
        8
    );
    assert_eq!(count("SELECT count(*) FROM log"), 2);
    assert_eq!(count("SELECT count(*) FROM notes WHERE thing = 'a'"), 0);
}

#[tokio::test]
async fn a_column_added_by_hand_is_not_lost() {
    for add in [
        "ALTER TABLE conformance_things ADD COLUMN note TEXT",
        "ALTER TABLE conformance_things ADD COLUMN note TEXT AS (slug) VIRTUAL",
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut session = prepare(&folder);
        execute_on_file(&file(&folder), &[add.to_owned()]);
        let before = contents(&folder);
        let (action, tables) = rebuild();
        let refused = perform(&mut session, &action, &tables).await;
        let error = refused.expect_err("refused");
        assert_eq!(error.fault, SchemaFault::Drift);
        assert_eq!(
            error.message,
            "column `conformance_things.note` exists but is not in the ledger; a rebuild would lose it"
        );
        assert_eq!(contents(&folder), before);
    }
}

/// A mistake in a rebuild: a change of the new table, or of the new and the current names of its
/// columns.
type WrongRebuild = fn(&mut Table, &mut Vec<(String, String)>);

fn column<'t>(table: &'t mut Table, name: &str) -> &'t mut Column {
    let mut columns = table.columns.iter_mut();
    columns.find(|c| c.name == name).expect("the column")
}

/// Renames a column and removes its indexes.
fn rename(table: &mut Table, columns: &mut [(String, String)], name: &str) {
    "renamed".clone_into(&mut column(table, name).name);
    table.indexes.retain(|index| !index.reads(name));
    for (new, _) in columns.iter_mut().filter(|(new, _)| new == name) {
        "renamed".clone_into(new);
    }
}

#[tokio::test]
async fn a_rebuild_that_fails_changes_nothing() {
    let cases: [(SchemaFault, &str, WrongRebuild); 7] = [
        (SchemaFault::Violation, "NOT NULL", |to, _| {
            column(to, "slug").optional = false;
        }),
        (SchemaFault::Other, "missing", |_, columns| {
            "missing".clone_into(&mut columns[1].1);
        }),
        (SchemaFault::Other, "copied rows differ", |to, _| {
            column(to, "rank").kind = ColumnKind::String;
        }),
        (
            SchemaFault::Drift,
            "`fast` cannot be created",
            |to, columns| {
                rename(to, columns, "order");
            },
        ),
        (
            SchemaFault::Drift,
            "trigger `noted`: no such column",
            |to, columns| {
                rename(to, columns, "rank");
            },
        ),
        (SchemaFault::Drift, "view `more`: ", |to, columns| {
            rename(to, columns, "slug");
        }),
        // Foreign keys of another table refer to missing rows.
        (
            SchemaFault::Violation,
            "keys of other tables",
            |_, columns| {
                columns.retain(|(new, _)| new != "slug");
            },
        ),
    ];
    for (fault, part, mistake) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let mut session = prepare(&folder);
        let before = contents(&folder);
        let (mut action, tables) = rebuild();
        if let Action::Rebuild { to, columns, .. } = &mut action {
            mistake(to, columns);
        }
        let refused = perform(&mut session, &action, &tables).await;
        let error = refused.expect_err(part);
        assert!(error.message.contains(part), "{part} in {error}");
        assert_eq!(error.fault, fault, "{error}");
        assert_eq!(contents(&folder), before, "{part}");
    }
}

#[tokio::test]
async fn a_rebuild_on_a_full_disk_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut session = prepare(&folder);
    let before = contents(&folder);
    let (action, tables) = rebuild();
    session.begin(TransactionMode::Write).await.expect("begun");
    let pages = session.query("PRAGMA max_page_count = 1", &[], &[]).await;
    pages.expect("limited to the present pages");
    let full = session.perform(&action, &tables).await;
    assert_eq!(full.expect_err("full").fault, SchemaFault::Full);
    session.rollback().await;
    assert_eq!(contents(&folder), before);
}

#[tokio::test]
async fn a_table_with_dependent_objects_is_not_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut session = prepare(&folder);
    let tables = Tables::from([(thing().name, thing())]);
    let table = thing().name;
    let action = Action::DropTable { table };
    let obstacles = [
        ("foreign key of table `notes`", "DROP TABLE notes"),
        ("view `names`", "DROP VIEW more; DROP VIEW names"),
    ];
    for (part, remedy) in obstacles {
        let before = contents_of_schema(&folder);
        let refused = perform(&mut session, &action, &tables).await;
        let error = refused.expect_err(part);
        assert!(error.message.contains(part), "{part} in {error}");
        assert_eq!(error.fault, SchemaFault::Drift, "{error}");
        assert_eq!(contents_of_schema(&folder), before);
        execute_on_file(&file(&folder), &[remedy.to_owned()]);
    }
    // The triggers and indexes of a table are dropped with it.
    perform(&mut session, &action, &tables)
        .await
        .expect("dropped");
    assert_eq!(session.tables().await.expect("tables"), ["log"]);
}

#[tokio::test]
async fn a_crash_before_the_commit_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut session = prepare(&folder);
    let before = contents(&folder);
    let (action, tables) = rebuild();
    session.begin(TransactionMode::Write).await.expect("begun");
    session.perform(&action, &tables).await.expect("rebuilt");
    let rename = Action::RenameTable {
        from: "conformance_things".to_owned(),
        to: "others".to_owned(),
    };
    session.perform(&rename, &tables).await.expect("renamed");
    drop(session);
    assert_eq!(contents(&folder), before);
}

#[tokio::test]
async fn an_added_column_and_a_dropped_column_keep_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut session = prepare(&folder);
    let tables = Tables::from([(thing().name, thing())]);
    let table = thing().name;
    let column = Column {
        name: "level".to_owned(),
        kind: ColumnKind::Enum(vec!["high".to_owned(), "low".to_owned()]),
        optional: false,
        default: Some(Value::Text("low".to_owned())),
    };
    let action = Action::AddColumn { table, column };
    perform(&mut session, &action, &tables)
        .await
        .expect("added");
    let sql = "SELECT count(*) FROM conformance_things WHERE level = $1";
    let low = [(Value::Text("low".to_owned()), ColumnKind::String)];
    let counted = session.query(sql, &low, &[ColumnKind::Integer]).await;
    assert_eq!(counted.expect("counted"), [[Value::Int(3)]]);
    // A view, an index and a foreign key need the column.
    let action = Action::DropColumn {
        table: thing().name,
        column: "slug".to_owned(),
    };
    let before = contents(&folder);
    let refused = perform(&mut session, &action, &tables).await;
    let error = refused.expect_err("refused");
    assert!(error.message.contains("slug"), "{error}");
    assert_eq!(contents(&folder), before);
}
