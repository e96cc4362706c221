//! Runs the SQL of custom operations on the pool.

use std::any::Any;
use std::sync::Arc;

use linchpin_core::entity::{EntityDesc, Kind};
use linchpin_core::store::{
    SqlAnswer, SqlColumns, SqlDriver, SqlQuery, SqlRow, SqlSession, SqlTransaction,
};
use linchpin_core::{BoxFuture, Error, Result, Value};
use linchpin_sql::names::{Naming, PresentNames};
use linchpin_sql::statement::{self, Rendered, Spelling};

use super::conversation::{arguments, condition, failed, read};
use super::error::missing;
use super::render::name_only;

/// Runs the statements on the pool.
pub(super) struct Driver {
    pub(super) pool: sqlx::SqlitePool,
    pub(super) names: Arc<PresentNames>,
}

fn spelling(naming: &Naming) -> Spelling<'_> {
    Spelling {
        naming,
        quote: name_only,
    }
}

/// Renders a statement with the current names of the database.
fn render(query: SqlQuery, naming: &Naming) -> Result<Rendered> {
    let condition = |entity, filter: &_, before| condition(entity, filter, naming, before);
    statement::render(query, spelling(naming), condition)
}

/// Whether a statement failed because a table or a column does not exist.
fn is_missing(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|e| e.downcast_ref::<sqlx::Error>());
    matches!(cause, Some(sqlx::Error::Database(db)) if missing(db.message()).is_some())
}

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

/// Runs a statement on the pool, or on the connection of a transaction. With `rows` it returns the
/// rows, otherwise the number of changed rows.
async fn run<'c>(
    on: impl sqlx::SqliteExecutor<'c>,
    entity: &'static EntityDesc,
    naming: &Naming,
    (text, values): Rendered,
    rows: bool,
) -> Result<SqlAnswer> {
    let statement = sqlx::query_with(sqlx::AssertSqlSafe(text), arguments(values)?);
    let failed = |error| failed(naming, entity, error);
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
    // The transaction takes the write lock at its start. A later statement then cannot fail because
    // it does not get the lock.
    fn begin(&self, entity: &'static EntityDesc) -> BoxFuture<'_, Result<SqlTransaction>> {
        Box::pin(async move {
            let open = self
                .pool
                .begin_with("BEGIN IMMEDIATE")
                .await
                .map_err(|e| failed(&self.names.naming(), entity, e))?;
            Ok(SqlTransaction::new(Session(open)))
        })
    }

    fn check<'a>(
        &'a self,
        entity: &'static EntityDesc,
        text: &'static str,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            statement::refuse_unnumbered(text)?;
            let naming = self.names.naming();
            let condition = |entity, filter: &_, before| condition(entity, filter, &naming, before);
            let text = statement::checked(entity, text, spelling(&naming), condition)?;
            sqlx::Executor::prepare(
                &self.pool,
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
            statement::refuse_unnumbered(query.text)?;
            let (entity, naming) = (query.entity, self.names.naming());
            let Some(open) = within else {
                let again = self.names.is_watched().then(|| query.clone());
                let rendered = render(query, &naming)?;
                let error = match run(&self.pool, entity, &naming, rendered, rows).await {
                    Err(error) if is_missing(&error) => error,
                    outcome => return outcome,
                };
                let changed = self.names.refreshed(naming.generation()).await?;
                let Some(query) = again.filter(|_| changed) else {
                    return Err(error);
                };
                let naming = self.names.naming();
                let rendered = render(query, &naming)?;
                return run(&self.pool, entity, &naming, rendered, rows).await;
            };
            let rendered = render(query, &naming)?;
            let open: &mut Session = open.session()?;
            match run(&mut *open.0, entity, &naming, rendered, rows).await {
                Err(error) if is_missing(&error) => {
                    let generation = naming.generation();
                    Err(self.names.within_transaction(error, generation).await)
                }
                outcome => outcome,
            }
        })
    }
}
