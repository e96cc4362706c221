//! The store for a `PostgreSQL` server, or an engine with the same protocol.
//!
//! Generated statements run on shared connections (lanes), on which the statements of many callers
//! are pipelined. They are prepared once per connection. Reads and writes have separate
//! connections, because a slow commit delays every answer after it. A `sqlx` pool, the conversation
//! pool, runs the set-up of the outbox and the application's own SQL. Each transaction has a
//! separate connection and runs the same prepared statements. Each schema session has a separate
//! connection, too.
//!
//! A `json` value is stored as JSONB and is returned with the same meaning; the order of its
//! members and white space may differ.

mod aggregate;
mod bind;
mod change;
mod channel;
mod connect;
mod conversation;
mod driver;
mod error;
mod gather;
mod lane;
mod native;
mod outbox;
mod provider;
mod related;
mod render;
mod row;
mod run;
mod scan;
mod schema;
mod select;
mod session;
mod short_reads;
mod turns;
mod write;

#[cfg(test)]
mod gather_tests;
#[cfg(test)]
mod name_tests;
#[cfg(test)]
mod outbox_tests;
#[cfg(test)]
mod tests;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

pub use self::channel::Channel;
use self::connect::Connector;
use self::gather::{Answer, Input, Joined};
use self::lane::Lane;
use self::native::Native;
use self::outbox::{Handover, OutboxConnection};
pub use self::provider::{KIND, OnPostgres, PostgresProvider};
use self::run::Failure;
use self::scan::Scan;
pub use self::schema::PostgresDialect;
use self::session::Sessions;
use self::short_reads::ShortReads;
use linchpin_core::BoxFuture;
use linchpin_core::entity::EntityDesc;
use linchpin_core::schema::SchemaStore;
use linchpin_core::store::{
    LockWait, Names, Outbox, Plan, RefreshNames, Reply, Rows, SqlDriver, Statement, Store,
    StoreKind, Transaction,
};
use linchpin_core::{Error, Result, Value};
use linchpin_sql::access::Span;
use linchpin_sql::names::{Prepared, PresentNames};
use linchpin_sql::read_slots::{ReadSlot, ReadSlots};

/// Closing the store waits at most this long for running statements.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The store waits this much longer for an answer than the time limit of the server.
const GRACE: Duration = Duration::from_secs(5);
/// The maximum number of rows of a read on a shared connection.
const MAX_SHARED_ROWS: i64 = 500;
/// The maximum number of retries of a statement that failed because of a conflict with another
/// statement: a lock timeout, a deadlock or a serialization failure.
const MAX_RETRIES: usize = 3;

/// The address of the server, numbers of connections and time limits.
#[derive(Clone)]
pub struct PostgresOptions {
    /// `postgres://user:password@host:port/database`, with the optional parameters `sslmode`
    /// (`disable`, `prefer`, `require`, `verify-full`) and `sslrootcert` (a PEM file).
    pub url: String,
    /// Connections for reads that an index covers. They are shared: each returns its answers in the
    /// order of its statements.
    pub readers: usize,
    /// Connections for long reads, and the same number again for short attempts of these reads.
    pub scans: usize,
    /// Connections for writes, and the same number again for writes that record events or wait for
    /// a lock: each of those is a separate transaction.
    pub writers: usize,
    /// The maximum number of connections of the `sqlx` pool for the application's own SQL.
    pub pool: usize,
    /// The maximum number of concurrent transactions of this process, each on its own connection;
    /// at most three quarters of them may be transactions that wait long for locks. Transactions of
    /// `Cx::transaction` begin 100 ms apart, or earlier if the previous one has ended or waits for
    /// a lock. So short ones do not deadlock with each other. Longer ones may, if they write the
    /// same records in opposite order. The server then ends one of them with `unavailable`, and its
    /// caller must retry. All other transactions (of operations, counters, `on_delete`, the audit
    /// log, idempotent calls) begin immediately, and the framework retries them.
    pub transactions: usize,
    /// The maximum number of reads in progress, and separately of writes. Further statements are
    /// refused with 503 (`unavailable`).
    pub in_flight: usize,
    /// The time limit of a statement on the server.
    pub statement_timeout: Duration,
    /// The time limit of connecting.
    pub connect_timeout: Duration,
    /// Whether a write returns only after it is on the disk of the server. If not, a crash of the
    /// server may lose the last writes.
    pub synchronous_commit: bool,
}

impl PostgresOptions {
    /// The defaults: 2 connections for reads, 4 for long reads and 4 for short attempts of them, 16
    /// for writes, 16 for writes that record events or wait for a lock, up to 8 for transactions
    /// and up to 8 for the application's own SQL; 1,024 reads and 1,024 writes in progress; 30 s
    /// for a statement, 5 s to connect; a write is on disk before it returns.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            readers: 2,
            scans: 4,
            // Each write ends with a wait for the disk of the server, so the number of connections
            // limits the number of concurrent commits.
            writers: 16,
            pool: 8,
            transactions: 8,
            in_flight: 1024,
            statement_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            synchronous_commit: true,
        }
    }
}

impl std::fmt::Debug for PostgresOptions {
    // The URL is left out, because it contains a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("readers", &self.readers)
            .field("writers", &self.writers)
            .finish_non_exhaustive()
    }
}

/// The Postgres store.
pub struct PostgresStore {
    connector: Arc<Connector>,
    /// For reads that an index covers.
    reads: Arc<Lane>,
    short_reads: ShortReads,
    scans: Lane,
    /// The slots for long reads.
    read_slots: ReadSlots,
    writes: Lane,
    sessions: Arc<Sessions>,
    /// For writes that record events or wait for a lock.
    recorded: Arc<Sessions>,
    /// Delivers events.
    outbox_connection: OutboxConnection,
    /// Receives events after their commit.
    handover: Arc<Handover>,
    pool: sqlx::PgPool,
    /// The names of tables and columns in the database.
    names: Arc<PresentNames>,
    schema: schema::Schema,
    /// The time limit for an answer.
    answer_timeout: Duration,
    /// The server's time limit of a statement.
    statement_timeout: Duration,
    closed: tokio::sync::OnceCell<()>,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore")
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Opens the store; it connects in the background. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the URL is invalid; the message never contains a password. An unreachable server is
    /// reported by the first call.
    pub fn open(options: PostgresOptions) -> Result<Self> {
        let connector = Arc::new(Connector::new(&options)?);
        let connect = connect_options(&options)?;
        let connections = u32::try_from(options.pool).unwrap_or(u32::MAX).max(1);
        let settings: Arc<[String]> = connector.settings().map(str::to_owned).collect();
        let schema = schema::Schema::new(&options, &connector)?.of_server(&connector);
        let pool = PgPoolOptions::new()
            .max_connections(connections)
            .min_connections(0)
            .acquire_timeout(options.connect_timeout)
            .test_before_acquire(false)
            .after_connect(move |connection, _| {
                let settings = Arc::clone(&settings);
                Box::pin(async move {
                    for setting in settings.iter() {
                        // The setting consists of numbers and fixed text only.
                        sqlx::query(sqlx::AssertSqlSafe(setting.as_str()))
                            .execute(&mut *connection)
                            .await?;
                    }
                    Ok(())
                })
            })
            .connect_lazy_with(connect);
        let names = Arc::<PresentNames>::default();
        let handover = Arc::<Handover>::default();
        Ok(Self {
            reads: Arc::new(Lane::start(
                &Arc::new(connector.indexed()),
                options.readers,
                options.in_flight,
            )),
            short_reads: ShortReads::new(&connector, &options),
            scans: Lane::start(&connector, options.scans, options.in_flight),
            read_slots: ReadSlots::new(options.scans, options.in_flight),
            writes: Lane::start(
                &Arc::new(connector.with_short_lock_timeout()),
                options.writers,
                options.in_flight,
            ),
            sessions: Sessions::new(
                &connector,
                options.transactions.max(1),
                options.statement_timeout,
                (&names, &handover),
            ),
            recorded: Sessions::new(
                &connector,
                options.writers.max(1),
                options.statement_timeout,
                (&names, &handover),
            ),
            outbox_connection: OutboxConnection::new(&connector, options.statement_timeout + GRACE),
            handover,
            connector,
            pool,
            names,
            schema,
            answer_timeout: options.statement_timeout + GRACE,
            statement_timeout: options.statement_timeout,
            closed: tokio::sync::OnceCell::new(),
        })
    }

    /// The `sqlx` pool for the application's own transactions and statements.
    pub fn pool(&self) -> &sqlx::PgPool {
        &self.pool
    }

    async fn perform(
        &self,
        statement: &Arc<Statement>,
        args: Vec<Value>,
        rows: Rows,
    ) -> Result<Rows> {
        let reads = statement.plan.reads();
        // A shared connection runs only short reads, because later statements wait for the earlier
        // ones.
        let native = Native::of(statement)?;
        let scans = reads && !native.span.within(MAX_SHARED_ROWS, &args)?;
        let lane = match reads {
            _ if scans => &self.scans,
            true => &*self.reads,
            false => &self.writes,
        };
        let input = Input {
            args,
            rows,
            admitted: lane.admit()?,
        };
        let (_alone, input) = match native
            .gather
            .as_ref()
            .filter(|_| native.is_plain(&input.args))
        {
            None => (None, input),
            Some(gather) => match gather.join(&self.reads, statement, self.answer_timeout, input) {
                Joined::Now(alone, input) => (alone, input),
                Joined::Later(answer) => match answer.await {
                    Ok(Answer::Done(outcome)) => return outcome,
                    Ok(Answer::Alone(input)) => (None, input),
                    Err(_) => return Err(Error::unavailable("a read was interrupted")),
                },
            },
        };
        let Input {
            args,
            rows,
            admitted: _admitted,
        } = input;
        // Each future is boxed. The future of a read by key must be small, because it is created
        // and moved with every such read.
        if scans
            && let Some(outcome) =
                Box::pin(self.short_reads.attempt(native, statement, &args, &rows)).await
        {
            return outcome;
        }
        if !reads {
            return Box::pin(self.write(statement, &args, rows)).await;
        }
        let slot = if scans {
            Some(Box::pin(self.read_slots.take(rows.caller)).await?)
        } else {
            None
        };
        Box::pin(self.send(lane, slot, statement, &args, rows)).await
    }

    /// Runs a statement on a lane, or in a slot for long reads.
    async fn send(
        &self,
        lane: &Lane,
        mut slot: Option<ReadSlot>,
        statement: &Arc<Statement>,
        args: &[Value],
        rows: Rows,
    ) -> Result<Rows> {
        let reads = statement.plan.reads();
        let mut repeats = 0;
        let (mut lost, mut renamed) = (false, false);
        loop {
            let generation = self.names.generation();
            let connection = lane.connection().await?;
            let live = Arc::clone(&connection.live);
            // A long read is canceled when its caller stops waiting.
            let (connection, scan) = match slot.take() {
                None => (Some(connection), None),
                Some(slot) => (None, Some(Scan::new(&self.connector, connection, slot))),
            };
            let mut result = rows.clone();
            let outcome = tokio::time::timeout(
                self.answer_timeout,
                run::run(&live, statement, args, &mut result),
            )
            .await;
            let Ok(outcome) = outcome else {
                if let Some(connection) = connection {
                    connection.abandon();
                }
                return Err(Error::unavailable("the database does not answer"));
            };
            slot = scan.and_then(Scan::finish);
            let failure = match outcome {
                Ok(()) => return Ok(result),
                Err(failure) => failure,
            };
            // A write is never repeated if the server may have run it. A write that was not sent
            // gets another connection.
            let again = match &failure {
                Failure::Unsent(_) => !std::mem::replace(&mut lost, true),
                Failure::Server(e) if reads && error::is_lost(e) => {
                    !std::mem::replace(&mut lost, true)
                }
                Failure::Server(e) if reads && error::may_retry(e) && repeats < MAX_RETRIES => {
                    repeats += 1;
                    true
                }
                // The server has changed nothing, so a write can be repeated, too.
                Failure::Server(e) if error::is_missing(e) && !renamed => {
                    renamed = true;
                    Box::pin(self.names.refreshed(generation)).await?
                }
                Failure::Server(_) | Failure::Own(_) => false,
            };
            if !again {
                return Err(failure.into_error(statement));
            }
        }
    }

    async fn ping(&self, lane: &Lane) -> Result<()> {
        let _admitted = lane.admit()?;
        let connection = lane.connection().await?;
        connection
            .live
            .client
            .simple_query("SELECT 1")
            .await
            .map(drop)
            .map_err(Error::unavailable)
    }

    async fn finish(&self) {
        let sessions = async {
            tokio::join!(
                self.sessions.close(CLOSE_TIMEOUT),
                self.recorded.close(CLOSE_TIMEOUT)
            )
        };
        let scans = async {
            self.short_reads.close(CLOSE_TIMEOUT).await;
            self.read_slots.close(CLOSE_TIMEOUT).await;
            self.scans.close(CLOSE_TIMEOUT).await;
        };
        tokio::join!(
            self.reads.close(CLOSE_TIMEOUT),
            scans,
            self.writes.close(CLOSE_TIMEOUT),
            sessions,
            self.outbox_connection.close()
        );
        if tokio::time::timeout(CLOSE_TIMEOUT, self.pool.close())
            .await
            .is_err()
        {
            tracing::warn!("a connection of the pool was still in use when the store was closed");
        }
    }
}

/// The address of the server, for connections of `sqlx`.
fn connect_options(options: &PostgresOptions) -> Result<PgConnectOptions> {
    let invalid = |e: sqlx::Error| {
        Error::new(
            linchpin_core::Code::Internal,
            format!("the database URL is not valid: {e}"),
        )
    };
    let connect = PgConnectOptions::from_str(&options.url).map_err(invalid)?;
    Ok(connect.application_name("linchpin"))
}

fn closed() -> Error {
    Error::unavailable("the store is closed")
}

impl Store for PostgresStore {
    fn kind(&self) -> &'static StoreKind {
        &KIND
    }

    fn may_take_long(&self, statement: &Statement) -> bool {
        statement.plan.reads()
            && Native::of(statement).is_ok_and(|native| !matches!(native.span, Span::One))
    }

    // After a wait for a locked record, a statement still computes with the snapshot from before
    // the wait.
    fn computes(&self, last: bool) -> bool {
        !last
    }

    fn prepare(&self, entity: &'static EntityDesc, plan: Plan) -> Result<Arc<Statement>> {
        let render = |naming: &_| Native::new(entity, &plan, naming);
        let native = Box::new(Prepared::new(&self.names, render)?);
        Ok(Arc::new(Statement {
            entity,
            plan,
            native,
        }))
    }

    fn run<'a>(&'a self, statement: &'a Arc<Statement>, args: Vec<Value>, rows: Rows) -> Reply<'a> {
        Reply::Later(Box::pin(self.perform(statement, args, rows)))
    }

    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn Transaction>>> {
        self.begin_with(LockWait::UntilTimeout)
    }

    fn begin_with(&self, lock_wait: LockWait) -> BoxFuture<'_, Result<Box<dyn Transaction>>> {
        Box::pin(async move {
            Ok(Box::new(self.sessions.begin(lock_wait).await?) as Box<dyn Transaction>)
        })
    }

    fn outbox(&self) -> Option<&dyn Outbox> {
        Some(self)
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

    fn schema(&self) -> Option<&dyn SchemaStore> {
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
            tokio::try_join!(self.ping(&self.reads), self.ping(&self.writes)).map(drop)
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.closed.get_or_init(|| self.finish()).await;
        })
    }
}
