//! SQL of functions of custom operations, on the pool.

use std::any::Any;

use linchpin_core::entity::{EntityDesc, Kind};
use linchpin_core::store::{
    SqlAnswer, SqlColumns, SqlDriver, SqlQuery, SqlRow, SqlSession, SqlTransaction,
};
use linchpin_core::{BoxFuture, Error, Result, Value};
use linchpin_sql::statement;

use super::conversation::{arguments, condition, failed, read};

/// Runs the statements on the pool.
pub(super) struct Driver(pub(super) sqlx::SqlitePool);

#[derive(Debug)]
struct Columns(sqlx::sqlite::SqliteRow);

impl SqlColumns for Columns {
    fn value(&self, column: &str, kind: Kind) -> Result<Value> {
        read(&self.0, column, kind)
    }
}

#[derive(Debug)]
struct Session(sqlx::Transaction<'static, sqlx::Sqlite>);

impl SqlSession for Session {
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { self.0.commit().await.map_err(Error::unavailable) })
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Runs a statement on the pool, or on the connection of a transaction.
async fn run<'c>(
    on: impl sqlx::SqliteExecutor<'c>,
    entity: &'static EntityDesc,
    (text, values): (String, Vec<(Value, Kind)>),
    rows: bool,
) -> Result<SqlAnswer> {
    let statement = sqlx::query_with(sqlx::AssertSqlSafe(text), arguments(values)?);
    let failed = |error| failed(entity, error);
    if rows {
        let rows = statement.fetch_all(on).await.map_err(failed)?;
        let rows = rows.into_iter().map(|row| SqlRow::new(Columns(row)));
        Ok(SqlAnswer::Rows(rows.collect()))
    } else {
        let done = statement.execute(on).await.map_err(failed)?;
        Ok(SqlAnswer::Count(done.rows_affected()))
    }
}

impl SqlDriver for Driver {
    // It takes the write lock at the start, so it cannot fail in the middle for lack of it.
    fn begin(&self, entity: &'static EntityDesc) -> BoxFuture<'_, Result<SqlTransaction>> {
        Box::pin(async move {
            let open = self
                .0
                .begin_with("BEGIN IMMEDIATE")
                .await
                .map_err(|e| failed(entity, e))?;
            Ok(SqlTransaction::new(Session(open)))
        })
    }

    fn check<'a>(
        &'a self,
        entity: &'static EntityDesc,
        text: &'static str,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            statement::numbered(text)?;
            let text = statement::checked(entity, text, condition)?;
            sqlx::Executor::prepare(
                &self.0,
                sqlx::SqlSafeStr::into_sql_str(sqlx::AssertSqlSafe(text)),
            )
            .await
            .map(drop)
            .map_err(Error::internal)
        })
    }

    fn run<'a>(
        &'a self,
        query: SqlQuery,
        within: Option<&'a mut SqlTransaction>,
        rows: bool,
    ) -> BoxFuture<'a, Result<SqlAnswer>> {
        Box::pin(async move {
            statement::numbered(query.text)?;
            let entity = query.entity;
            let rendered = statement::render(query, condition)?;
            match within {
                None => run(&self.0, entity, rendered, rows).await,
                Some(open) => {
                    let open: &mut Session = open.session()?;
                    run(&mut *open.0, entity, rendered, rows).await
                }
            }
        })
    }
}
