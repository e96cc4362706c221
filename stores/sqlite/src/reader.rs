//! Short reads run inline: on a connection of the calling thread.
//!
//! A short read takes less time than a switch to another thread. A read that may examine any number
//! of rows uses the [`Pool`] instead, so that it cannot block the threads that serve requests.
//! Unless recent attempts were interrupted, such a read is first [attempted on the calling
//! thread](super::short_reads).

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags};

use super::aggregate::Computed;
use super::names::repeat;
use super::pool::Pool;
use super::render::{Native, Runs};
use super::row::SqliteRow;
use super::{bind, error, short_reads};
use linchpin_core::entity::EntityDesc;
use linchpin_core::filter::eval::contains_folded;
use linchpin_core::store::{Reply, Rows, Statement};
use linchpin_core::{Error, Result, Value};
use linchpin_sql::access;
use linchpin_sql::names::PresentNames;

/// The number of cached statements per connection.
const CACHED: usize = 512;
/// The maximum number of rows read inline; each takes less than a microsecond.
const MAX_INLINE_ROWS: i64 = 500;
/// An inline read waits at most this long for a lock. With a write-ahead log, a read waits only
/// while another process recovers the file.
const INLINE_BUSY_TIMEOUT: Duration = Duration::from_millis(50);

/// The id of the next store.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The connections of this thread, each with the id of its store and a weak reference, which is
    /// dead after the store is dropped.
    static CONNECTIONS: RefCell<Vec<(u64, Weak<()>, Connection)>> = const { RefCell::new(Vec::new()) };
}

/// The read side of a store.
pub(super) struct Readers {
    id: u64,
    path: PathBuf,
    /// It exists as long as the store. After that, the threads close their connections.
    alive: Arc<()>,
    closed: AtomicBool,
    pub(super) pool: Arc<Pool>,
    names: Arc<PresentNames>,
}

impl std::fmt::Debug for Readers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Readers")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Readers {
    pub(super) fn new(path: PathBuf, pool: Pool, names: Arc<PresentNames>) -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Self {
            id,
            path,
            alive: Arc::new(()),
            closed: AtomicBool::new(false),
            pool: Arc::new(pool),
            names,
        }
    }

    /// Runs a read on this thread if it is short, else on another thread.
    pub(super) fn run<'a>(
        &'a self,
        statement: &'a Arc<Statement>,
        native: &Native,
        args: Vec<Value>,
        mut rows: Rows,
    ) -> Reply<'a> {
        let inline = match &native.runs {
            Runs::Inline => Ok(true),
            Runs::Limited(limit) => access::rows(limit, &args).map(|rows| rows <= MAX_INLINE_ROWS),
            Runs::Keyed { values, limit } => {
                access::keyed(*values, limit.as_ref(), &args).map(|rows| rows <= MAX_INLINE_ROWS)
            }
            Runs::InPool | Runs::Writer => Ok(false),
        };
        match inline {
            Ok(true) => {
                let read =
                    |connection: &_| read(connection, statement.entity, native, &args, &mut rows);
                match self.with_connection(read).flatten() {
                    Ok(()) => Reply::Ready(Ok(rows)),
                    Err(error) => self.failed(error, statement, native, args, rows),
                }
            }
            Ok(false) if self.closed.load(Ordering::Acquire) => Reply::Ready(Err(super::closed())),
            Ok(false)
                if matches!(native.runs, Runs::InPool) && native.short_reads.due(rows.caller) =>
            {
                let begun = self.with_connection(|connection| {
                    let read = || {
                        let mut taken = rows.clone();
                        read(connection, statement.entity, native, &args, &mut taken)?;
                        Ok(taken)
                    };
                    short_reads::attempt(connection, &native.short_reads, rows.caller, read)
                });
                match begun {
                    Ok(Some(Ok(rows))) => Reply::Ready(Ok(rows)),
                    Ok(Some(Err(error))) => self.failed(error, statement, native, args, rows),
                    Ok(None) => self.run_in_pool(statement, args, rows),
                    Err(error) => Reply::Ready(Err(error)),
                }
            }
            Ok(false) => self.run_in_pool(statement, args, rows),
            Err(error) => Reply::Ready(Err(error)),
        }
    }

    /// Returns the error of a read on this thread. If the read did not find a table, a column or an
    /// index, it runs again in the pool with the current names.
    #[cold]
    fn failed<'a>(
        &'a self,
        error: Error,
        statement: &'a Arc<Statement>,
        native: &Native,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        if error::missing_in(&error).is_none() {
            return Reply::Ready(Err(error));
        }
        let generation = native.naming.generation();
        let read = move || self.run_once_in_pool(statement, &args, &rows);
        Reply::Later(Box::pin(async move {
            repeat(&self.names, generation, error, read).await
        }))
    }

    fn run_in_pool<'a>(
        &'a self,
        statement: &'a Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Reply<'a> {
        Reply::Later(Box::pin(async move {
            let generation = self.names.generation();
            match self.run_once_in_pool(statement, &args, &rows).await {
                Err(error) if error::missing_in(&error).is_some() => {
                    let read = move || self.run_once_in_pool(statement, &args, &rows);
                    repeat(&self.names, generation, error, read).await
                }
                outcome => outcome,
            }
        }))
    }

    /// Runs a read on a thread for long reads.
    fn run_once_in_pool(
        &self,
        statement: &Arc<Statement>,
        args: &[Value],
        rows: &Rows,
    ) -> impl Future<Output = Result<Rows>> + Send + use<> {
        Arc::clone(&self.pool).run(Arc::clone(statement), args.to_vec(), rows.clone())
    }

    pub(super) fn ping(&self) -> Result<()> {
        self.with_connection(|c| {
            c.query_row("SELECT 1", [], |_| Ok(()))
                .map_err(Error::unavailable)
        })
        .flatten()
    }

    /// Refuses new reads.
    pub(super) fn refuse(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Runs work with the connection of this thread; opens it if needed.
    fn with_connection<T>(&self, work: impl FnOnce(&Connection) -> T) -> Result<T> {
        if self.closed.load(Ordering::Acquire) {
            return Err(super::closed());
        }
        CONNECTIONS.with_borrow_mut(|connections| {
            if let Some((.., connection)) = connections.iter().find(|(id, ..)| *id == self.id) {
                return Ok(work(connection));
            }
            connections.retain(|(_, alive, _)| alive.strong_count() > 0);
            let connection =
                connect(&self.path, INLINE_BUSY_TIMEOUT).map_err(Error::unavailable)?;
            let done = work(&connection);
            connections.push((self.id, Arc::downgrade(&self.alive), connection));
            Ok(done)
        })
    }
}

/// Opens a read-only connection.
pub(super) fn connect(path: &Path, busy: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(busy)?;
    prepare(&connection)?;
    Ok(connection)
}

/// Prepares a connection for generated statements.
pub(super) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(CACHED);
    // Plans must not depend on bound values: otherwise SQLite would parse and plan a statement
    // again for each new value of `LIMIT ?` or of a range, which costs a third of a list of twenty
    // records.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // With this setting, SQLite reports a renamed column in double quotes as missing. Otherwise it
    // would read the name as a string.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("linchpin_contains", 2, flags, |cx| {
        let text = |i| match cx.get_raw(i) {
            rusqlite::types::ValueRef::Text(text) => std::str::from_utf8(text).ok(),
            _ => None,
        };
        Ok(text(0)
            .zip(text(1))
            .map(|(text, folded)| contains_folded(text, folded)))
    })
}

/// Runs a read and collects its rows.
pub(super) fn read(
    connection: &Connection,
    entity: &'static EntityDesc,
    native: &Native,
    args: &[Value],
    rows: &mut Rows,
) -> Result<()> {
    let failed = |e| error::of(&native.naming, entity, e);
    let mut statement = connection.prepare_cached(&native.sql).map_err(failed)?;
    bind::bind(&mut statement, &native.binds, args)?.map_err(failed)?;
    let mut found = statement.raw_query();
    if let Some(columns) = &native.columns {
        while let Some(row) = found.next().map_err(failed)? {
            let row = Computed::new(row, columns);
            if !rows.push(&row) {
                break;
            }
            row.validity(entity)?;
        }
        return Ok(());
    }
    while let Some(row) = found.next().map_err(failed)? {
        let row = SqliteRow::new(row, entity, &native.replaced);
        if !rows.push(&row) {
            break;
        }
        row.validity()?;
    }
    Ok(())
}
