//! Tests that the comparison reports each difference of a file, with its code.

use linchpin_core::schema::{Difference, DifferenceCode as Code, Table};
use rusqlite::Connection;

use super::{ddl, ddl_and, ddl_with, thing};
use crate::schema::compare::compare;
use crate::schema::sql;

/// Compares a table with a database of these statements.
pub(super) fn differences(table: &Table, statements: &[String]) -> Vec<Difference> {
    let connection = Connection::open_in_memory().expect("a database");
    for sql in statements {
        connection
            .execute_batch(sql)
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
    compare(&connection, std::slice::from_ref(table)).expect("compared")
}

/// A difference: its code, its object, and parts of the expected and the found text.
type Expected = (Code, Option<&'static str>, &'static str, &'static str);

fn assert_reported(case: &str, found: &[Difference], expected: &[Expected]) {
    assert_eq!(found.len(), expected.len(), "{case}: {found:#?}");
    for (code, object, expected_part, found_part) in expected {
        let is_expected = |d: &&Difference| {
            d.code == *code
                && d.object.as_deref() == *object
                && d.expected.contains(expected_part)
                && d.found.contains(found_part)
                && d.expected.is_empty() == expected_part.is_empty()
                && d.found.is_empty() == found_part.is_empty()
        };
        assert!(
            found.iter().any(|d| is_expected(&d)),
            "{case}: {code:?} {object:?} in {found:#?}"
        );
    }
}

#[test]
fn every_difference_has_its_code() {
    let cases: Vec<(&str, Vec<String>, Vec<Expected>)> = vec![
        (
            "type",
            ddl_with("\"rank\" INTEGER", "\"rank\" TEXT"),
            vec![(Code::TypeDiffers, Some("rank"), "INTEGER", "TEXT")],
        ),
        (
            "column missing",
            ddl_with(",\n  \"due_at\" INTEGER", ""),
            vec![(
                Code::MissingColumn,
                Some("due_at"),
                "\"due_at\" INTEGER",
                "",
            )],
        ),
        (
            "extra column",
            ddl_and("ALTER TABLE conformance_things ADD COLUMN note TEXT"),
            vec![(Code::ExtraColumn, Some("note"), "", "note TEXT")],
        ),
        (
            "extra column with a default",
            ddl_and("ALTER TABLE conformance_things ADD COLUMN note TEXT NOT NULL DEFAULT ''"),
            vec![(Code::ExtraColumn, Some("note"), "", "DEFAULT ''")],
        ),
        (
            "extra required column",
            ddl_with(",\n  \"due_at\"", ",\n note TEXT NOT NULL,\n  \"due_at\""),
            vec![(
                Code::ExtraRequiredColumn,
                Some("note"),
                "",
                "note TEXT NOT NULL",
            )],
        ),
        (
            "extra unique column",
            ddl_with(",\n  \"due_at\"", ",\n note TEXT UNIQUE,\n  \"due_at\""),
            vec![
                (Code::ExtraColumn, Some("note"), "", "note TEXT UNIQUE"),
                (Code::ExtraConstraint, Some("note"), "", "UNIQUE"),
            ],
        ),
        (
            "not null added",
            ddl_with("\"slug\" TEXT", "\"slug\" TEXT NOT NULL"),
            vec![(Code::NullabilityDiffers, Some("slug"), "NULL", "NOT NULL")],
        ),
        (
            "not null removed",
            ddl_with("\"status\" TEXT NOT NULL", "\"status\" TEXT"),
            vec![(Code::NullabilityDiffers, Some("status"), "NOT NULL", "NULL")],
        ),
        (
            "default",
            ddl_with("\"slug\" TEXT", "\"slug\" TEXT DEFAULT 'x'"),
            vec![(Code::DefaultDiffers, Some("slug"), "", "'x'")],
        ),
        (
            "collation",
            ddl_with("\"slug\" TEXT", "\"slug\" TEXT COLLATE NOCASE"),
            vec![(Code::CollationDiffers, Some("slug"), "BINARY", "NOCASE")],
        ),
        (
            "check of an enum",
            ddl_with("'gone'", "'Gone'"),
            vec![(
                Code::CheckDiffers,
                Some("ck_conformance_things_status"),
                "\"status\" = 'gone'",
                "'Gone'",
            )],
        ),
        (
            "name of a check",
            ddl_with("CONSTRAINT \"ck_conformance_things_status\" ", ""),
            vec![(
                Code::CheckDiffers,
                Some("ck_conformance_things_status"),
                "ck_conformance_things_status",
                "",
            )],
        ),
        (
            "other name of a check",
            ddl_with("\"ck_conformance_things_status\"", "theirs"),
            vec![(
                Code::CheckDiffers,
                Some("ck_conformance_things_status"),
                "ck_conformance_things_status",
                "theirs",
            )],
        ),
        (
            "check removed",
            ddl_with(
                " CONSTRAINT \"ck_conformance_things_meta\" CHECK (\"meta\" IS NULL OR json_valid(\"meta\"))",
                "",
            ),
            vec![(
                Code::MissingCheck,
                Some("ck_conformance_things_meta"),
                "json_valid(\"meta\")",
                "",
            )],
        ),
        (
            "second check",
            ddl_with("\"rank\" INTEGER", "\"rank\" INTEGER CHECK (rank > 0)"),
            vec![(Code::ExtraConstraint, Some("rank"), "", "CHECK (rank > 0)")],
        ),
        (
            "primary key removed",
            ddl_with(" NOT NULL PRIMARY KEY", " NOT NULL"),
            vec![(Code::MissingCheck, Some("id"), "PRIMARY KEY", "")],
        ),
        (
            "primary key that replaces",
            ddl_with("PRIMARY KEY", "PRIMARY KEY ON CONFLICT REPLACE"),
            vec![(
                Code::CheckDiffers,
                Some("id"),
                "PRIMARY KEY",
                "ON CONFLICT REPLACE",
            )],
        ),
        (
            "null that is ignored",
            ddl_with("TEXT NOT NULL", "TEXT NOT NULL ON CONFLICT IGNORE"),
            vec![
                (Code::ExtraConstraint, Some("id"), "", "ON CONFLICT IGNORE"),
                (
                    Code::ExtraConstraint,
                    Some("status"),
                    "",
                    "ON CONFLICT IGNORE",
                ),
            ],
        ),
        (
            "unique column",
            ddl_with("\"rank\" INTEGER", "\"rank\" INTEGER UNIQUE"),
            vec![(Code::ExtraConstraint, Some("rank"), "", "UNIQUE")],
        ),
        (
            "foreign key of a column",
            ddl_with("\"rank\" INTEGER", "\"rank\" INTEGER REFERENCES other (id)"),
            vec![(
                Code::ExtraConstraint,
                Some("rank"),
                "",
                "REFERENCES other (id)",
            )],
        ),
        (
            "constraint",
            ddl_with(
                "\n) STRICT",
                ",\n CONSTRAINT positive CHECK (rank > 0)) STRICT",
            ),
            vec![(
                Code::ExtraConstraint,
                Some("positive"),
                "",
                "CHECK (rank > 0)",
            )],
        ),
        (
            "foreign key",
            ddl_with(
                "\n) STRICT",
                ",\n FOREIGN KEY (slug) REFERENCES conformance_things (id)) STRICT",
            ),
            vec![(Code::ExtraConstraint, None, "", "FOREIGN KEY (slug)")],
        ),
        (
            "not strict",
            ddl_with(") STRICT", ")"),
            vec![(Code::TypeDiffers, None, "STRICT", "")],
        ),
        (
            "without rowid",
            ddl_with(") STRICT", ") STRICT, WITHOUT ROWID"),
            vec![(Code::TypeDiffers, None, "STRICT", "STRICT, WITHOUT ROWID")],
        ),
        (
            "case of the table",
            ddl()
                .iter()
                .map(|sql| sql.replace("\"conformance_things\"", "\"Conformance_Things\""))
                .collect(),
            vec![(
                Code::MissingTable,
                None,
                "table conformance_things",
                "table Conformance_Things",
            )],
        ),
        (
            "case of a column",
            ddl_with("\"slug\"", "\"Slug\""),
            vec![(
                Code::MissingColumn,
                Some("slug"),
                "\"slug\" TEXT",
                "\"Slug\" TEXT",
            )],
        ),
        (
            "index missing",
            ddl()[..3].to_vec(),
            vec![(
                Code::MissingIndex,
                Some("ix_conformance_things_rank_order"),
                "CREATE INDEX",
                "",
            )],
        ),
        (
            "index with other columns",
            ddl_with("\"rank\" DESC, \"order\"", "\"rank\" DESC, \"slug\""),
            vec![(
                Code::IndexDiffers,
                Some("ix_conformance_things_rank_order"),
                "\"order\"",
                "\"slug\", \"id\")",
            )],
        ),
        (
            "index in another direction",
            ddl_with("\"rank\" DESC", "\"rank\""),
            vec![(
                Code::IndexDiffers,
                Some("ix_conformance_things_rank_order"),
                "(\"rank\" DESC, \"order\", \"id\")",
                "(\"rank\", \"order\", \"id\")",
            )],
        ),
        (
            "case of an index",
            ddl_with("ux_conformance_things_slug", "UX_conformance_things_slug"),
            vec![(
                Code::IndexDiffers,
                Some("ux_conformance_things_slug"),
                "\"ux_conformance_things_slug\"",
                "\"UX_conformance_things_slug\"",
            )],
        ),
        (
            "unique as an index",
            ddl_with(
                "CREATE UNIQUE INDEX \"ux_conformance_things_slug\"",
                "CREATE INDEX ux_conformance_things_slug",
            ),
            vec![(
                Code::IndexDiffers,
                Some("ux_conformance_things_slug"),
                "CREATE UNIQUE INDEX",
                "CREATE INDEX",
            )],
        ),
        (
            "partial unique",
            ddl_with("(\"slug\")", "(\"slug\") WHERE rank > 0"),
            vec![(
                Code::IndexDiffers,
                Some("ux_conformance_things_slug"),
                "(\"slug\")",
                "WHERE rank > 0",
            )],
        ),
        (
            "extra unique",
            ddl_and("CREATE UNIQUE INDEX more ON conformance_things (\"order\")"),
            vec![(
                Code::ExtraUnique,
                Some("more"),
                "",
                "CREATE UNIQUE INDEX more",
            )],
        ),
        (
            "extra index",
            ddl_and("CREATE INDEX fast ON conformance_things (lower(slug)) WHERE rank > 3"),
            vec![(Code::ExtraIndex, Some("fast"), "", "CREATE INDEX fast")],
        ),
        (
            "trigger",
            ddl_and("CREATE TRIGGER t AFTER INSERT ON conformance_things BEGIN SELECT 1; END"),
            vec![(
                Code::ExtraTrigger,
                Some("t"),
                "",
                "CREATE TRIGGER t AFTER INSERT",
            )],
        ),
        (
            "no table",
            Vec::new(),
            vec![(Code::MissingTable, None, "table conformance_things", "")],
        ),
        (
            "view",
            vec!["CREATE VIEW conformance_things AS SELECT 1 AS id".to_owned()],
            vec![(
                Code::MissingTable,
                None,
                "table conformance_things",
                "a view with this name",
            )],
        ),
        (
            "virtual table",
            vec!["CREATE VIRTUAL TABLE conformance_things USING fts5(id)".to_owned()],
            vec![(
                Code::MissingTable,
                None,
                "table conformance_things",
                "CREATE VIRTUAL TABLE",
            )],
        ),
        (
            "name of an index taken",
            vec![
                "CREATE TABLE other (a)".to_owned(),
                "CREATE INDEX ux_conformance_things_slug ON other (a)".to_owned(),
            ],
            vec![
                (Code::MissingTable, None, "table conformance_things", ""),
                (
                    Code::MissingIndex,
                    Some("ux_conformance_things_slug"),
                    "CREATE UNIQUE INDEX",
                    "the index ux_conformance_things_slug of other",
                ),
            ],
        ),
        (
            "index of another table",
            {
                let mut all = ddl();
                all.retain(|sql| !sql.contains("INDEX \"ux_conformance_things_slug\""));
                all.push("CREATE TABLE other (a)".to_owned());
                all.push("CREATE INDEX UX_conformance_things_slug ON other (a)".to_owned());
                all
            },
            vec![(
                Code::MissingIndex,
                Some("ux_conformance_things_slug"),
                "CREATE UNIQUE INDEX \"ux_conformance_things_slug\"",
                "the index UX_conformance_things_slug of other",
            )],
        ),
    ];
    for (case, statements, expected) in &cases {
        assert_reported(case, &differences(&thing(), statements), expected);
    }
}

#[test]
fn all_differences_are_reported_together() {
    let mut statements = ddl_with("\"rank\" INTEGER", "\"rank\" TEXT NOT NULL DEFAULT 'x'");
    statements[0] = statements[0].replace(") STRICT", ")");
    statements.pop();
    statements
        .push("CREATE TRIGGER t AFTER DELETE ON conformance_things BEGIN SELECT 1; END".to_owned());
    let expected: [Expected; 6] = [
        (Code::TypeDiffers, Some("rank"), "INTEGER", "TEXT"),
        (Code::NullabilityDiffers, Some("rank"), "NULL", "NOT NULL"),
        (Code::DefaultDiffers, Some("rank"), "", "'x'"),
        (Code::TypeDiffers, None, "STRICT", ""),
        (
            Code::MissingIndex,
            Some("ix_conformance_things_rank_order"),
            "CREATE INDEX",
            "",
        ),
        (Code::ExtraTrigger, Some("t"), "", "CREATE TRIGGER"),
    ];
    assert_reported("all", &differences(&thing(), &statements), &expected);
}

#[test]
fn tokens_of_different_kinds_are_distinguished() {
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
    // The parser terminates for any text in the file.
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
