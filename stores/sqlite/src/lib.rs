//! The embedded store: one SQLite file, accessed in two ways.
//!
//! Generated statements are short reads, which run on a connection of the calling thread, and
//! writes, which run on one writer thread with group commits. A small `sqlx` pool on the same file,
//! the conversation pool, runs reads of the outbox and the application's own SQL. Schema sessions
//! have separate connections.

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
mod names;
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
mod short_reads;
mod write;
mod writer;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod name_tests;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};

pub use provider::{KIND, OnSqlite, SqliteProvider};
pub use schema::SqliteDialect;

use linchpin_core::BoxFuture;
use linchpin_core::entity::EntityDesc;
use linchpin_core::store::{
    Names, Plan, RefreshNames, Reply, Rows, SqlDriver, Statement, Store, StoreKind, Transaction,
};
use linchpin_core::{Error, Result, Value};
use linchpin_sql::names::{Prepared, PresentNames};
use render::{Native, Runs};

/// A connection waits at most this long for a file lock of another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Closing the store waits at most this long for running work.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The point at which a write returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// After the write is on disk (`synchronous=FULL`).
    #[default]
    Full,
    /// After the operating system has the write (`synchronous=NORMAL`): a power failure may lose
    /// the last writes.
    Normal,
}

/// The options of the store.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The path of the file. A missing file is created; its directory must exist.
    pub path: PathBuf,
    /// The point at which a write returns. The default is [`Durability::Full`].
    pub durability: Durability,
    /// The maximum number of waiting writes. Further writes are refused with 503 (`unavailable`).
    pub queue: usize,
    /// The number of concurrent long reads. Reads that an index covers do not count: they run on
    /// the calling thread.
    pub scans: usize,
    /// The maximum number of waiting long reads. Further ones are refused with 503 (`unavailable`).
    pub scan_queue: usize,
}

impl SqliteOptions {
    /// The defaults for a file: full durability, queues of 4,096 writes and 256 long reads, and as
    /// many slots for concurrent long reads as cores plus one (3 to 8). One caller gets at most all
    /// but one of these slots. So one caller may keep every core busy, and another caller still
    /// finds a free slot.
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
    schema: schema::SqliteSchema,
    /// Receives events after their commit.
    commit_receiver: Arc<outbox::CommitReceiver>,
    /// This process as a candidate for the delivery of events.
    leader: outbox::Leader,
    /// The names of tables and columns in the file.
    names: Arc<PresentNames>,
    /// Set after everything has ended; concurrent calls of `close` wait for it.
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
    /// Opens the file and starts the writer thread. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the file cannot be opened as a database; the message names it.
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
            .busy_timeout(BUSY_TIMEOUT);
        let pool = SqlitePoolOptions::new()
            .max_connections(4)
            .min_connections(0)
            .test_before_acquire(false)
            .connect_lazy_with(connect);
        let names = Arc::<PresentNames>::default();
        let commit_receiver = Arc::<outbox::CommitReceiver>::default();
        let (queue, present) = (options.queue, Arc::clone(&names));
        let writer = writer::Writer::start(
            connection,
            file,
            queue,
            present,
            Arc::clone(&commit_receiver),
        )
        .map_err(Error::unavailable)?;
        let scans = pool::Pool::new(path.clone(), options.scans, options.scan_queue);
        Ok(Self {
            readers: reader::Readers::new(path.clone(), scans, Arc::clone(&names)),
            writer,
            pool,
            commit_receiver,
            leader: outbox::Leader::new(&path),
            schema: schema::SqliteSchema::shared(path),
            names,
            closed: tokio::sync::OnceCell::new(),
        })
    }

    /// Refuses new work, finishes accepted work and writes everything into the file.
    async fn finish(&self) {
        self.readers.refuse();
        self.writer.refuse();
        self.readers.pool.close(CLOSE_TIMEOUT).await;
        let connection = self.writer.close().await;
        if tokio::time::timeout(CLOSE_TIMEOUT, self.pool.close())
            .await
            .is_err()
        {
            tracing::warn!("a connection of the pool was still in use when the store was closed");
        }
        // The checkpoint is last: nothing writes any more.
        let Some(connection) = connection else { return };
        let checkpoint =
            move || connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        match tokio::task::spawn_blocking(checkpoint).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(
                    %error,
                    "the checkpoint of the write-ahead log failed when the store was closed"
                );
            }
            Err(error) => {
                tracing::warn!(
                    %error,
                    "the checkpoint of the write-ahead log failed when the store was closed"
                );
            }
        }
    }

    /// The `sqlx` pool for the application's own transactions and statements.
    pub fn pool(&self) -> &sqlx::SqlitePool {
        &self.pool
    }
}

fn closed() -> Error {
    Error::unavailable("the store is closed")
}

/// The native form of a statement that this store has prepared, with the current names.
fn native(statement: &Statement) -> Result<&Native> {
    let prepared: &Prepared<Native> = statement
        .native
        .downcast_ref()
        .ok_or_else(|| Error::internal("the statement was prepared by another store"))?;
    prepared.form(|naming| render::render(statement.entity, &statement.plan, naming))
}

impl Store for SqliteStore {
    fn kind(&self) -> &'static StoreKind {
        &KIND
    }

    // One thread writes, so the last write sees all earlier ones.
    fn computes(&self, _last: bool) -> bool {
        true
    }

    fn prepare(&self, entity: &'static EntityDesc, plan: Plan) -> Result<Arc<Statement>> {
        let render = |naming: &_| render::render(entity, &plan, naming);
        let native = Box::new(Prepared::new(&self.names, render)?);
        Ok(Arc::new(Statement {
            entity,
            plan,
            native,
        }))
    }

    fn may_take_long(&self, statement: &Statement) -> bool {
        native(statement).is_ok_and(|native| {
            matches!(native.runs, render::Runs::InPool | render::Runs::Limited(_))
        })
    }

    fn run<'a>(&'a self, statement: &'a Arc<Statement>, args: Vec<Value>, rows: Rows) -> Reply<'a> {
        let native = match native(statement) {
            Ok(native) => native,
            Err(error) => return Reply::Ready(Err(error)),
        };
        match native.runs {
            Runs::Writer => self.writer.run(statement, args, rows),
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
        Some(Arc::new(driver::Driver {
            pool: self.pool.clone(),
            names: Arc::clone(&self.names),
        }))
    }

    fn outbox(&self) -> Option<&dyn linchpin_core::store::Outbox> {
        Some(self)
    }

    fn schema(&self) -> Option<&dyn linchpin_core::schema::SchemaStore> {
        Some(&self.schema)
    }

    fn set_names(&self, names: Arc<Names>) {
        self.names.set(names);
    }

    fn on_stale_names(&self, refresh: RefreshNames) {
        self.names.on_stale(refresh);
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
