//! Sessions that read and change the schema, each on a separate connection.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, Row, Statement};

use linchpin_core::schema::{
    Action, Bound, ColumnKind, Dialect, Difference, Index, IndexState, Locator, Locking, RowCount,
    RowStatement, RowsWritten, SchemaError, SchemaSession, SchemaStore, Space, Table, Tables,
    TransactionMode,
};
use linchpin_core::{BoxFuture, Timestamp, Value};

use super::connect::{self, Reading};
use super::dialect::SqliteDialect;
use super::fault::{self, Outcome};
use super::{backup, compare, identity, lock, perform, rows, space};
use crate::outbox;

/// The default time limit of a wait for a lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum number of rows that is counted exactly. A greater number is estimated.
const MAX_COUNTED: u64 = 100_000;

/// The schema of a file.
#[derive(Debug)]
pub(crate) struct SqliteSchema {
    path: PathBuf,
    /// Whether a store of this process uses the file.
    shared: bool,
}

impl SqliteSchema {
    /// The schema of a file that a store of this process has open.
    pub(crate) fn shared(path: PathBuf) -> Self {
        Self { path, shared: true }
    }

    /// The schema of a file that may not exist. Reads do not create it.
    pub(crate) fn unshared(path: PathBuf) -> Self {
        Self {
            path,
            shared: false,
        }
    }

    pub(super) fn session(&self) -> Session {
        Session(Arc::new(Mutex::new(Inner {
            path: self.path.clone(),
            shared: self.shared,
            lock_timeout: LOCK_TIMEOUT,
            open: Open::Closed,
            alters: false,
        })))
    }
}

impl SchemaStore for SqliteSchema {
    fn dialect(&self) -> &'static dyn Dialect {
        &SqliteDialect
    }

    fn database(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        name.to_string_lossy().into_owned()
    }

    fn is_embedded(&self) -> bool {
        true
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn SchemaSession>, SchemaError>> {
        let session = self.session();
        Box::pin(async move { Ok(Box::new(session) as Box<dyn SchemaSession>) })
    }

    fn try_lock(&self) -> BoxFuture<'_, Result<Locking, SchemaError>> {
        let path = self.path.clone();
        Box::pin(async move { blocking(move || lock::take(&path)).await })
    }
}

/// Runs blocking work (disk, locks) on a thread that serves no requests.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Outcome<T> + Send + 'static,
) -> Outcome<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(fault::other(error)))
}

/// A session. The connection is opened when it is first needed, for reads or for writes. If a
/// caller stops waiting, its work still runs to its end, and the next call waits for it.
#[derive(Debug)]
pub(super) struct Session(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    shared: bool,
    lock_timeout: Duration,
    open: Open,
    /// Whether the transaction may have changed the schema.
    alters: bool,
}

#[derive(Debug)]
enum Open {
    Closed,
    Reading(Reading),
    Writing(Connection),
}

impl Inner {
    fn connection(&self) -> Option<&Connection> {
        match &self.open {
            Open::Closed => None,
            Open::Reading(reading) => Some(&reading.connection),
            Open::Writing(connection) => Some(connection),
        }
    }

    /// Runs a read. Without a transaction it reads the latest committed state.
    fn read<T>(&mut self, work: impl FnOnce(&Connection) -> Outcome<T>) -> Outcome<T> {
        let begun = self.connection().is_some();
        if !begun {
            self.open_for_reads()?;
        }
        let outcome = match &self.open {
            Open::Reading(reading) => {
                let outcome = work(&reading.connection);
                reading.check(&self.path).and(outcome)
            }
            Open::Writing(connection) => work(connection),
            Open::Closed => Err(closed()),
        };
        if !begun {
            self.open = Open::Closed;
        }
        outcome
    }

    /// Runs a write that may change the schema.
    fn write<T>(&mut self, work: impl FnOnce(&Connection) -> Outcome<T>) -> Outcome<T> {
        self.alters = true;
        self.write_rows(work)
    }

    /// Runs a write that does not change the schema.
    fn write_rows<T>(&mut self, work: impl FnOnce(&Connection) -> Outcome<T>) -> Outcome<T> {
        if let Open::Closed = self.open {
            self.open_for_writes()?;
        }
        self.connection().map_or_else(|| Err(closed()), work)
    }

    fn open_for_reads(&mut self) -> Outcome<()> {
        let reading = Reading::open(&self.path, self.shared, self.lock_timeout)?;
        self.open = Open::Reading(reading);
        Ok(())
    }

    fn open_for_writes(&mut self) -> Outcome<()> {
        self.open = Open::Closed;
        let connection = connect::open_for_writes(&self.path, self.shared, self.lock_timeout)?;
        self.open = Open::Writing(connection);
        Ok(())
    }

    fn begin(&mut self, mode: TransactionMode) -> Outcome<()> {
        let writes = mode == TransactionMode::Write;
        match (&self.open, mode) {
            (Open::Writing(_), _) => {}
            (_, TransactionMode::Write) => self.open_for_writes()?,
            (_, TransactionMode::Read) => self.open_for_reads()?,
        }
        let begin = |connection: &Connection| {
            connection.pragma_update(None, "query_only", !writes)?;
            if writes {
                return connection.execute_batch("BEGIN IMMEDIATE");
            }
            // The first read fixes the snapshot of the transaction.
            connection.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")
        };
        let begun = self.connection().map_or(Ok(()), begin).map_err(fault::of);
        if begun.is_err() {
            self.rollback();
        }
        begun
    }

    fn commit(&mut self) -> Outcome<()> {
        let commit = |connection: &Connection| connection.execute_batch("COMMIT");
        self.connection()
            .map_or_else(|| Err(closed()), |c| commit(c).map_err(fault::of))?;
        self.end();
        Ok(())
    }

    fn rollback(&mut self) {
        if let Some(connection) = self.connection()
            && !connection.is_autocommit()
        {
            // It fails only if the transaction has already ended.
            drop(connection.execute_batch("ROLLBACK"));
        }
        self.end();
    }

    /// Resets or closes the connection after a transaction.
    fn end(&mut self) {
        match &self.open {
            // SQLite may have cached a schema from within the transaction, so it must read the
            // schema again. This costs as much as a few hundred rows of a backfill, so it is not
            // done if the transaction changed only rows.
            Open::Writing(connection) => {
                let reset = if std::mem::take(&mut self.alters) {
                    "PRAGMA query_only = OFF; PRAGMA writable_schema = RESET"
                } else {
                    "PRAGMA query_only = OFF"
                };
                if connection.execute_batch(reset).is_err() {
                    self.open = Open::Closed;
                }
            }
            _ => self.open = Open::Closed,
        }
    }
}

/// Whether a statement certainly does not change the schema.
fn only_writes_rows(sql: &str) -> bool {
    let writes = ["INSERT INTO ", "UPDATE ", "DELETE FROM "];
    writes.iter().any(|word| sql.starts_with(word)) && !sql.contains("sqlite_schema")
}

fn closed() -> SchemaError {
    fault::other("no transaction is open")
}

impl Session {
    /// Runs work with the connection on a thread that serves no requests.
    fn work<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Inner) -> Outcome<T> + Send + 'a + 'static,
    ) -> BoxFuture<'a, Outcome<T>> {
        let inner = Arc::clone(&self.0);
        Box::pin(blocking(move || work(&mut inner.lock())))
    }
}

impl SchemaSession for Session {
    fn set_lock_timeout(&mut self, timeout: Duration) {
        let mut inner = self.0.lock();
        inner.lock_timeout = timeout;
        if let Some(connection) = inner.connection() {
            // This only sets a number of the connection, so it cannot fail.
            drop(connection.busy_timeout(timeout));
        }
    }

    fn begin(&mut self, mode: TransactionMode) -> BoxFuture<'_, Outcome<()>> {
        self.work(move |inner| inner.begin(mode))
    }

    fn commit(&mut self) -> BoxFuture<'_, Outcome<()>> {
        self.work(Inner::commit)
    }

    fn rollback(&mut self) -> BoxFuture<'_, ()> {
        let work = self.work(|inner| {
            inner.rollback();
            Ok(())
        });
        Box::pin(async move { drop(work.await) })
    }

    fn execute<'a>(&'a mut self, sql: &'a str, values: &'a [Bound]) -> BoxFuture<'a, Outcome<u64>> {
        let (sql, values) = (sql.to_owned(), values.to_vec());
        self.work(move |inner| {
            let work = |connection: &Connection| {
                let run = || {
                    let mut statement = connection.prepare(&sql)?;
                    bind(&mut statement, &values)?;
                    statement.raw_execute()
                };
                run().map(|rows| rows as u64).map_err(fault::of)
            };
            if only_writes_rows(&sql) {
                inner.write_rows(work)
            } else {
                inner.write(work)
            }
        })
    }

    fn query<'a>(
        &'a mut self,
        sql: &'a str,
        values: &'a [Bound],
        columns: &'a [ColumnKind],
    ) -> BoxFuture<'a, Outcome<Vec<Vec<Value>>>> {
        let (sql, values, columns) = (sql.to_owned(), values.to_vec(), columns.to_vec());
        self.work(move |inner| {
            inner.read(|connection| {
                let mut statement = connection.prepare(&sql).map_err(fault::of)?;
                bind(&mut statement, &values).map_err(fault::of)?;
                let (mut found, mut rows) = (statement.raw_query(), Vec::new());
                while let Some(row) = found.next().map_err(fault::of)? {
                    let cell = |(i, kind)| value(row, i, kind);
                    let cells = columns.iter().enumerate().map(cell);
                    rows.push(cells.collect::<Outcome<_>>()?);
                }
                Ok(rows)
            })
        })
    }

    fn write_rows<'a>(
        &'a mut self,
        statement: &'a RowStatement,
        rows: Vec<Vec<Value>>,
    ) -> BoxFuture<'a, Outcome<RowsWritten>> {
        let sql = statement.one.clone();
        self.work(move |inner| inner.write_rows(|connection| rows::write(connection, &sql, rows)))
    }

    fn perform<'a>(
        &'a mut self,
        action: &'a Action,
        tables: &'a Tables,
    ) -> BoxFuture<'a, Outcome<()>> {
        let (action, tables) = (action.clone(), tables.clone());
        self.work(move |inner| inner.write(|c| perform::perform(c, &action, &tables)))
    }

    fn create_system(&mut self) -> BoxFuture<'_, Outcome<()>> {
        self.work(|inner| {
            inner.write(|connection| {
                let statements = outbox::TABLES.join(";");
                connection.execute_batch(&statements).map_err(fault::of)
            })
        })
    }

    fn system_tables(&self) -> &'static [&'static str] {
        &outbox::NAMES
    }

    fn compare<'a>(
        &'a mut self,
        expected: &'a [&'a Table],
    ) -> BoxFuture<'a, Outcome<Vec<Difference>>> {
        let expected: Vec<Table> = expected.iter().map(|table| (*table).clone()).collect();
        self.work(move |inner| inner.read(|c| compare::compare(c, &expected)))
    }

    fn index_state<'a>(&'a mut self, index: &'a Index) -> BoxFuture<'a, Outcome<IndexState>> {
        let name = index.name.clone();
        self.work(move |inner| {
            inner.read(|connection| {
                let sql = "SELECT count(*) FROM sqlite_schema \
                           WHERE type = 'index' AND name = ?1 COLLATE NOCASE";
                let found = connection.query_row(sql, [name], |row| row.get::<_, i64>(0));
                // SQLite rolls back an interrupted build, so no invalid index exists.
                Ok(match found.map_err(fault::of)? {
                    0 => IndexState::Absent,
                    _ => IndexState::Valid,
                })
            })
        })
    }

    fn tables(&mut self) -> BoxFuture<'_, Outcome<Vec<String>>> {
        self.work(|inner| {
            inner.read(|connection| {
                let sql = "SELECT name FROM sqlite_schema \
                           WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
                           ORDER BY name";
                texts(connection, sql, &[]).map_err(fault::of)
            })
        })
    }

    fn count<'a>(&'a mut self, table: &'a str) -> BoxFuture<'a, Outcome<RowCount>> {
        let table = table.to_owned();
        self.work(move |inner| inner.read(|c| count(c, &table).map_err(fault::of)))
    }

    fn locator(&mut self) -> BoxFuture<'_, Outcome<Locator>> {
        self.work(|inner| identity::locator(&inner.path))
    }

    fn back_up(&mut self, seq: u64) -> BoxFuture<'_, Outcome<Option<String>>> {
        self.work(move |inner| {
            let path = inner.path.clone();
            inner.write(|connection| backup::back_up(connection, &path, seq))
        })
    }

    fn space<'a>(&'a mut self, table: &'a str) -> BoxFuture<'a, Outcome<Option<Space>>> {
        let table = table.to_owned();
        self.work(move |inner| {
            let path = inner.path.clone();
            inner.read(|connection| Ok(space::of(connection, &path, &table)))
        })
    }

    fn now(&mut self) -> BoxFuture<'_, Outcome<Timestamp>> {
        // The clock of the database is the one of this machine.
        Box::pin(async { Ok(Timestamp::system_now()) })
    }
}

/// Returns the first column of each row.
pub(super) fn texts(
    connection: &Connection,
    sql: &str,
    values: &[&str],
) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map(rusqlite::params_from_iter(values), |row| row.get(0))?;
    rows.collect()
}

/// Binds `$1`, `$2` and so on. Parameters that the statement does not use are left out.
fn bind(statement: &mut Statement<'_>, values: &[Bound]) -> rusqlite::Result<()> {
    for (number, (value, _)) in (1..).zip(values) {
        if let Some(index) = statement.parameter_index(&format!("${number}"))? {
            statement.raw_bind_parameter(index, crate::bind::Bound(value))?;
        }
    }
    Ok(())
}

fn value(row: &Row<'_>, index: usize, kind: &ColumnKind) -> Outcome<Value> {
    use rusqlite::types::ValueRef as Sql;
    let wrong = || fault::other(format_args!("column {} has another type", index + 1));
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| wrong());
    Ok(match (kind, row.get_ref(index).map_err(fault::of)?) {
        (_, Sql::Null) => Value::Null,
        (ColumnKind::String | ColumnKind::Enum(_), Sql::Text(t)) => Value::Text(text(t)?),
        (ColumnKind::Json, Sql::Text(t)) => Value::Json(text(t)?),
        (ColumnKind::StringArray, Sql::Text(t)) => {
            Value::Strings(serde_json::from_slice(t).map_err(|_| wrong())?)
        }
        (ColumnKind::Boolean, Sql::Integer(i @ (0 | 1))) => Value::Bool(i == 1),
        (ColumnKind::Integer, Sql::Integer(i)) => Value::Int(i),
        (ColumnKind::Number, Sql::Integer(i)) => Value::Float(i as f64),
        (ColumnKind::Number, Sql::Real(f)) => Value::Float(f),
        (ColumnKind::Date, Sql::Integer(i)) => Value::Date(Timestamp::from_millis(i)),
        _ => return Err(wrong()),
    })
}

fn count(connection: &Connection, table: &str) -> rusqlite::Result<RowCount> {
    let quoted = crate::render::quote(table);
    let sql = format!(
        "SELECT count(*) FROM (SELECT 1 FROM {quoted} LIMIT {})",
        MAX_COUNTED + 1
    );
    let counted = connection.query_row(&sql, [], |row| row.get::<_, i64>(0))?;
    let counted = u64::try_from(counted).unwrap_or_default();
    if counted <= MAX_COUNTED {
        return Ok(RowCount::Exact(counted));
    }
    // The table `sqlite_stat1` exists only after `ANALYZE`. The first number of a statistic is the
    // number of rows.
    let there = "SELECT name FROM sqlite_schema WHERE name = 'sqlite_stat1'";
    if texts(connection, there, &[])?.is_empty() {
        return Ok(RowCount::Unknown);
    }
    let sql = "SELECT stat FROM sqlite_stat1 WHERE tbl = ?1 COLLATE NOCASE";
    let stats = texts(connection, sql, &[table])?;
    let rows = stats
        .iter()
        .filter_map(|stat| stat.split(' ').next()?.parse().ok());
    Ok(rows.max().map_or(RowCount::Unknown, RowCount::Estimate))
}
