//! The actions that undo the actions of steps.

use linchpin_core::Value;
use linchpin_core::schema::{
    Action, Check as TableCheck, CheckRule, Column, ColumnKind, Dialect, SchemaSession, Table,
    Tables, check_name,
};

use super::Undo;
use crate::check::{Check, key_of};
use crate::error::Refusal;
use crate::step::Step;

/// Whether an interrupted step has changed the database. If so, applies its action to the model.
pub(super) async fn is_partly_done(
    session: &mut dyn SchemaSession,
    step: &Step,
    action: &Action,
    tables: &mut Tables,
    dialect: &dyn Dialect,
) -> Result<bool, Refusal> {
    // The database rolled back an interrupted transaction.
    if step.is_transactional(dialect) {
        return Ok(false);
    }
    if let Action::AddColumn { table, column } = action {
        let mut wider = tables.clone();
        action.apply(&mut wider);
        let Some(expected) = wider.get(table) else {
            return Ok(false);
        };
        let found = session.compare(&[expected]).await?;
        let is_missing = found.iter().any(|difference| {
            difference.code.name() == "missing_column"
                && difference.object.as_ref() == Some(&column.name)
        });
        if is_missing {
            return Ok(false);
        }
    }
    // Other actions count as done: their undo has no effect if the object does not exist.
    action.apply(tables);
    Ok(true)
}

/// The actions that undo an action. `before` is the model before it, `tables` the present one.
pub(super) fn undo(step: &Step, action: &Action, before: &Tables, tables: &Tables) -> Option<Undo> {
    let mut checks = Vec::new();
    let was = |table: &str, column: &str| before.get(table).and_then(|t| t.column(column)).cloned();
    let actions = match action {
        Action::CreateTable { table } => vec![Action::DropTable {
            table: table.name.clone(),
        }],
        Action::CreateIndex { table, index, .. } => vec![Action::DropIndex {
            table: table.clone(),
            index: index.name.clone(),
        }],
        Action::DropIndex { table, index } => {
            let index = before.get(table)?.index(index)?.clone();
            vec![Action::CreateIndex {
                table: table.clone(),
                index,
                concurrently: true,
            }]
        }
        Action::RenameIndex { table, from, to } => vec![Action::RenameIndex {
            table: table.clone(),
            from: to.clone(),
            to: from.clone(),
        }],
        Action::AddColumn { table, column } => vec![Action::DropColumn {
            table: table.clone(),
            column: column.name.clone(),
        }],
        Action::SetDefault { table, column, .. } => vec![Action::SetDefault {
            table: table.clone(),
            column: column.clone(),
            default: was(table, column)?.default,
        }],
        Action::DropNotNull { table, column } => {
            let present = tables.get(table)?;
            checks.push(no_nulls(present, column));
            vec![Action::SetNotNull {
                table: table.clone(),
                column: column.clone(),
            }]
        }
        Action::AddCheck { table, check } => vec![Action::DropCheck {
            table: table.clone(),
            check: check.name.clone(),
        }],
        Action::ReplaceCheck { table, column, .. } => {
            let ColumnKind::Enum(values) = was(table, column)?.kind else {
                return None;
            };
            checks.push(only_values(tables.get(table)?, column, &values));
            let check = check_name(table, &format!("{column}__next"));
            vec![
                Action::AddCheck {
                    table: table.clone(),
                    check: TableCheck {
                        name: check.clone(),
                        column: column.clone(),
                        rule: CheckRule::Values(values),
                        valid: true,
                    },
                },
                Action::ReplaceCheck {
                    table: table.clone(),
                    column: column.clone(),
                    check: check.clone(),
                },
                // The step before it had added the check that this one replaced.
                Action::AddCheck {
                    table: table.clone(),
                    check: added_check(before, table, &check)?,
                },
            ]
        }
        Action::Rebuild { from, to, columns } => {
            checks = narrower(from, to);
            vec![Action::Rebuild {
                from: to.clone(),
                to: from.clone(),
                columns: columns
                    .iter()
                    .map(|(new, present)| (present.clone(), new.clone()))
                    .collect(),
            }]
        }
        _ => return None,
    };
    Some(Undo {
        step: step.id.clone(),
        actions,
        lost: None,
        before: checks,
        tables: tables.clone(),
    })
}

fn added_check(before: &Tables, table: &str, name: &str) -> Option<TableCheck> {
    let checks = &before.get(table)?.checks;
    checks.iter().find(|check| check.name == name).cloned()
}

fn no_nulls(table: &Table, column: &str) -> Check {
    Check::NoNulls {
        table: table.name.clone(),
        key: key_of(table),
        column: column.to_owned(),
    }
}

fn only_values(table: &Table, column: &str, values: &[String]) -> Check {
    Check::OnlyValues {
        table: table.name.clone(),
        key: key_of(table),
        column: column.to_owned(),
        values: values.to_vec(),
        sensitive: true,
    }
}

/// The conditions that rows of the wider table must meet to fit into the narrower one.
fn narrower(narrow: &Table, wide: &Table) -> Vec<Check> {
    let mut all = Vec::new();
    for column in &narrow.columns {
        let Some(now) = wide.column(&column.name) else {
            continue;
        };
        if now.optional && !column.optional {
            all.push(no_nulls(wide, &column.name));
        }
        if let (ColumnKind::Enum(had), ColumnKind::Enum(has)) = (&column.kind, &now.kind)
            && had != has
        {
            all.push(only_values(wide, &column.name, had));
        }
    }
    all
}

/// The number of records that lose a value; `None` if the actions remove no values.
pub(super) async fn lost(
    session: &mut dyn SchemaSession,
    actions: &[Action],
    tables: &Tables,
    dialect: &dyn Dialect,
) -> Result<Option<u64>, Refusal> {
    let mut rows = None;
    for action in actions {
        let (sql, values) = match action {
            Action::DropTable { table } => (
                format!("SELECT count(*) FROM {}", dialect.quote(table)),
                Vec::new(),
            ),
            Action::DropColumn { table, column } => {
                let known = tables.get(table).and_then(|t| t.column(column));
                let name = dialect.quote(column);
                let table = dialect.quote(table);
                // A value that equals the default does not count as lost.
                match known {
                    Some(Column {
                        default: Some(default),
                        kind,
                        ..
                    }) => (
                        format!("SELECT count(*) FROM {table} WHERE {name} IS DISTINCT FROM $1"),
                        vec![(default.clone(), kind.clone())],
                    ),
                    _ => (
                        format!("SELECT count(*) FROM {table} WHERE {name} IS NOT NULL"),
                        Vec::new(),
                    ),
                }
            }
            _ => continue,
        };
        let found = session.query(&sql, &values, &[ColumnKind::Integer]).await?;
        let count = found
            .first()
            .and_then(|row| row.first())
            .and_then(Value::as_int);
        let count = count
            .and_then(|n| u64::try_from(n).ok())
            .unwrap_or_default();
        rows = Some(rows.unwrap_or_default() + count);
    }
    Ok(rows)
}
