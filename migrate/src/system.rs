//! The tables of the framework: the ledger, the outbox, idempotency keys, the audit log. They are
//! not part of snapshots. They have a separate version, and a later version only adds tables,
//! columns and indexes.

use linchpin_core::schema::{
    Action, Column, Dialect, DifferenceCode, SchemaError, SchemaFault, SchemaSession, Table,
    Tables, creation,
};

pub(crate) use crate::ledger::SYSTEM as VERSION;

/// Creates missing tables, columns and indexes of the framework. The caller has begun a
/// transaction.
///
/// # Errors
/// A fault of the database; [`SchemaFault::Drift`] if an existing table differs in another way.
pub(crate) async fn expand(
    session: &mut dyn SchemaSession,
    dialect: &dyn Dialect,
    tables: &[Table],
) -> Result<(), SchemaError> {
    session.create_system().await?;
    let expected: Vec<&Table> = tables.iter().collect();
    let differences = session.compare(&expected).await?;
    let mut model: Tables = Tables::new();
    for table in tables {
        let of_table = || differences.iter().filter(|d| d.table == table.name);
        let mut actions = Vec::new();
        if of_table().any(|d| d.code == DifferenceCode::MissingTable && d.found.is_empty()) {
            actions = creation(table, dialect);
        } else {
            model.insert(table.name.clone(), table.clone());
            // Columns first, because an index may read a new column.
            for column in of_table().filter(|d| d.code == DifferenceCode::MissingColumn) {
                let column = column.object.as_deref().and_then(|name| table.column(name));
                actions.extend(column.map(|column| add_column(&table.name, column)));
            }
            for index in of_table().filter(|d| d.code == DifferenceCode::MissingIndex) {
                let index = index.object.as_deref().and_then(|name| table.index(name));
                actions.extend(index.map(|index| Action::CreateIndex {
                    table: table.name.clone(),
                    index: index.clone(),
                    concurrently: false,
                }));
            }
        }
        for action in actions {
            session.perform(&action, &model).await?;
            action.apply(&mut model);
        }
    }
    let rest = session.compare(&expected).await?;
    match rest.iter().find(|d| !d.code.is_harmless()) {
        None => Ok(()),
        Some(difference) => Err(SchemaError::new(
            SchemaFault::Drift,
            format!("a table of the framework differs from the expected one: {difference}"),
        )),
    }
}

fn add_column(table: &str, column: &Column) -> Action {
    Action::AddColumn {
        table: table.to_owned(),
        column: column.clone(),
    }
}
