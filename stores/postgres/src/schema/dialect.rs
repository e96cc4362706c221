//! Renders the schema statements of Postgres, without a connection.

use linchpin_core::schema::{
    Action, Check, CheckRule, Column, ColumnKind, Dialect, Index, LockLevel, Only, Table, Tables,
    check_name, key_name,
};

use super::literal::constant;
use crate::render::{direction, literal, quote};

/// The schema statements of Postgres.
#[derive(Clone, Copy, Debug)]
pub struct PostgresDialect;

/// The lock of most changes. It blocks all other access, but only briefly.
const BRIEF: LockLevel = LockLevel {
    name: "ACCESS EXCLUSIVE",
    brief: true,
};

impl Dialect for PostgresDialect {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn statements(&self, action: &Action, tables: &Tables) -> Vec<String> {
        match action {
            Action::CreateTable { table } => create_table(table),
            Action::DropTable { table } => vec![format!("DROP TABLE {}", quote(table))],
            Action::RenameTable { from, to } => rename_table(from, to, tables.get(from)),
            Action::CreateIndex {
                table,
                index,
                concurrently,
            } => vec![create_index(table, index, tables.get(table), *concurrently)],
            Action::DropIndex { index, .. } => {
                vec![format!("DROP INDEX CONCURRENTLY {}", quote(index))]
            }
            Action::RenameIndex { from, to, .. } => vec![format!(
                "ALTER INDEX {} RENAME TO {}",
                quote(from),
                quote(to)
            )],
            Action::AddColumn { table, column } => {
                let change = format!("ADD COLUMN {}", column_of(column, false));
                match enum_check(table, column) {
                    None => vec![alter(table, &change)],
                    // The rows are verified by a second statement, without the lock of the first
                    // one.
                    Some(check) => vec![
                        alter(table, &format!("{change}, ADD {check} NOT VALID")),
                        validate(table, &check_name(table, &column.name)),
                    ],
                }
            }
            Action::DropColumn { table, column } => vec![drop_column(table, column)],
            Action::RenameColumn { table, from, to } => {
                rename_column(table, from, to, tables.get(table))
            }
            Action::SetDefault {
                table,
                column,
                default,
            } => {
                let kind = tables
                    .get(table)
                    .and_then(|table| table.column(column))
                    .map(|column| &column.kind);
                let change = match default {
                    Some(value) => format!("SET DEFAULT {}", constant(value, kind)),
                    None => "DROP DEFAULT".to_owned(),
                };
                vec![alter_column(table, column, &change)]
            }
            Action::DropNotNull { table, column } => {
                vec![alter_column(table, column, "DROP NOT NULL")]
            }
            Action::SetNotNull { table, column } => {
                vec![alter_column(table, column, "SET NOT NULL")]
            }
            Action::AddCheck { table, check } => vec![add_check(table, check)],
            Action::ValidateCheck { table, check } => {
                vec![validate(table, check)]
            }
            Action::DropCheck { table, check } => vec![drop_check(table, check)],
            Action::RenameCheck { table, from, to } => rename_check(table, from, to),
            Action::ReplaceCheck {
                table,
                column,
                check,
            } => {
                let name = check_name(table, column);
                let is_enum = tables
                    .get(table)
                    .and_then(|table| table.column(column))
                    .is_some_and(|column| matches!(column.kind, ColumnKind::Enum(_)));
                is_enum
                    .then(|| drop_check(table, &name))
                    .into_iter()
                    .chain(rename_check(table, check, &name))
                    .collect()
            }
            Action::SwapColumn {
                table,
                old,
                next,
                source,
                name,
            } => {
                let mut all = vec![drop_column(table, old)];
                all.extend(rename_column(table, next, name, tables.get(table)));
                all.push(drop_column(table, source));
                all
            }
            // Postgres alters constraints in place, so no plan contains this action.
            Action::Rebuild { .. } => Vec::new(),
        }
    }

    fn is_transactional(&self, action: &Action) -> bool {
        match action {
            Action::CreateIndex { concurrently, .. } => !concurrently,
            Action::DropIndex { .. } => false,
            // Each statement is a separate transaction, so that the first one holds its lock only
            // briefly.
            Action::AddColumn { column, .. } => !matches!(column.kind, ColumnKind::Enum(_)),
            _ => true,
        }
    }

    fn lock(&self, action: &Action) -> LockLevel {
        match action {
            Action::CreateTable { .. } => LockLevel {
                name: "",
                brief: true,
            },
            // Dropping an index waits for transactions that use it.
            Action::CreateIndex {
                concurrently: true, ..
            }
            | Action::DropIndex { .. }
            | Action::ValidateCheck { .. } => LockLevel {
                name: "SHARE UPDATE EXCLUSIVE",
                brief: false,
            },
            Action::CreateIndex { .. } => LockLevel {
                name: "SHARE",
                brief: false,
            },
            Action::RenameIndex { .. } => LockLevel {
                name: "SHARE UPDATE EXCLUSIVE",
                brief: true,
            },
            Action::AddCheck { check, .. } => LockLevel {
                brief: !check.valid,
                ..BRIEF
            },
            _ => BRIEF,
        }
    }

    fn rebuilds(&self) -> bool {
        false
    }

    fn rewrites_index(&self, index: &Index, before: &Table, after: &Table) -> bool {
        // The definition of an index depends on which of its columns are optional.
        let form = |table: &Table| {
            let keys = index.keys.iter().map(|key| key.column.as_str());
            let compared = index.only.iter().filter_map(|only| match only {
                Only::Null(_) => None,
                Only::Differs(column, _) => Some(column.as_str()),
            });
            keys.chain(compared)
                .map(|column| is_optional(Some(table), column))
                .collect::<Vec<_>>()
        };
        form(before) != form(after)
    }

    fn row_lock(&self) -> &'static str {
        " FOR NO KEY UPDATE"
    }

    fn quote(&self, name: &str) -> String {
        quote(name)
    }
}

fn create_table(table: &Table) -> Vec<String> {
    let name = &table.name;
    let mut parts: Vec<String> = table
        .columns
        .iter()
        .map(|column| column_of(column, column.name == table.primary))
        .collect();
    parts.push(format!(
        "CONSTRAINT {} PRIMARY KEY ({})",
        quote(&key_name(name)),
        quote(&table.primary)
    ));
    parts.extend(table.columns.iter().filter_map(|c| enum_check(name, c)));
    let mut all = vec![format!(
        "CREATE TABLE {} (\n  {}\n)",
        quote(name),
        parts.join(",\n  ")
    )];
    all.extend(table.checks.iter().map(|check| add_check(name, check)));
    all
}

fn rename_table(from: &str, to: &str, table: Option<&Table>) -> Vec<String> {
    let mut all = vec![alter(from, &format!("RENAME TO {}", quote(to)))];
    all.extend(rename_check(to, &key_name(from), &key_name(to)));
    for column in table.iter().flat_map(|table| &table.columns) {
        if matches!(column.kind, ColumnKind::Enum(_)) {
            let (before, after) = (check_name(from, &column.name), check_name(to, &column.name));
            all.extend(rename_check(to, &before, &after));
        }
    }
    all
}

fn create_index(name: &str, index: &Index, table: Option<&Table>, concurrently: bool) -> String {
    let keys: Vec<String> = index
        .keys
        .iter()
        .map(|key| {
            let order = direction(is_optional(table, &key.column), key.desc);
            format!("{} {order}", quote(&key.column))
        })
        .collect();
    let conditions: Vec<String> = index
        .only
        .iter()
        .map(|only| match only {
            Only::Null(column) => format!("{} IS NULL", quote(column)),
            Only::Differs(column, text) => {
                let differs = differs(is_optional(table, column));
                format!("{} {differs} {}", quote(column), literal(text))
            }
        })
        .collect();
    let mut sql = format!(
        "CREATE {}INDEX {}{} ON {} ({})",
        if index.unique { "UNIQUE " } else { "" },
        if concurrently { "CONCURRENTLY " } else { "" },
        quote(&index.name),
        quote(name),
        keys.join(", ")
    );
    if !conditions.is_empty() {
        sql.push_str(&format!(" WHERE {}", conditions.join(" AND ")));
    }
    sql
}

/// The operator of [`Only::Differs`].
pub(super) fn differs(optional: bool) -> &'static str {
    if optional { "IS DISTINCT FROM" } else { "<>" }
}

pub(super) fn is_optional(table: Option<&Table>, column: &str) -> bool {
    table
        .and_then(|table| table.column(column))
        .is_some_and(|column| column.optional)
}

/// A column in a statement, without the check of an enum.
fn column_of(column: &Column, primary: bool) -> String {
    let mut sql = format!("{} {}", quote(&column.name), type_of(&column.kind));
    if is_identity(column, primary) {
        sql.push_str(" GENERATED BY DEFAULT AS IDENTITY");
    }
    if !column.optional {
        sql.push_str(" NOT NULL");
    }
    if let Some(value) = &column.default {
        sql.push_str(&format!(" DEFAULT {}", constant(value, Some(&column.kind))));
    }
    sql
}

/// Whether the server generates the values of a column.
pub(super) fn is_identity(column: &Column, primary: bool) -> bool {
    primary && column.kind == ColumnKind::Integer && column.default.is_none()
}

fn type_of(kind: &ColumnKind) -> &'static str {
    match kind {
        ColumnKind::String | ColumnKind::Enum(_) => "TEXT COLLATE \"C\"",
        ColumnKind::Boolean => "BOOLEAN",
        ColumnKind::Integer => "BIGINT",
        ColumnKind::Number => "DOUBLE PRECISION",
        ColumnKind::Date => "TIMESTAMPTZ(3)",
        ColumnKind::StringArray => "TEXT[]",
        ColumnKind::Json => "JSONB",
    }
}

/// The check of an enum column; `None` for other columns.
fn enum_check(table: &str, column: &Column) -> Option<String> {
    let ColumnKind::Enum(values) = &column.kind else {
        return None;
    };
    let name = check_name(table, &column.name);
    Some(constraint(&name, &column.name, &one_of(values)))
}

fn constraint(name: &str, column: &str, condition: &str) -> String {
    format!(
        "CONSTRAINT {} CHECK ({} {condition})",
        quote(name),
        quote(column)
    )
}

fn one_of(values: &[String]) -> String {
    let values: Vec<String> = values.iter().map(|value| literal(value)).collect();
    if values.is_empty() {
        "IS NULL".to_owned()
    } else {
        format!("IN ({})", values.join(", "))
    }
}

fn add_check(table: &str, check: &Check) -> String {
    let condition = match &check.rule {
        CheckRule::NotNull => "IS NOT NULL".to_owned(),
        CheckRule::Values(values) => one_of(values),
    };
    let check_sql = constraint(&check.name, &check.column, &condition);
    let later = if check.valid { "" } else { " NOT VALID" };
    alter(table, &format!("ADD {check_sql}{later}"))
}

fn validate(table: &str, check: &str) -> String {
    alter(table, &format!("VALIDATE CONSTRAINT {}", quote(check)))
}

fn drop_check(table: &str, check: &str) -> String {
    alter(table, &format!("DROP CONSTRAINT {}", quote(check)))
}

/// Returns no statement if the name is unchanged.
fn rename_check(table: &str, from: &str, to: &str) -> Vec<String> {
    let change = || format!("RENAME CONSTRAINT {} TO {}", quote(from), quote(to));
    (from != to)
        .then(|| alter(table, &change()))
        .into_iter()
        .collect()
}

fn rename_column(table: &str, from: &str, to: &str, model: Option<&Table>) -> Vec<String> {
    let change = format!("RENAME COLUMN {} TO {}", quote(from), quote(to));
    let mut all = vec![alter(table, &change)];
    let column = model.and_then(|model| model.column(from));
    if column.is_some_and(|column| matches!(column.kind, ColumnKind::Enum(_))) {
        let (before, after) = (check_name(table, from), check_name(table, to));
        all.extend(rename_check(table, &before, &after));
    }
    all
}

/// `CASCADE` is not used, so the server refuses the statement if a view or a function needs the
/// column.
fn drop_column(table: &str, column: &str) -> String {
    alter(table, &format!("DROP COLUMN {}", quote(column)))
}

fn alter_column(table: &str, column: &str, change: &str) -> String {
    alter(table, &format!("ALTER COLUMN {} {change}", quote(column)))
}

fn alter(table: &str, change: &str) -> String {
    format!("ALTER TABLE {} {change}", quote(table))
}
