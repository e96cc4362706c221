//! The creation of tables, without a plan and without a ledger.

use super::Store;
use crate::Result;
use crate::entity::EntityDesc;
use crate::schema::{
    Dialect, SchemaError, SchemaSession, Snapshot, Tables, TransactionMode, creation,
};

/// Creates the missing tables of these entities and of the framework, in one transaction. Existing
/// tables are not compared, and no ledger is written: an app that starts on such a database treats
/// it as created without migrations. Use it for tests and measurements of a store without an app.
///
/// For a store without a [schema](Store::schema), which needs no tables, this does nothing.
///
/// # Errors
/// Any fault of the database. Then nothing is created.
pub async fn create_tables(store: &dyn Store, entities: &[&'static EntityDesc]) -> Result<()> {
    let Some(schema) = store.schema() else {
        return Ok(());
    };
    let mut session = schema.connect().await?;
    session.begin(TransactionMode::Write).await?;
    let tables = Snapshot::of(entities.iter().copied()).tables();
    let created = create_missing(&mut *session, schema.dialect(), &tables).await;
    match created {
        Ok(()) => Ok(session.commit().await?),
        Err(error) => {
            session.rollback().await;
            Err(error.into())
        }
    }
}

async fn create_missing(
    session: &mut dyn SchemaSession,
    dialect: &dyn Dialect,
    tables: &Tables,
) -> Result<(), SchemaError> {
    session.create_system().await?;
    let present = session.tables().await?;
    let mut model = Tables::new();
    for table in tables.values().filter(|t| !present.contains(&t.name)) {
        for action in creation(table, dialect) {
            session.perform(&action, &model).await?;
            action.apply(&mut model);
        }
    }
    Ok(())
}
