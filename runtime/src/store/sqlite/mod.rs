//! The embedded store: one SQLite file, in two lanes.
//!
//! The fast lane runs generated statements: reads inline on a connection of the calling thread, writes on one writer thread
//! that groups commits. The conversation lane is a small `sqlx` pool on the same file, for schema set-up, inspection and
//! whatever is a conversation with the database.

mod bind;
mod error;
mod reader;
mod render;
mod row;
mod schema;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use super::{Plan, Reply, Rows, Statement, Store};
use crate::entity::EntityDesc;
use crate::resource::BoxFuture;
use crate::{Error, Result, Value};
use render::Native;

/// How long a connection waits for another process that holds the file's lock.
const BUSY: Duration = Duration::from_secs(5);

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// When it is on disk (`synchronous=FULL`).
    #[default]
    Full,
    /// When the operating system has it (`synchronous=NORMAL`): a power failure may take back the last moments.
    Normal,
}

/// How to open the store.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The file; created when missing. Its folder must exist.
    pub path: PathBuf,
    /// When a write counts as done.
    pub durability: Durability,
    /// Writes that may wait; one more is refused with 503.
    pub queue: usize,
}

impl SqliteOptions {
    /// A file with full durability and a queue of 4096 writes.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_owned(), durability: Durability::Full, queue: 4096 }
    }
}

/// The embedded store.
pub struct SqliteStore {
    readers: reader::Readers,
    writer: writer::Writer,
    pool: sqlx::SqlitePool,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("readers", &self.readers).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the file and starts the writer thread. Needs a tokio runtime.
    ///
    /// # Errors
    /// When the file cannot be opened as a database; the text names it.
    pub fn open(options: SqliteOptions) -> Result<Self> {
        let path = options.path;
        let failed = |error: rusqlite::Error| Error::unavailable(format!("cannot open the database {}: {error}", path.display()));
        let writer = writer::connect(&path, options.durability).map_err(failed)?;
        let synchronous = match options.durability {
            Durability::Full => SqliteSynchronous::Full,
            Durability::Normal => SqliteSynchronous::Normal,
        };
        let connect =
            SqliteConnectOptions::new().filename(&path).journal_mode(SqliteJournalMode::Wal).synchronous(synchronous).busy_timeout(BUSY);
        let pool = SqlitePoolOptions::new().max_connections(2).min_connections(0).test_before_acquire(false).connect_lazy_with(connect);
        let writer = writer::Writer::start(writer, options.queue).map_err(Error::unavailable)?;
        Ok(Self { readers: reader::Readers::new(path), writer, pool })
    }

    /// The conversation lane: transactions and statements of the user's own.
    pub fn pool(&self) -> &sqlx::SqlitePool {
        &self.pool
    }
}

/// The native form of a statement this store has prepared.
fn native(statement: &Statement) -> Result<&Native> {
    statement.native.downcast_ref().ok_or_else(|| Error::internal("the statement was prepared by another store"))
}

impl Store for SqliteStore {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn supports(&self, _capability: &str) -> bool {
        true
    }

    fn prepare(&self, entity: &'static EntityDesc, plan: Plan) -> Result<Arc<Statement>> {
        let native = Box::new(render::render(entity, &plan)?);
        Ok(Arc::new(Statement { entity, plan, native }))
    }

    fn run<'a>(&'a self, statement: &'a Arc<Statement>, args: Vec<Value>, rows: Rows) -> Reply<'a> {
        let native = match native(statement) {
            Ok(native) => native,
            Err(error) => return Reply::Ready(Err(error)),
        };
        if native.writes {
            return self.writer.run(Arc::clone(statement), args, rows);
        }
        if native.bounded {
            return Reply::Ready(self.readers.run(statement.entity, native, &args, rows));
        }
        Reply::Later(Box::pin(self.readers.run_blocking(Arc::clone(statement), args, rows)))
    }

    fn install<'a>(&'a self, entities: &'a [&'static EntityDesc]) -> BoxFuture<'a, Result<()>> {
        Box::pin(schema::install(&self.pool, entities))
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            self.readers.ping()?;
            self.writer.ping()
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.writer.close().await;
            self.pool.close().await;
        })
    }
}
