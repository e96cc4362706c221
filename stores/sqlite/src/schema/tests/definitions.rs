//! Tests of defaults, checks and the order of columns in the comparison.

use linchpin_core::Value;
use linchpin_core::schema::{Check, CheckRule, Column, ColumnKind, DifferenceCode as Code, Table};
use rusqlite::Connection;

use super::differences::differences;
use super::{statements, thing};

/// A table with a required column of each kind that has a literal default, and with checks.
fn defaults() -> Table {
    let values = [
        (ColumnKind::String, Value::Text("it's\n\"x\"".to_owned())),
        (
            ColumnKind::Enum(vec!["a".to_owned(), "b".to_owned()]),
            Value::Text("a".to_owned()),
        ),
        (ColumnKind::Boolean, Value::Bool(true)),
        (ColumnKind::Integer, Value::Int(-7)),
        (ColumnKind::Number, Value::Float(1.5e-7)),
        (
            ColumnKind::Date,
            Value::Date(linchpin_core::Timestamp::from_millis(-1)),
        ),
        (
            ColumnKind::StringArray,
            Value::Strings(vec!["é'\"".to_owned()]),
        ),
        (ColumnKind::Json, Value::Json("{\"a\":[]}".to_owned())),
    ];
    let columns = values
        .into_iter()
        .enumerate()
        .map(|(i, (kind, default))| Column {
            name: format!("c{i}"),
            kind,
            optional: false,
            default: Some(default),
        });
    let mut table = thing();
    table.columns.extend(columns);
    table.checks = vec![
        Check {
            name: "first".to_owned(),
            column: "slug".to_owned(),
            rule: CheckRule::NotNull,
            valid: true,
        },
        Check {
            name: "second".to_owned(),
            column: "slug".to_owned(),
            rule: CheckRule::Values(vec!["x".to_owned(), "y".to_owned()]),
            valid: true,
        },
    ];
    table
}

#[test]
fn defaults_are_constants_with_the_right_value() {
    let table = defaults();
    let all = statements(&table);
    assert_eq!(differences(&table, &all), []);
    let connection = Connection::open_in_memory().expect("a database");
    connection.execute_batch(&all[0]).expect("created");
    connection
        .execute_batch(
            "INSERT INTO conformance_things (id, status, slug) VALUES ('a', 'draft', 'x')",
        )
        .expect("inserted");
    for (column, expected) in [
        ("c0", "it's\n\"x\""),
        ("c1", "a"),
        ("c2", "1"),
        ("c3", "-7"),
        ("c4", "1.5e-07"),
        ("c5", "-1"),
        ("c6", "[\"é'\\\"\"]"),
        ("c7", "{\"a\":[]}"),
    ] {
        let sql = format!("SELECT CAST({column} AS TEXT) FROM conformance_things");
        let found: String = connection
            .query_row(&sql, [], |row| row.get(0))
            .expect("a row");
        assert_eq!(found, expected, "{column}");
    }
}

#[test]
fn each_default_and_check_is_compared() {
    let table = defaults();
    let at = |name: &str| {
        table
            .columns
            .iter()
            .position(|c| c.name == name)
            .expect(name)
    };
    let all = statements(&table);
    for i in 0..8 {
        let name = format!("c{i}");
        let mut other = table.clone();
        other.columns[at(&name)].default = None;
        let found = differences(&other, &all);
        assert_eq!(found.len(), 1, "{name}: {found:#?}");
        assert_eq!(found[0].code, Code::DefaultDiffers, "{found:#?}");
        assert_eq!(differences(&table, &statements(&other)).len(), 1, "{name}");
    }
    let mut other = table.clone();
    other.checks[1].rule = CheckRule::NotNull;
    other.checks.remove(0);
    let found: Vec<Code> = differences(&other, &all).iter().map(|d| d.code).collect();
    assert_eq!(found, [Code::CheckDiffers, Code::ExtraConstraint]);
    let found: Vec<Code> = differences(&table, &statements(&other))
        .iter()
        .map(|d| d.code)
        .collect();
    assert_eq!(found, [Code::MissingCheck, Code::CheckDiffers]);
}

#[test]
fn the_order_of_columns_and_of_enum_values_does_not_matter() {
    let mut table = thing();
    let all = statements(&table);
    table.columns.reverse();
    for column in &mut table.columns {
        if let ColumnKind::Enum(values) = &mut column.kind {
            values.reverse();
        }
    }
    assert_eq!(differences(&table, &all), []);
    let with_values = |n: usize| {
        let mut table = thing();
        for column in &mut table.columns {
            if let ColumnKind::Enum(values) = &mut column.kind {
                *values = (0..n).map(|i| format!("v{i:03}")).collect();
            }
        }
        table
    };
    // A check of more than 64 values uses `IN`.
    let many = statements(&with_values(100));
    assert!(
        many[0].contains("\"status\" IN ('v000', 'v001'"),
        "{}",
        many[0]
    );
    assert_eq!(differences(&with_values(100), &many), []);
    assert_eq!(
        differences(&with_values(99), &many)[0].code,
        Code::CheckDiffers
    );
}
