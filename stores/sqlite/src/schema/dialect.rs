//! Renders actions as statements of SQLite.

use std::time::Duration;

use linchpin_core::Value;
use linchpin_core::schema::{
    Action, Check, CheckRule, Column, ColumnKind, Dialect, Index, LockLevel, Only, Table, Tables,
    check_name,
};
use linchpin_vocabulary::store::SQLITE;

use super::identity::hex;
use crate::render::quote;

/// The maximum number of enum values that a check compares one by one. For `IN` with more than two
/// values SQLite builds a temporary table at each check.
const MAX_COMPARED: usize = 64;

/// The schema statements of SQLite.
#[derive(Clone, Copy, Debug)]
pub struct SqliteDialect;

impl Dialect for SqliteDialect {
    fn name(&self) -> &'static str {
        SQLITE.name
    }

    fn statements(&self, action: &Action, tables: &Tables) -> Vec<String> {
        match action {
            Action::CreateTable { table } => vec![create_table(table, &table.name)],
            Action::DropTable { table } => vec![format!("DROP TABLE {}", quote(table))],
            Action::RenameTable { from, to } => rename_table(from, to, tables),
            Action::CreateIndex { table, index, .. } => {
                vec![create_index(table, tables.get(table), index)]
            }
            Action::DropIndex { index, .. } => vec![drop_index(index)],
            Action::RenameIndex { table, from, to } => {
                let table = tables.get(table);
                let Some((table, index)) = table.and_then(|t| Some((t, t.index(from)?))) else {
                    return Vec::new();
                };
                let renamed = Index {
                    name: to.clone(),
                    ..index.clone()
                };
                vec![
                    drop_index(from),
                    create_index(&table.name, Some(table), &renamed),
                ]
            }
            Action::AddColumn { table, column } => vec![format!(
                "ALTER TABLE {} ADD COLUMN {}",
                quote(table),
                definition(table, column, false)
            )],
            Action::DropColumn { table, column } => vec![format!(
                "ALTER TABLE {} DROP COLUMN {}",
                quote(table),
                quote(column)
            )],
            Action::RenameColumn { table, from, to } => rename_column(table, from, to, tables),
            Action::RenameCheck { table, from, to } => {
                rename_checks(table, vec![(from.clone(), to.clone())])
            }
            Action::Rebuild { from, to, columns } => rebuild(from, to, columns),
            Action::SetDefault { .. }
            | Action::DropNotNull { .. }
            | Action::SetNotNull { .. }
            | Action::AddCheck { .. }
            | Action::ValidateCheck { .. }
            | Action::DropCheck { .. }
            | Action::ReplaceCheck { .. }
            | Action::SwapColumn { .. } => as_rebuild(action, tables)
                .map_or_else(Vec::new, |rebuild| self.statements(&rebuild, tables)),
        }
    }

    fn is_transactional(&self, _: &Action) -> bool {
        true
    }

    fn lock(&self, action: &Action) -> LockLevel {
        let brief = match action {
            Action::CreateTable { .. }
            | Action::RenameTable { .. }
            | Action::RenameColumn { .. }
            | Action::RenameCheck { .. } => true,
            // SQLite tests a check on all existing rows.
            Action::AddColumn { column, .. } => !has_check(&column.kind),
            _ => false,
        };
        LockLevel {
            name: "write",
            brief,
        }
    }

    fn rebuilds(&self) -> bool {
        true
    }

    /// In the condition of an index, a column that allows null needs another operator. So a change
    /// of its nullability rewrites the index.
    fn rewrites_index(&self, index: &Index, before: &Table, after: &Table) -> bool {
        let is_optional = |table: &Table, column: &str| table.column(column).map(|c| c.optional);
        index.only.iter().any(|only| match only {
            Only::Null(_) => false,
            Only::Differs(column, _) => is_optional(before, column) != is_optional(after, column),
        })
    }

    /// The time limit of a batch: 20 ms, because a batch blocks all other writes.
    fn batch_time(&self) -> Duration {
        Duration::from_millis(20)
    }

    fn quote(&self, name: &str) -> String {
        quote(name)
    }
}

/// Returns a change of a constraint as a rebuild of its table; `None` for another action, or if the
/// table is not in the model.
pub(super) fn as_rebuild(action: &Action, tables: &Tables) -> Option<Action> {
    let constraint = matches!(
        action,
        Action::SetDefault { .. }
            | Action::DropNotNull { .. }
            | Action::SetNotNull { .. }
            | Action::AddCheck { .. }
            | Action::ValidateCheck { .. }
            | Action::DropCheck { .. }
            | Action::ReplaceCheck { .. }
            | Action::SwapColumn { .. }
    );
    let from = tables.get(action.table()).filter(|_| constraint)?;
    let mut after = Tables::from([(from.name.clone(), from.clone())]);
    action.apply(&mut after);
    let to = after.remove(&from.name)?;
    let source = |name: &str| match action {
        Action::SwapColumn {
            next, name: last, ..
        } if last == name => next.clone(),
        _ => name.to_owned(),
    };
    let columns = to.columns.iter();
    let columns = columns.map(|column| (column.name.clone(), source(&column.name)));
    let columns = columns.collect();
    Some(Action::Rebuild {
        from: from.clone(),
        to,
        columns,
    })
}

/// Returns the name of a table during its rebuild.
pub(super) fn interim(table: &str) -> String {
    format!("__lp_{table}")
}

fn drop_index(name: &str) -> String {
    format!("DROP INDEX {}", quote(name))
}

pub(super) fn rename_to(from: &str, to: &str) -> String {
    format!("ALTER TABLE {} RENAME TO {}", quote(from), quote(to))
}

/// Renders `CREATE TABLE` with the name `name`. Its checks are named after the table.
pub(super) fn create_table(table: &Table, name: &str) -> String {
    let columns = table.columns.iter();
    let columns = columns.map(|c| definition(&table.name, c, c.name == table.primary));
    let checks = table.checks.iter().map(|check| {
        let condition = condition(check);
        format!("CONSTRAINT {} CHECK ({condition})", quote(&check.name))
    });
    let all: Vec<String> = columns.chain(checks).collect();
    format!(
        "CREATE TABLE {} (\n  {}\n) STRICT",
        quote(name),
        all.join(",\n  ")
    )
}

/// Renders a column as in `CREATE TABLE`.
fn definition(table: &str, column: &Column, primary: bool) -> String {
    let name = quote(&column.name);
    let kind = match column.kind {
        ColumnKind::Boolean | ColumnKind::Integer | ColumnKind::Date => "INTEGER",
        ColumnKind::Number => "REAL",
        ColumnKind::String | ColumnKind::Enum(_) | ColumnKind::StringArray | ColumnKind::Json => {
            "TEXT"
        }
    };
    let mut sql = format!("{name} {kind}");
    if !column.optional {
        sql.push_str(" NOT NULL");
    }
    if primary {
        sql.push_str(" PRIMARY KEY");
    }
    if let Some(default) = &column.default {
        sql.push_str(" DEFAULT ");
        sql.push_str(&literal(default));
    }
    if let Some(condition) = rule(column) {
        let check = quote(&check_name(table, &column.name));
        sql.push_str(&format!(" CONSTRAINT {check} CHECK ({condition})"));
    }
    sql
}

/// Whether a column of this kind has a check.
fn has_check(kind: &ColumnKind) -> bool {
    match kind {
        ColumnKind::Enum(_) | ColumnKind::Boolean | ColumnKind::StringArray | ColumnKind::Json => {
            true
        }
        ColumnKind::String | ColumnKind::Integer | ColumnKind::Number | ColumnKind::Date => false,
    }
}

/// Returns the condition of a column's check.
fn rule(column: &Column) -> Option<String> {
    let name = quote(&column.name);
    match &column.kind {
        ColumnKind::Boolean => Some(format!("{name} IN (0, 1)")),
        ColumnKind::Enum(values) => Some(one_of(&name, values)),
        // Older versions of SQLite treat null as invalid JSON; their `integrity_check` then reports
        // the record.
        ColumnKind::StringArray | ColumnKind::Json if column.optional => {
            Some(format!("{name} IS NULL OR json_valid({name})"))
        }
        ColumnKind::StringArray | ColumnKind::Json => Some(format!("json_valid({name})")),
        ColumnKind::String | ColumnKind::Integer | ColumnKind::Number | ColumnKind::Date => None,
    }
}

fn condition(check: &Check) -> String {
    let name = quote(&check.column);
    match &check.rule {
        CheckRule::NotNull => format!("{name} IS NOT NULL"),
        CheckRule::Values(values) => one_of(&name, values),
    }
}

fn one_of(name: &str, values: &[String]) -> String {
    let values = values.iter().map(|value| text(value));
    if (1..=MAX_COMPARED).contains(&values.len()) {
        let each: Vec<String> = values.map(|value| format!("{name} = {value}")).collect();
        each.join(" OR ")
    } else {
        format!("{name} IN ({})", values.collect::<Vec<_>>().join(", "))
    }
}

/// Renders `CREATE INDEX`. `model` is the table, for the nullability of its columns.
pub(super) fn create_index(table: &str, model: Option<&Table>, index: &Index) -> String {
    let keys = index.keys.iter().map(|key| {
        let direction = if key.desc { " DESC" } else { "" };
        format!("{}{direction}", quote(&key.column))
    });
    let only = index.only.iter().map(|only| match only {
        Only::Null(column) => format!("{} IS NULL", quote(column)),
        Only::Differs(column, value) => {
            let optional = model
                .and_then(|t| t.column(column))
                .is_none_or(|c| c.optional);
            let differs = if optional { "IS NOT" } else { "<>" };
            format!("{} {differs} {}", quote(column), text(value))
        }
    });
    let (keys, only): (Vec<_>, Vec<_>) = (keys.collect(), only.collect());
    format!(
        "CREATE {}INDEX {} ON {} ({}){}{}",
        if index.unique { "UNIQUE " } else { "" },
        quote(&index.name),
        quote(table),
        keys.join(", "),
        if only.is_empty() { "" } else { " WHERE " },
        only.join(" AND ")
    )
}

/// Renders a value. It is a constant, which `DEFAULT` accepts.
pub(super) fn literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Bool(b) => i64::from(*b).to_string(),
        Value::Int(i) => i.to_string(),
        // The shortest text that reads back as the same double, with a point or an exponent.
        Value::Float(f) => format!("{f:?}"),
        Value::Text(t) | Value::Json(t) => text(t),
        Value::Date(date) => date.millis().to_string(),
        Value::Strings(_) => {
            let mut json = Vec::new();
            linchpin_core::json::write_value(value.as_ref(), &mut json);
            text(&String::from_utf8_lossy(&json))
        }
    }
}

/// Renders a text. A statement ends at a NUL, so a text with one is rendered as bytes.
fn text(value: &str) -> String {
    if value.contains('\0') {
        return format!("(CAST(X'{}' AS TEXT))", hex(value.as_bytes()));
    }
    format!("'{}'", value.replace('\'', "''"))
}

fn rename_table(from: &str, to: &str, tables: &Tables) -> Vec<String> {
    let mut all = if from.eq_ignore_ascii_case(to) {
        // SQLite ignores case: a new name that differs only in case is already taken. The table is
        // renamed in two steps.
        vec![rename_to(from, &interim(to)), rename_to(&interim(to), to)]
    } else {
        vec![rename_to(from, to)]
    };
    let columns = tables.get(from).map_or(&[][..], |table| &table.columns);
    let checked = columns.iter().filter(|column| has_check(&column.kind));
    let names = checked.map(|c| (check_name(from, &c.name), check_name(to, &c.name)));
    all.extend(rename_checks(to, names.collect()));
    all
}

fn rename_column(table: &str, from: &str, to: &str, tables: &Tables) -> Vec<String> {
    let mut all = vec![format!(
        "ALTER TABLE {} RENAME COLUMN {} TO {}",
        quote(table),
        quote(from),
        quote(to)
    )];
    let column = tables.get(table).and_then(|table| table.column(from));
    if column.is_some_and(|column| has_check(&column.kind)) {
        let names = (check_name(table, from), check_name(table, to));
        all.extend(rename_checks(table, vec![names]));
    }
    all
}

/// Renames checks of a table. SQLite has no statement for it, so the stored text of the table is
/// edited. This is safe, because the name of a check is stored only there and has no effect.
fn rename_checks(table: &str, mut names: Vec<(String, String)>) -> Vec<String> {
    names.retain(|(from, to)| from != to);
    if names.is_empty() {
        return Vec::new();
    }
    let names = names.iter();
    let names: Vec<String> = names
        .map(|(from, to)| format!("{}, {}", text(from), text(to)))
        .collect();
    vec![
        "PRAGMA writable_schema = ON".to_owned(),
        format!(
            "UPDATE sqlite_schema SET sql = {RENAME_CHECKS}(sql, {}) WHERE type = 'table' AND name = {}",
            names.join(", "),
            text(table)
        ),
        // `RESET` makes SQLite read the edited text.
        "PRAGMA writable_schema = RESET".to_owned(),
    ]
}

/// The function that renames checks in the text of a table. Its arguments are the text, then the
/// current and the new name of each check. Only schema sessions register it.
pub(super) const RENAME_CHECKS: &str = "linchpin_rename_checks";

/// The statements of a rebuild: the rows are copied into a new table, which then gets the name of
/// the old one.
fn rebuild(from: &Table, to: &Table, columns: &[(String, String)]) -> Vec<String> {
    let copy = interim(&to.name);
    let mut all = vec![
        create_table(to, &copy),
        copy_rows(from, &copy, columns),
        format!("DROP TABLE {}", quote(&from.name)),
        rename_to(&copy, &to.name),
    ];
    all.extend(create_indexes(to));
    all
}

/// Returns the indexes of a table in the order of their creation. SQLite checks the newest index
/// first. Unique indexes are created in reverse, so that a violation of the first declared one is
/// reported first.
pub(super) fn creation_order(table: &Table) -> impl Iterator<Item = &Index> {
    let uniques = table.indexes.iter().rev().filter(|index| index.unique);
    uniques.chain(table.indexes.iter().filter(|index| !index.unique))
}

/// Renders the indexes of a table, in the order of their creation.
pub(super) fn create_indexes(table: &Table) -> Vec<String> {
    creation_order(table)
        .map(|index| create_index(&table.name, Some(table), index))
        .collect()
}

/// Renders the copy of rows. Each column name has the table name in front, so that SQLite never
/// reads an unknown column name as a string.
pub(super) fn copy_rows(from: &Table, copy: &str, columns: &[(String, String)]) -> String {
    let table = quote(&from.name);
    let new: Vec<String> = columns.iter().map(|(new, _)| quote(new)).collect();
    let present = columns.iter();
    let present: Vec<String> = present
        .map(|(_, old)| format!("{table}.{}", quote(old)))
        .collect();
    format!(
        "INSERT INTO {} ({}) SELECT {} FROM {table}",
        quote(copy),
        new.join(", "),
        present.join(", ")
    )
}
