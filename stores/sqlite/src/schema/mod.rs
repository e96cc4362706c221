//! Tables and indexes: created on the first start, compared on later starts.

mod compare;
mod declare;
mod sql;
#[cfg(test)]
mod tests;

use sqlx::{AssertSqlSafe, Row, SqliteConnection, SqlitePool};

use self::compare::{Object, State, compare};
use self::declare::{Declared, declare};
use super::render::quote;
use linchpin_core::entity::EntityDesc;
use linchpin_core::{Code, Error, Result};

/// Creates missing objects and compares existing ones. If anything differs, nothing is changed.
pub(super) async fn install(pool: &SqlitePool, entities: &[&'static EntityDesc]) -> Result<()> {
    let declared: Vec<(&EntityDesc, Declared)> =
        entities.iter().map(|e| (*e, declare(e))).collect();
    let mut connection = pool.acquire().await.map_err(Error::unavailable)?;
    // First without the write lock, which another process may hold.
    if !missing(&mut connection, &declared).await?.is_empty() {
        let mut transaction = sqlx::Connection::begin_with(&mut *connection, "BEGIN IMMEDIATE")
            .await
            .map_err(Error::unavailable)?;
        for declared in missing(&mut transaction, &declared).await? {
            for sql in
                std::iter::once(&declared.table).chain(declared.indexes.iter().map(|(_, sql)| sql))
            {
                // It consists of quoted names and fixed text only.
                sqlx::query(AssertSqlSafe(sql.as_str()))
                    .execute(&mut *transaction)
                    .await
                    .map_err(Error::internal)?;
            }
        }
        transaction.commit().await.map_err(Error::unavailable)?;
    }
    write_ahead(&mut connection).await
}

/// The declarations whose objects are all missing.
///
/// # Errors
/// If existing objects differ; the message contains every difference.
async fn missing<'d>(
    connection: &mut SqliteConnection,
    declared: &'d [(&EntityDesc, Declared)],
) -> Result<Vec<&'d Declared>> {
    let objects = objects(connection).await.map_err(Error::unavailable)?;
    let mut differences = Vec::new();
    let mut missing = Vec::new();
    for (entity, declared) in declared {
        let known = differences.len();
        match compare(entity, declared, &objects, &mut differences) {
            State::Missing => missing.push(declared),
            State::Present if differences.len() == known => {
                if let Err(error) = can_be_written(connection, entity).await {
                    differences.push(format!(
                        "  table {}: records cannot be written: {error}",
                        entity.storage_name
                    ));
                }
            }
            State::Present => {}
        }
    }
    if differences.is_empty() {
        return Ok(missing);
    }
    let text = format!(
        "the database differs from what is declared:\n{}\nhelp: until migrations exist, change the declaration back, alter the table by hand, or start with a new file",
        differences.join("\n")
    );
    Err(Error::new(Code::Internal, text))
}

async fn objects(connection: &mut SqliteConnection) -> sqlx::Result<Vec<Object>> {
    let rows = sqlx::query(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name",
    );
    let rows = rows.fetch_all(connection).await?;
    rows.iter()
        .map(|row| {
            Ok(Object {
                kind: row.try_get(0)?,
                name: row.try_get(1)?,
                table: row.try_get(2)?,
                sql: row.try_get(3)?,
            })
        })
        .collect()
}

/// Prepares an insert to check that writes are possible: an index from another source may need a
/// missing function or collation.
async fn can_be_written(
    connection: &mut SqliteConnection,
    entity: &EntityDesc,
) -> sqlx::Result<()> {
    let columns: Vec<String> = entity.fields.iter().map(|f| quote(f.column)).collect();
    let nulls = vec!["NULL"; columns.len()].join(", ");
    let sql = format!(
        "EXPLAIN INSERT INTO {} ({}) VALUES ({nulls})",
        quote(entity.storage_name),
        columns.join(", ")
    );
    sqlx::query(AssertSqlSafe(sql))
        .fetch_all(connection)
        .await
        .map(drop)
}

/// Enables the write-ahead log on a file from another source, after the check that its schema fits.
async fn write_ahead(connection: &mut SqliteConnection) -> Result<()> {
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode = WAL")
        .fetch_one(connection)
        .await
        .map_err(Error::unavailable)?;
    if mode.eq_ignore_ascii_case("wal") {
        return Ok(());
    }
    Err(Error::unavailable(
        "the file system of the database does not allow a write-ahead log",
    ))
}
