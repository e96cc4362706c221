//! Every difference between a file and the declarations is refused with a message that names it,
//! and nothing is changed.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::*;
use crate::{SqliteOptions, SqliteStore};
use linchpin_conformance::THING;
use linchpin_core::store::Store;

/// The statements of a valid file.
fn ddl() -> Vec<String> {
    let declared = declare(&THING);
    std::iter::once(declared.table)
        .chain(declared.indexes.into_iter().map(|(_, sql)| sql))
        .collect()
}

fn make(path: &Path, statements: &[String]) {
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

/// Installs on a file made by these statements and returns the error message; the file must not
/// change.
async fn refusal(entity: &'static EntityDesc, statements: &[String]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    make(&file(&folder), statements);
    let before = std::fs::read(file(&folder)).expect("bytes");
    let store = SqliteStore::open(SqliteOptions::new(file(&folder))).expect("it is a database");
    let outcome = store.install(&[entity]).await;
    store.close().await;
    let after = std::fs::read(file(&folder)).expect("bytes");
    assert!(before == after, "the file was changed");
    outcome.expect_err("a difference").message().to_owned()
}

/// `ddl()` with a text replaced, which must exist.
fn with(from: &str, to: &str) -> Vec<String> {
    let all = ddl();
    assert!(
        all.iter().any(|sql| sql.contains(from)),
        "{from} in {all:#?}"
    );
    all.into_iter().map(|sql| sql.replace(from, to)).collect()
}

fn and(sql: &str) -> Vec<String> {
    ddl().into_iter().chain([sql.to_owned()]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_difference_is_named() {
    let cases: Vec<(&str, Vec<String>, &[&str])> = vec![
        (
            "type",
            with("\"rank\" INTEGER", "\"rank\" TEXT"),
            &[
                "expected the column \"rank\" INTEGER",
                "found \"rank\" TEXT",
            ],
        ),
        (
            "column missing",
            with(",\n  \"due_at\" INTEGER", ""),
            &["column missing: \"due_at\" INTEGER"],
        ),
        (
            "extra column",
            and("ALTER TABLE conformance_things ADD COLUMN note TEXT"),
            &["column not declared: note TEXT"],
        ),
        (
            "extra required column",
            and("ALTER TABLE conformance_things ADD COLUMN note TEXT NOT NULL DEFAULT ''"),
            &["column not declared: note TEXT NOT NULL DEFAULT ''"],
        ),
        (
            "not null added",
            with("\"slug\" TEXT", "\"slug\" TEXT NOT NULL"),
            &["found \"slug\" TEXT NOT NULL"],
        ),
        (
            "not null gone",
            with("\"status\" TEXT NOT NULL", "\"status\" TEXT"),
            &["expected the column \"status\" TEXT NOT NULL"],
        ),
        (
            "default",
            with("\"slug\" TEXT", "\"slug\" TEXT DEFAULT 'x'"),
            &["found \"slug\" TEXT DEFAULT 'x'"],
        ),
        (
            "collation",
            with("\"slug\" TEXT", "\"slug\" TEXT COLLATE NOCASE"),
            &["found \"slug\" TEXT COLLATE NOCASE"],
        ),
        (
            "check of an enum",
            with("'gone'", "'Gone'"),
            &["= 'published' OR \"status\" = 'gone')", "'Gone'"],
        ),
        (
            "check gone",
            with(" CHECK (\"meta\" IS NULL OR json_valid(\"meta\"))", ""),
            &["expected the column \"meta\" TEXT CHECK (\"meta\" IS NULL OR json_valid(\"meta\"))"],
        ),
        (
            "primary key gone",
            with(" NOT NULL PRIMARY KEY", " NOT NULL"),
            &["expected the column \"id\" TEXT NOT NULL PRIMARY KEY"],
        ),
        (
            "constraint",
            with("\n) STRICT", ",\n CHECK (rank > 0)) STRICT"),
            &["constraint not declared: CHECK (rank > 0)"],
        ),
        (
            "foreign key",
            with(
                "\n) STRICT",
                ",\n FOREIGN KEY (slug) REFERENCES conformance_things (id)) STRICT",
            ),
            &["constraint not declared: FOREIGN KEY (slug)"],
        ),
        (
            "not strict",
            with(") STRICT", ")"),
            &["expected STRICT after its columns, found nothing"],
        ),
        (
            "without rowid",
            with(") STRICT", ") STRICT, WITHOUT ROWID"),
            &["found STRICT, WITHOUT ROWID"],
        ),
        (
            "case of the table",
            with("conformance_things", "Conformance_Things"),
            &["is called Conformance_Things in the database"],
        ),
        (
            "case of a column",
            with("\"slug\"", "\"Slug\""),
            &["expected the column \"slug\" TEXT", "found \"Slug\" TEXT"],
        ),
        (
            "index missing",
            ddl()[..3].to_vec(),
            &["index missing: CREATE INDEX"],
        ),
        (
            "index with other columns",
            with("\"rank\" DESC, \"order\"", "\"rank\" DESC, \"slug\""),
            &["expected CREATE INDEX", "\"slug\", \"id\")"],
        ),
        (
            "index in another direction",
            with("\"rank\" DESC", "\"rank\""),
            &[
                "(\"rank\" DESC, \"order\", \"id\")",
                "(\"rank\", \"order\", \"id\")",
            ],
        ),
        (
            "unique as an index",
            with("CREATE UNIQUE INDEX", "CREATE INDEX"),
            &["expected CREATE UNIQUE INDEX", "found CREATE INDEX"],
        ),
        (
            "partial unique",
            with("(\"slug\")", "(\"slug\") WHERE rank > 0"),
            &["found CREATE UNIQUE INDEX", "WHERE rank > 0"],
        ),
        (
            "extra unique",
            and("CREATE UNIQUE INDEX more ON conformance_things (\"order\")"),
            &["unique index not declared: CREATE UNIQUE INDEX more"],
        ),
        (
            "trigger",
            and("CREATE TRIGGER t AFTER INSERT ON conformance_things BEGIN SELECT 1; END"),
            &["trigger not declared: CREATE TRIGGER t AFTER INSERT"],
        ),
        (
            "view",
            vec!["CREATE VIEW conformance_things AS SELECT 1 AS id".to_owned()],
            &["expected a table, found a view of that name"],
        ),
        (
            "virtual table",
            vec!["CREATE VIRTUAL TABLE conformance_things USING fts5(id)".to_owned()],
            &["expected an ordinary table, found CREATE VIRTUAL TABLE"],
        ),
        (
            "name of an index taken",
            vec![
                "CREATE TABLE other (a)".to_owned(),
                "CREATE INDEX ux_conformance_things_slug ON other (a)".to_owned(),
            ],
            &[
                "the name of its index ux_conformance_things_slug belongs to the index ux_conformance_things_slug of other",
            ],
        ),
        (
            "index of another table",
            [
                ddl()[..1].to_vec(),
                vec![
                    "CREATE TABLE other (a)".to_owned(),
                    "CREATE INDEX UX_conformance_things_slug ON other (a)".to_owned(),
                ],
            ]
            .concat(),
            &[
                "index missing: CREATE UNIQUE INDEX \"ux_conformance_things_slug\"",
                "belongs to the index UX_conformance_things_slug of other",
            ],
        ),
    ];
    for (case, statements, expected) in cases {
        let text = refusal(&THING, &statements).await;
        for part in expected {
            assert!(text.contains(part), "{case}: {part} in\n{text}");
        }
        assert!(
            text.starts_with(
                "the database differs from what is declared:\n  table conformance_things: "
            ),
            "{case}: {text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_differences_are_listed_at_once() {
    let mut statements = with("\"rank\" INTEGER", "\"rank\" TEXT");
    statements[0] = statements[0].replace(") STRICT", ")");
    statements.pop();
    statements
        .push("CREATE TRIGGER t AFTER DELETE ON conformance_things BEGIN SELECT 1; END".to_owned());
    let text = refusal(&THING, &statements).await;
    for part in [
        "found \"rank\" TEXT",
        "expected STRICT",
        "index missing",
        "trigger not declared",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert_eq!(text.matches("  table ").count(), 4, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_difference_keeps_other_tables_from_being_made() {
    static OTHER: EntityDesc = EntityDesc {
        storage_name: "conformance_others",
        ..linchpin_conformance::entity("Other", &[])
    };
    let folder = tempfile::tempdir().expect("a folder");
    make(&file(&folder), &with(") STRICT", ")"));
    let before = std::fs::read(file(&folder)).expect("bytes");
    let store = SqliteStore::open(SqliteOptions::new(file(&folder))).expect("it is a database");
    store
        .install(&[&OTHER, &THING])
        .await
        .expect_err("a difference");
    store.close().await;
    assert!(
        before == std::fs::read(file(&folder)).expect("bytes"),
        "the file was changed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_name_is_not_passed_over() {
    static RENAMED: EntityDesc = EntityDesc {
        storage_name: "articles",
        rename_from: Some("conformance_things"),
        ..linchpin_conformance::entity("Article", &[])
    };
    let text = refusal(&RENAMED, &ddl()).await;
    assert!(
        text.contains(
            "table articles: missing, but the table conformance_things, its earlier name, is there"
        ),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_says_the_same_fits() {
    let tidy = |sql: String| {
        sql.replace("\"order\"", "[order]")
            .replace('"', "")
            .replace("  ", "\t")
            .to_lowercase()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut statements: Vec<String> = ddl().into_iter().map(tidy).collect();
    statements[0] = statements[0].replacen("id text", "-- the key, (unique)\n id /* , */ text", 1);
    // An index added by hand for speed, and objects of another application.
    statements
        .push("CREATE INDEX fast ON conformance_things (lower(slug)) WHERE rank > 3".to_owned());
    statements.push("CREATE TABLE notes (a, b UNIQUE)".to_owned());
    statements.push("CREATE TRIGGER t AFTER INSERT ON notes BEGIN SELECT 1; END".to_owned());
    make(&file(&folder), &statements);
    let store = SqliteStore::open(SqliteOptions::new(file(&folder))).expect("it is a database");
    for _ in 0..2 {
        store.install(&[&THING]).await.expect("it says the same");
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installed_schema_needs_no_lock() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(SqliteOptions::new(file(&folder))).expect("a fresh file opens");
    store.install(&[&THING]).await.expect("created");
    let other = Connection::open(file(&folder)).expect("the file");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    store.install(&[&THING]).await.expect("found as declared");
    drop(other);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_would_refuse_every_write_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    make(&file(&folder), &ddl());
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
    let text = store
        .install(&[&THING])
        .await
        .expect_err("a difference")
        .message()
        .to_owned();
    store.close().await;
    assert!(
        text.contains("records cannot be written") && text.contains("theirs"),
        "{text}"
    );
}

fn open_error(path: &Path) -> String {
    let error = SqliteStore::open(SqliteOptions::new(path)).expect_err("refused");
    std::error::Error::source(&error)
        .map(ToString::to_string)
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_database_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notes.txt");
    let text = "not a database, but long enough to be looked at ".repeat(40);
    std::fs::write(&path, &text).expect("written");
    let said = open_error(&path);
    assert!(
        said.contains("notes.txt: it is not a SQLite database"),
        "{said}"
    );
    assert_eq!(std::fs::read_to_string(&path).expect("still there"), text);

    let said = open_error(&folder.path().join("no/such/test.db"));
    assert!(
        said.contains("there is no folder") && said.contains("no/such"),
        "{said}"
    );
    assert!(!folder.path().join("no").exists());
    let said = open_error(folder.path());
    assert!(said.contains("it is a folder"), "{said}");
    for name in ["", ":memory:", "file:test.db?mode=ro"] {
        let said = open_error(Path::new(name));
        assert!(said.contains("it must be the name of a file"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_format_is_refused() {
    // Bytes 18 and 19 of the header: the versions needed for writes and reads. Byte 47: the format
    // of the schema.
    for (at, value, expected) in [
        (18, 3, "newer format that may only be read"),
        (19, 3, "one of a newer format"),
        (47, 9, "unsupported"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        make(&file(&folder), &ddl());
        let mut bytes = std::fs::read(file(&folder)).expect("bytes");
        bytes[at] = value;
        std::fs::write(file(&folder), &bytes).expect("written");
        let said = open_error(&file(&folder));
        assert!(said.contains(expected), "byte {at}: {said}");
        assert!(
            std::fs::read(file(&folder)).expect("bytes") == bytes,
            "the file was changed"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_file_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    make(&file(&folder), &ddl());
    let mut permissions = std::fs::metadata(file(&folder))
        .expect("metadata")
        .permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(file(&folder), permissions).expect("set");
    // The root user can write to a read-only file; then there is nothing to refuse.
    if std::fs::OpenOptions::new()
        .append(true)
        .open(file(&folder))
        .is_ok()
    {
        SqliteStore::open(SqliteOptions::new(file(&folder)))
            .expect("it can be written")
            .close()
            .await;
    } else {
        let said = open_error(&file(&folder));
        assert!(said.contains("it is read-only"), "{said}");
    }
}

#[test]
fn tokens_are_told_apart() {
    let same = |a: &str, b: &str| {
        sql::same_index(
            &format!("CREATE INDEX a ON t ({a})"),
            &format!("create index b on \"T\" ( {b} ASC )"),
        )
    };
    assert!(same("x", "[X]") && same("\"a\"\"b\"", "`a\"b`") && same("x /* y */", "x"));
    assert!(
        !same("x", "'x'")
            && !same("x", "x DESC")
            && !same("'it''s'", "'its'")
            && !same("x", "x COLLATE NOCASE")
    );
    // Parsing ends for any text in the file.
    for odd in [
        "",
        "CREATE",
        "CREATE TABLE t (",
        "CREATE TABLE t (a",
        "'",
        "\"",
        "[",
        "/*",
        "--",
        "CREATE TABLE t ()) x",
        "é\u{a0}(,",
    ] {
        drop((
            sql::table(odd),
            sql::same_index(odd, "x"),
            sql::is_unique(odd),
        ));
    }
}
