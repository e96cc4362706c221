//! A session that reads and changes the schema, on a separate connection.

use std::time::Duration;

use linchpin_core::schema::{
    Action, Bound, ColumnKind, Dialect, Difference, Index, IndexState, Locator, RowCount,
    RowStatement, RowsWritten, SchemaError, SchemaFault, SchemaSession, Table, Tables,
    TransactionMode,
};
use linchpin_core::{BoxFuture, Timestamp, Value};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Row};

use super::dialect::PostgresDialect;
use super::store::{Schema, one};
use super::value::{bind, cell};
use super::{catalog, compare, concurrent, fault, folding};
use crate::outbox;
use crate::render::quote;

type Result<T> = std::result::Result<T, SchemaError>;

/// The default of [`SchemaSession::set_lock_timeout`].
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// The default of [`SchemaSession::set_index_wait`].
const INDEX_WAIT: Duration = Duration::from_mins(10);
/// The maximum number of rows that is counted exactly. A greater number is estimated.
const MAX_COUNTED: i64 = 100_000;

/// A session.
pub(crate) struct Session {
    /// Opens further connections, which watch index builds.
    pub(super) schema: Schema,
    pub(super) connection: PgConnection,
    pub(super) lock_timeout: Duration,
    pub(super) index_wait: Duration,
    /// The lock timeout that is set on the connection for statements outside a transaction.
    pub(super) applied: Option<Duration>,
    /// Whether a transaction is open.
    open: bool,
}

impl Session {
    pub(super) fn new(schema: Schema, connection: PgConnection) -> Self {
        Self {
            schema,
            connection,
            lock_timeout: LOCK_TIMEOUT,
            index_wait: INDEX_WAIT,
            applied: None,
            open: false,
        }
    }

    /// Runs a text without parameters.
    pub(super) async fn run(&mut self, sql: &str) -> Result<()> {
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut self.connection)
            .await
            .map(drop)
            .map_err(fault::of)
    }

    pub(super) async fn begin(&mut self, mode: TransactionMode) -> Result<()> {
        if self.open {
            return Err(SchemaError::new(
                SchemaFault::Other,
                "a transaction is open already",
            ));
        }
        let kind = match mode {
            TransactionMode::Read => "ISOLATION LEVEL REPEATABLE READ READ ONLY",
            TransactionMode::Write => "ISOLATION LEVEL READ COMMITTED READ WRITE",
        };
        let timeout = self.lock_timeout.as_millis();
        self.open = true;
        let begun = self
            .run(&format!("BEGIN {kind}; SET LOCAL lock_timeout = {timeout}"))
            .await;
        if begun.is_err() {
            self.rollback().await;
        }
        begun
    }

    pub(super) async fn commit(&mut self) -> Result<()> {
        // After a failed statement the server answers COMMIT with a rollback, without an error.
        // `SELECT 1` fails in this case.
        let committed = self.run("SELECT 1; COMMIT").await;
        if committed.is_err() {
            self.rollback().await;
        }
        self.open = false;
        committed
    }

    pub(super) async fn rollback(&mut self) {
        if self.open {
            // The server also rolls back when the connection ends.
            drop(self.run("ROLLBACK").await);
            self.open = false;
        }
    }

    /// Sets the lock timeout for a statement outside a transaction.
    pub(super) async fn apply_lock_timeout(&mut self) -> Result<()> {
        if !self.open && self.applied != Some(self.lock_timeout) {
            let timeout = self.lock_timeout;
            self.run(&format!("SET lock_timeout = {}", timeout.as_millis()))
                .await?;
            self.applied = Some(timeout);
        }
        Ok(())
    }

    pub(super) async fn execute(&mut self, sql: &str, values: &[Bound]) -> Result<u64> {
        self.apply_lock_timeout().await?;
        sqlx::query_with(AssertSqlSafe(sql), bind(values)?)
            .execute(&mut self.connection)
            .await
            .map(|done| done.rows_affected())
            .map_err(fault::of)
    }

    async fn query(
        &mut self,
        sql: &str,
        values: &[Bound],
        columns: &[ColumnKind],
    ) -> Result<Vec<Vec<Value>>> {
        self.apply_lock_timeout().await?;
        // The statement is prepared again each time, because the types of its columns may have
        // changed.
        let rows = sqlx::query_with(AssertSqlSafe(sql), bind(values)?)
            .persistent(false)
            .fetch_all(&mut self.connection)
            .await
            .map_err(fault::of)?;
        let row = |row: &PgRow| {
            columns
                .iter()
                .enumerate()
                .map(|(at, kind)| cell(row, at, kind))
                .collect()
        };
        rows.iter().map(row).collect()
    }

    pub(super) async fn perform(&mut self, action: &Action, tables: &Tables) -> Result<()> {
        let dialect = PostgresDialect;
        if let Action::Rebuild { .. } = action {
            return Err(SchemaError::new(
                SchemaFault::Unsupported,
                "Postgres alters tables in place and does not rebuild them",
            ));
        }
        let statements = dialect.statements(action, tables);
        if let Action::AddColumn { table, column } = action
            && !dialect.is_transactional(action)
            && !self.open
        {
            return self.add_column(table, &column.name, &statements).await;
        }
        if let Action::CreateIndex { .. } | Action::DropIndex { .. } = action
            && !dialect.is_transactional(action)
        {
            return self.perform_alone(action, &statements, tables).await;
        }
        let own_transaction = !self.open;
        if own_transaction {
            self.begin(TransactionMode::Write).await?;
        }
        for sql in &statements {
            if let Err(error) = self.run(sql).await {
                if own_transaction {
                    self.rollback().await;
                }
                return Err(error);
            }
        }
        if own_transaction {
            self.commit().await
        } else {
            Ok(())
        }
    }

    /// Adds a column with a check. Each statement is a separate transaction. A column that was
    /// added before a crash is not added again.
    async fn add_column(&mut self, table: &str, column: &str, statements: &[String]) -> Result<()> {
        let sql = "SELECT EXISTS (SELECT FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid \
             JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = current_schema() \
             WHERE c.relname = $1 AND a.attname = $2 AND NOT a.attisdropped)";
        let exists: bool = sqlx::query_scalar(sql)
            .persistent(false)
            .bind(table)
            .bind(column)
            .fetch_one(&mut self.connection)
            .await
            .map_err(fault::of)?;
        for sql in statements.iter().skip(usize::from(exists)) {
            self.apply_lock_timeout().await?;
            self.run(sql).await?;
        }
        Ok(())
    }

    /// Performs an action that the server refuses within a transaction.
    async fn perform_alone(
        &mut self,
        action: &Action,
        statements: &[String],
        tables: &Tables,
    ) -> Result<()> {
        if self.open {
            return Err(SchemaError::new(
                SchemaFault::Other,
                "an index cannot be built or dropped concurrently within a transaction",
            ));
        }
        let (Action::CreateIndex {
            index: Index { name, .. },
            ..
        }
        | Action::DropIndex { index: name, .. }) = action
        else {
            return Ok(());
        };
        let creates = matches!(action, Action::CreateIndex { .. });
        match (self.index_state(name).await?, creates) {
            (IndexState::Absent, false) => return Ok(()),
            (IndexState::Valid, true) => return self.check_definition(action, tables, name).await,
            _ => {}
        }
        for sql in statements {
            if creates {
                concurrent::create(self, name, sql).await?;
            } else {
                concurrent::drop(self, sql).await?;
            }
        }
        Ok(())
    }

    /// Checks that the definition of an existing index is the expected one.
    async fn check_definition(
        &mut self,
        action: &Action,
        tables: &Tables,
        name: &str,
    ) -> Result<()> {
        let mut after = tables.clone();
        action.apply(&mut after);
        let Some(table) = after.get(action.table()) else {
            return Ok(());
        };
        let differences = self.compare(&[table]).await?;
        let other = differences
            .iter()
            .find(|difference| difference.object.as_deref() == Some(name));
        match other {
            None => Ok(()),
            Some(Difference { found, .. }) => Err(SchemaError::new(
                SchemaFault::Other,
                format!("an index `{name}` already exists with another definition: {found}"),
            )),
        }
    }

    pub(super) async fn compare(&mut self, expected: &[&Table]) -> Result<Vec<Difference>> {
        let own_transaction = !self.open;
        if own_transaction {
            self.begin(TransactionMode::Read).await?;
        }
        let names = expected.iter().map(|table| table.name.clone()).collect();
        let found = catalog::read(&mut self.connection, names)
            .await
            .map_err(fault::of);
        if own_transaction {
            self.rollback().await;
        }
        Ok(compare::differences(expected, &found?))
    }

    pub(super) async fn index_state(&mut self, name: &str) -> Result<IndexState> {
        let sql = "SELECT i.indisvalid FROM pg_class c \
             JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = current_schema() \
             JOIN pg_index i ON i.indexrelid = c.oid WHERE c.relname = $1";
        let valid: Option<bool> = sqlx::query_scalar(sql)
            .persistent(false)
            .bind(name)
            .fetch_optional(&mut self.connection)
            .await
            .map_err(fault::of)?;
        Ok(match valid {
            None => IndexState::Absent,
            Some(false) => IndexState::Invalid,
            Some(true) => IndexState::Valid,
        })
    }

    async fn names(&mut self) -> sqlx::Result<Vec<String>> {
        let sql = "SELECT c.relname::text FROM pg_class c \
             JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = current_schema() \
             WHERE c.relkind IN ('r', 'p') ORDER BY c.relname";
        let rows = sqlx::raw_sql(sql).fetch_all(&mut self.connection).await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    }

    async fn rows_of(&mut self, table: &str) -> Result<RowCount> {
        self.apply_lock_timeout().await?;
        let rows = format!(
            "SELECT count(*) FROM (SELECT 1 FROM {} LIMIT {}) AS counted",
            quote(table),
            MAX_COUNTED + 1
        );
        let count: i64 = sqlx::query_scalar(AssertSqlSafe(rows))
            .persistent(false)
            .fetch_one(&mut self.connection)
            .await
            .map_err(fault::of)?;
        if count <= MAX_COUNTED {
            return Ok(RowCount::Exact(u64::try_from(count).unwrap_or_default()));
        }
        let estimate = "SELECT c.reltuples::int8 FROM pg_class c \
             JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = current_schema() \
             WHERE c.relname = $1";
        let estimate: i64 = sqlx::query_scalar(estimate)
            .persistent(false)
            .bind(table)
            .fetch_one(&mut self.connection)
            .await
            .map_err(fault::of)?;
        // Before the first `ANALYZE` the value is -1, or 0 in version 13.
        Ok(if estimate <= 0 {
            RowCount::Unknown
        } else {
            RowCount::Estimate(u64::try_from(estimate.max(count)).unwrap_or_default())
        })
    }

    async fn facts(&mut self) -> sqlx::Result<Locator> {
        let connection = &mut self.connection;
        let row = one(
            connection,
            "SELECT d.oid::text, d.datname::text, current_schema()::text, coalesce( \
             has_function_privilege(to_regprocedure('pg_catalog.pg_control_system()'), 'EXECUTE'), \
             false) FROM pg_database d WHERE d.datname = current_database()",
        )
        .await?;
        let mut facts = Locator::new();
        for (at, name) in ["databaseOid", "database", "schema"]
            .into_iter()
            .enumerate()
        {
            if let Some(text) = row.try_get(at)? {
                facts.insert(name.to_owned(), text);
            }
        }
        if row.try_get(3)? {
            let sql = "SELECT system_identifier::text FROM pg_control_system()";
            let cluster = one(connection, sql).await?.try_get(0)?;
            facts.insert("cluster".to_owned(), cluster);
        }
        Ok(facts)
    }
}

impl SchemaSession for Session {
    fn set_lock_timeout(&mut self, timeout: Duration) {
        self.lock_timeout = timeout;
    }

    fn set_index_wait(&mut self, wait: Duration) {
        self.index_wait = wait;
    }

    fn begin(&mut self, mode: TransactionMode) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.begin(mode))
    }

    fn commit(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.commit())
    }

    fn rollback(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.rollback())
    }

    fn execute<'a>(&'a mut self, sql: &'a str, values: &'a [Bound]) -> BoxFuture<'a, Result<u64>> {
        Box::pin(self.execute(sql, values))
    }

    fn query<'a>(
        &'a mut self,
        sql: &'a str,
        values: &'a [Bound],
        columns: &'a [ColumnKind],
    ) -> BoxFuture<'a, Result<Vec<Vec<Value>>>> {
        Box::pin(self.query(sql, values, columns))
    }

    fn write_rows<'a>(
        &'a mut self,
        statement: &'a RowStatement,
        rows: Vec<Vec<Value>>,
    ) -> BoxFuture<'a, Result<RowsWritten>> {
        Box::pin(self.write_rows(statement, rows))
    }

    fn perform<'a>(
        &'a mut self,
        action: &'a Action,
        tables: &'a Tables,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.perform(action, tables))
    }

    fn compare<'a>(
        &'a mut self,
        expected: &'a [&'a Table],
    ) -> BoxFuture<'a, Result<Vec<Difference>>> {
        Box::pin(self.compare(expected))
    }

    fn index_state<'a>(&'a mut self, index: &'a Index) -> BoxFuture<'a, Result<IndexState>> {
        Box::pin(self.index_state(&index.name))
    }

    fn tables(&mut self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(async move { self.names().await.map_err(fault::of) })
    }

    fn count<'a>(&'a mut self, table: &'a str) -> BoxFuture<'a, Result<RowCount>> {
        Box::pin(self.rows_of(table))
    }

    fn locator(&mut self) -> BoxFuture<'_, Result<Locator>> {
        Box::pin(async move { self.facts().await.map_err(fault::of) })
    }

    fn create_system(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let all = async {
                folding::create(&mut self.connection).await?;
                for table in outbox::TABLES {
                    sqlx::query(table).execute(&mut self.connection).await?;
                }
                Ok(())
            };
            all.await.map_err(fault::of)
        })
    }

    fn replica_lag(&mut self) -> BoxFuture<'_, Result<Option<Duration>>> {
        Box::pin(async move {
            // The value is null without replicas, and for a role without the privilege to read
            // them.
            let sql = "SELECT (extract(epoch FROM max(replay_lag)) * 1000)::int8 \
                       FROM pg_stat_replication";
            let rows = self.query(sql, &[], &[ColumnKind::Integer]).await?;
            let millis = rows.first().and_then(|row| row.first());
            let millis = millis.and_then(Value::as_int);
            let millis = millis.and_then(|millis| u64::try_from(millis).ok());
            Ok(millis.map(Duration::from_millis))
        })
    }

    fn system_tables(&self) -> &'static [&'static str] {
        &outbox::NAMES
    }

    fn now(&mut self) -> BoxFuture<'_, Result<Timestamp>> {
        Box::pin(async move {
            let rows = self
                .query("SELECT clock_timestamp()", &[], &[ColumnKind::Date])
                .await?;
            match rows.first().and_then(|row| row.first()) {
                Some(Value::Date(now)) => Ok(*now),
                _ => Err(SchemaError::new(
                    SchemaFault::Other,
                    "the server's clock is beyond the year 9999",
                )),
            }
        })
    }
}
