//! Compares the physical model with the database.

use rusqlite::Connection;

use linchpin_core::schema::{Difference, DifferenceCode as Code, Table};

use super::column::{CheckText, ColumnText};
use super::dialect::{create_index, create_table};
use super::fault::{self, Outcome};
use super::sql::{self, Definition, TableText, normal};
use crate::render::quote;

/// An object of the database.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// `table`, `index`, `view` or `trigger`.
    pub(super) kind: String,
    pub(super) name: String,
    /// The table to which the object belongs.
    pub(super) table: String,
    pub(super) sql: String,
}

impl Object {
    fn is_called(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    fn place(&self) -> String {
        if self.name == self.table {
            format!("a {} with this name", self.kind)
        } else {
            format!("the {} {} of {}", self.kind, self.name, self.table)
        }
    }
}

/// Returns the objects of the database, the oldest first.
pub(super) fn objects(connection: &Connection) -> Outcome<Vec<Object>> {
    let read = || -> rusqlite::Result<Vec<Object>> {
        let sql = "SELECT type, name, tbl_name, sql FROM sqlite_schema \
                   WHERE sql IS NOT NULL ORDER BY rowid";
        let mut statement = connection.prepare(sql)?;
        let rows = statement.query_map([], |row| {
            Ok(Object {
                kind: row.get(0)?,
                name: row.get(1)?,
                table: row.get(2)?,
                sql: row.get(3)?,
            })
        })?;
        rows.collect()
    };
    read().map_err(fault::of)
}

/// Returns every difference between these tables and those of the database.
pub(super) fn compare(connection: &Connection, expected: &[Table]) -> Outcome<Vec<Difference>> {
    let objects = objects(connection)?;
    let mut all = Vec::new();
    for table in expected {
        let mut report = Report {
            table: &table.name,
            found: Vec::new(),
        };
        compare_table(table, &objects, &mut report);
        if report
            .found
            .iter()
            .all(|difference| difference.code.is_harmless())
            && let Err(error) = can_be_written(connection, table)
        {
            let found = format!("records cannot be written: {error}");
            report.note(Code::ExtraConstraint, None, "", found);
        }
        all.append(&mut report.found);
    }
    Ok(all)
}

/// Prepares an insert to check that writes are possible: an index from another source may need a
/// missing function or collation.
fn can_be_written(connection: &Connection, table: &Table) -> rusqlite::Result<()> {
    let columns: Vec<String> = table.columns.iter().map(|c| quote(&c.name)).collect();
    let nulls = vec!["NULL"; columns.len()].join(", ");
    let table = quote(&table.name);
    let sql = format!(
        "INSERT INTO {table} ({}) VALUES ({nulls})",
        columns.join(", ")
    );
    connection.prepare(&sql).map(drop)
}

/// The differences of a table.
struct Report<'t> {
    table: &'t str,
    found: Vec<Difference>,
}

impl Report<'_> {
    fn note(
        &mut self,
        code: Code,
        object: Option<&str>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) {
        self.found.push(Difference {
            code,
            table: self.table.to_owned(),
            object: object.map(str::to_owned),
            expected: expected.into(),
            found: found.into(),
        });
    }
}

fn compare_table(table: &Table, objects: &[Object], report: &mut Report<'_>) {
    let name = &table.name;
    // SQLite ignores case in names.
    let Some(found) = objects.iter().find(|o| o.is_called(name)) else {
        report.note(Code::MissingTable, None, format!("table {name}"), "");
        for index in &table.indexes {
            if let Some(other) = objects.iter().find(|o| o.is_called(&index.name)) {
                let sql = create_index(name, Some(table), index);
                report.note(Code::MissingIndex, Some(&index.name), sql, other.place());
            }
        }
        return;
    };
    if found.kind != "table" {
        let place = format!("{}: {}", found.place(), normal(&found.sql));
        report.note(Code::MissingTable, None, format!("table {name}"), place);
        return;
    }
    if found.name != *name {
        let present = format!("table {}", found.name);
        report.note(Code::MissingTable, None, format!("table {name}"), present);
    }
    let expected = create_table(table, name);
    // The expected text was rendered here, so it always parses.
    match (sql::table(&expected), sql::table(&found.sql)) {
        (Some(expected), Some(text)) => compare_definitions(table, &expected, &text, report),
        _ => {
            let found = normal(&found.sql);
            report.note(Code::MissingTable, None, format!("table {name}"), found);
            return;
        }
    }
    let own = objects
        .iter()
        .filter(|o| o.table.eq_ignore_ascii_case(name));
    let own: Vec<&Object> = own.collect();
    compare_indexes(table, &own, objects, report);
    for trigger in own.iter().filter(|o| o.kind == "trigger") {
        let sql = normal(&trigger.sql);
        report.note(Code::ExtraTrigger, Some(&trigger.name), "", sql);
    }
}

fn compare_definitions(
    table: &Table,
    expected: &TableText<'_>,
    found: &TableText<'_>,
    report: &mut Report<'_>,
) {
    let same = |a: &Definition<'_>, b: &Definition<'_>| match (&a.column, &b.column) {
        (Some(a), Some(b)) => a.eq_ignore_ascii_case(b),
        _ => false,
    };
    for column in &table.columns {
        let is_it = |d: &&Definition<'_>| d.column.as_ref() == Some(&column.name);
        let Some(want) = expected.definitions.iter().find(is_it) else {
            continue;
        };
        match found.definitions.iter().find(|have| same(want, have)) {
            None => report.note(Code::MissingColumn, Some(&column.name), want.text(), ""),
            Some(have) => {
                if have.column != want.column {
                    let (want, have) = (want.text(), have.text());
                    report.note(Code::MissingColumn, Some(&column.name), want, have);
                }
                let (want, have) = (ColumnText::of(want), ColumnText::of(have));
                compare_column(&column.name, &want, &have, report);
            }
        }
    }
    for have in &found.definitions {
        if let Some(name) = &have.column
            && !expected.definitions.iter().any(|want| same(want, have))
        {
            let column = ColumnText::of(have);
            let code = if column.not_null && column.default.is_none() {
                Code::ExtraRequiredColumn
            } else {
                Code::ExtraColumn
            };
            report.note(code, Some(name), "", have.text());
            for other in column.others.iter().filter(|other| is_unique(other)) {
                report.note(Code::ExtraConstraint, Some(name), "", other);
            }
        }
    }
    compare_checks(expected, found, report);
    if found.options != expected.options {
        let (want, have) = (&expected.options_text, &found.options_text);
        report.note(Code::TypeDiffers, None, want, have);
    }
}

/// Whether a clause of a column may refuse a record without a value for it.
fn is_unique(clause: &str) -> bool {
    !clause.to_ascii_uppercase().starts_with("REFERENCES")
}

/// Compares the checks of the table.
fn compare_checks(expected: &TableText<'_>, found: &TableText<'_>, report: &mut Report<'_>) {
    let of_table = |text: &TableText<'_>| -> Vec<(Option<CheckText>, String)> {
        let constraints = text.definitions.iter().filter(|d| d.column.is_none());
        constraints.map(|d| (CheckText::of(d), d.text())).collect()
    };
    let (expected, mut found) = (of_table(expected), of_table(found));
    for (check, text) in &expected {
        let Some(check) = check else { continue };
        let is_it = |(other, _): &(Option<CheckText>, String)| {
            other.as_ref().is_some_and(|other| other.same_name(check))
        };
        let at = found.iter().position(is_it);
        let name = check.name.as_deref();
        match at.map(|at| found.remove(at)) {
            None => report.note(Code::MissingCheck, name, text, ""),
            Some((Some(other), _)) if other.same_condition(check) => {}
            Some((_, other)) => report.note(Code::CheckDiffers, name, text, other),
        }
    }
    for (check, text) in found {
        let name = check.and_then(|check| check.name);
        report.note(Code::ExtraConstraint, name.as_deref(), "", text);
    }
}

fn compare_column(name: &str, want: &ColumnText, have: &ColumnText, report: &mut Report<'_>) {
    let column = Some(name);
    if want.kind != have.kind {
        report.note(Code::TypeDiffers, column, &want.kind, &have.kind);
    }
    if want.not_null != have.not_null {
        let text = |not_null| if not_null { "NOT NULL" } else { "NULL" };
        let (want, have) = (text(want.not_null), text(have.not_null));
        report.note(Code::NullabilityDiffers, column, want, have);
    }
    match (&want.primary, &have.primary) {
        (Some(want), None) => report.note(Code::MissingCheck, column, &want.text, ""),
        (None, Some(have)) => report.note(Code::ExtraConstraint, column, "", &have.text),
        (Some(want), Some(have)) if want.tokens != have.tokens => {
            report.note(Code::CheckDiffers, column, &want.text, &have.text);
        }
        _ => {}
    }
    let same = match (&want.default, &have.default) {
        (Some(want), Some(have)) => want.same_value(have),
        (None, None) => true,
        // The default of a column without `DEFAULT` is null.
        (None, Some(have)) => have.text.eq_ignore_ascii_case("NULL"),
        (Some(_), None) => false,
    };
    if !same {
        let text = |column: &ColumnText| column.default.as_ref().map(|d| d.text.clone());
        let (want, have) = (
            text(want).unwrap_or_default(),
            text(have).unwrap_or_default(),
        );
        report.note(Code::DefaultDiffers, column, want, have);
    }
    if let Some(collation) = &have.collation
        && !collation.eq_ignore_ascii_case("BINARY")
    {
        report.note(Code::CollationDiffers, column, "BINARY", collation);
    }
    compare_column_checks(name, want, have, report);
    for other in &have.others {
        report.note(Code::ExtraConstraint, column, "", other);
    }
}

/// Compares the checks within a column's definition. A column has at most one.
fn compare_column_checks(
    name: &str,
    want: &ColumnText,
    have: &ColumnText,
    report: &mut Report<'_>,
) {
    let mut found: Vec<&CheckText> = have.checks.iter().collect();
    for check in &want.checks {
        let object = check.name.as_deref();
        let same_name = found.iter().position(|other| other.same_name(check));
        let same_condition_at = found.iter().position(|other| other.same_condition(check));
        let at = same_name
            .or(same_condition_at)
            .or((!found.is_empty()).then_some(0));
        match at.map(|at| found.remove(at)) {
            None => report.note(Code::MissingCheck, object, &check.text, ""),
            Some(other) if !other.same_condition(check) => {
                report.note(Code::CheckDiffers, object, &check.text, &other.text);
            }
            Some(other) if !other.same_name(check) => {
                let name = other.name.as_deref().unwrap_or_default();
                report.note(Code::CheckDiffers, object, object.unwrap_or_default(), name);
            }
            Some(_) => {}
        }
    }
    for extra in found {
        let object = extra.name.as_deref().or(Some(name));
        report.note(Code::ExtraConstraint, object, "", &extra.text);
    }
}

fn compare_indexes(table: &Table, own: &[&Object], all: &[Object], report: &mut Report<'_>) {
    for index in &table.indexes {
        let want = create_index(&table.name, Some(table), index);
        let object = Some(index.name.as_str());
        match all.iter().find(|o| o.is_called(&index.name)) {
            None => report.note(Code::MissingIndex, object, want, ""),
            Some(other) if other.kind != "index" || !own.iter().any(|o| o.name == other.name) => {
                report.note(Code::MissingIndex, object, want, other.place());
            }
            Some(found) if found.name != index.name || !sql::same_index(&found.sql, &want) => {
                report.note(Code::IndexDiffers, object, want, normal(&found.sql));
            }
            Some(_) => {}
        }
    }
    let ours = |o: &Object| table.indexes.iter().any(|index| o.is_called(&index.name));
    // An additional index for speed is harmless; an additional unique index changes which records
    // are accepted.
    for extra in own.iter().filter(|o| o.kind == "index" && !ours(o)) {
        let code = if sql::is_unique(&extra.sql) {
            Code::ExtraUnique
        } else {
            Code::ExtraIndex
        };
        report.note(code, Some(&extra.name), "", normal(&extra.sql));
    }
}
