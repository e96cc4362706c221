//! The embedded store: one SQLite file, in two lanes.
//!
//! The fast lane runs generated statements: reads inline on a connection of the calling thread,
//! writes on one writer thread that groups commits. The conversation lane is a small `sqlx` pool on
//! the same file, for schema set-up, inspection and whatever is a conversation with the database.

#[cfg(test)]
mod access_tests;
mod aggregate;
mod bind;
mod change;
mod conversation;
mod driver;
mod error;
mod file;
#[doc(hidden)]
pub mod inspect;
mod outbox;
mod pool;
mod provider;
mod reader;
mod related;
mod render;
mod row;
mod schema;
mod select;
mod session;
mod short;
mod write;
mod writer;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};

pub use provider::{KIND, OnSqlite, SqliteProvider};

use linchpin_core::BoxFuture;
use linchpin_core::entity::EntityDesc;
use linchpin_core::store::{
    Plan, Reply, Rows, SqlDriver, Statement, Store, StoreKind, Transaction,
};
use linchpin_core::{Error, Result, Value};
use render::{Native, Runs};

/// How long a connection waits for another process that holds the file's lock.
const BUSY: Duration = Duration::from_secs(5);

/// How long closing waits for what others hold.
const PATIENCE: Duration = Duration::from_secs(10);

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// When it is on disk (`synchronous=FULL`).
    #[default]
    Full,
    /// When the operating system has it (`synchronous=NORMAL`): a power failure may take back the
    /// last moments.
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
    /// Long reads at a time. Reads that an index covers do not count: they run on the thread that
    /// asks.
    pub scans: usize,
    /// Long reads that may wait; one more is refused with 503.
    pub scan_queue: usize,
}

impl SqliteOptions {
    /// A file with full durability, queues of 4096 writes and 256 long reads, and one long read at
    /// a time per core and one more (3 to 8): no caller has all of these places, so one alone may
    /// keep every core busy, and another still finds one free.
    pub fn new(path: impl AsRef<Path>) -> Self {
        let scans =
            std::thread::available_parallelism().map_or(3, |cores| (cores.get() + 1).clamp(3, 8));
        Self {
            path: path.as_ref().to_owned(),
            durability: Durability::Full,
            queue: 4096,
            scans,
            scan_queue: 256,
        }
    }
}

/// The embedded store.
pub struct SqliteStore {
    readers: reader::Readers,
    writer: writer::Writer,
    pool: sqlx::SqlitePool,
    /// Set once everything has ended; whoever closes meanwhile waits for it.
    closed: tokio::sync::OnceCell<()>,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore")
            .field("readers", &self.readers)
            .finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the file and starts the writer thread. Needs a tokio runtime.
    ///
    /// # Errors
    /// When the file cannot be opened as a database; the text names it.
    pub fn open(options: SqliteOptions) -> Result<Self> {
        let connection = file::open(&options.path, options.durability)?;
        Self::start(connection, options)
    }

    fn start(connection: rusqlite::Connection, options: SqliteOptions) -> Result<Self> {
        let path = options.path;
        let file = file::Identity::of(&path).map_err(Error::unavailable)?;
        let synchronous = match options.durability {
            Durability::Full => SqliteSynchronous::Full,
            Durability::Normal => SqliteSynchronous::Normal,
        };
        let connect = SqliteConnectOptions::new()
            .filename(&path)
            .synchronous(synchronous)
            .busy_timeout(BUSY);
        let pool = SqlitePoolOptions::new()
            .max_connections(4)
            .min_connections(0)
            .test_before_acquire(false)
            .connect_lazy_with(connect);
        let writer =
            writer::Writer::start(connection, file, options.queue).map_err(Error::unavailable)?;
        let scans = pool::Pool::new(path.clone(), options.scans, options.scan_queue);
        Ok(Self {
            readers: reader::Readers::new(path, scans),
            writer,
            pool,
            closed: tokio::sync::OnceCell::new(),
        })
    }

    /// Takes nothing more, ends what was accepted and puts everything into the file.
    async fn finish(&self) {
        self.readers.refuse();
        self.writer.refuse();
        self.readers.pool.close(PATIENCE).await;
        let connection = self.writer.close().await;
        if tokio::time::timeout(PATIENCE, self.pool.close())
            .await
            .is_err()
        {
            tracing::warn!("a connection of the pool was still in use when the store was closed");
        }
        // Last, when nobody can write behind it.
        let Some(connection) = connection else { return };
        let checkpoint =
            move || connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        match tokio::task::spawn_blocking(checkpoint).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the log was not written back when the store was closed");
            }
            Err(error) => {
                tracing::warn!(%error, "the log was not written back when the store was closed");
            }
        }
    }

    /// The conversation lane: transactions and statements of the user's own.
    pub fn pool(&self) -> &sqlx::SqlitePool {
        &self.pool
    }
}

fn closed() -> Error {
    Error::unavailable("the store is closed")
}

/// The native form of a statement this store has prepared.
fn native(statement: &Statement) -> Result<&Native> {
    statement
        .native
        .downcast_ref()
        .ok_or_else(|| Error::internal("the statement was prepared by another store"))
}

impl Store for SqliteStore {
    fn kind(&self) -> &'static StoreKind {
        &KIND
    }

    // One thread writes, so whoever is last sees everything.
    fn computes(&self, _last: bool) -> bool {
        true
    }

    fn prepare(&self, entity: &'static EntityDesc, plan: Plan) -> Result<Arc<Statement>> {
        let native = Box::new(render::render(entity, &plan)?);
        Ok(Arc::new(Statement {
            entity,
            plan,
            native,
        }))
    }

    fn may_take_long(&self, statement: &Statement) -> bool {
        native(statement).is_ok_and(|native| {
            matches!(native.runs, render::Runs::Apart | render::Runs::Limited(_))
        })
    }

    fn run<'a>(&'a self, statement: &'a Arc<Statement>, args: Vec<Value>, rows: Rows) -> Reply<'a> {
        let native = match native(statement) {
            Ok(native) => native,
            Err(error) => return Reply::Ready(Err(error)),
        };
        match native.runs {
            Runs::Writer => self.writer.run(Arc::clone(statement), args, rows),
            _ => self.readers.run(statement, native, args, rows),
        }
    }

    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn Transaction>>> {
        Box::pin(async { Ok(Box::new(self.writer.begin().await?) as Box<dyn Transaction>) })
    }

    fn native(&self) -> Option<Box<dyn std::any::Any + Send + Sync>> {
        Some(Box::new(self.pool.clone()))
    }

    fn sql(&self) -> Option<Arc<dyn SqlDriver>> {
        Some(Arc::new(driver::Driver(self.pool.clone())))
    }

    fn outbox(&self) -> Option<&dyn linchpin_core::store::Outbox> {
        Some(self)
    }

    fn install<'a>(&'a self, entities: &'a [&'static EntityDesc]) -> BoxFuture<'a, Result<()>> {
        Box::pin(schema::install(&self.pool, entities))
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            self.readers.ping()?;
            self.writer.ping().await
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.closed.get_or_init(|| self.finish()).await;
        })
    }
}
