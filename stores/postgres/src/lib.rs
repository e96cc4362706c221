//! The store for growth: a `PostgreSQL` server, or an engine that speaks its protocol, in two
//! lanes.
//!
//! The fast lane runs generated statements: prepared once per connection, statements of many
//! callers following each other without a checkout, on separate connections for reads and for
//! writes, since a slow commit holds up every answer behind it. The conversation lane is a `sqlx`
//! pool, for schema set-up, inspection and whatever is a conversation with the database;
//! transactions have connections of their own that run the same prepared statements.
//!
//! A `json` value is stored as JSONB and comes back with the same meaning; the order of its members
//! and blanks may differ.

mod aggregate;
mod bind;
mod brief;
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
mod road;
mod row;
mod run;
mod scan;
mod schema;
mod select;
mod session;
mod write;

#[cfg(test)]
mod gather_tests;
#[cfg(test)]
mod outbox_tests;
#[cfg(test)]
mod tests;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use self::brief::Brief;
pub use self::channel::Channel;
use self::connect::Connector;
use self::gather::{Answer, Asked, Joined};
use self::lane::Lane;
use self::native::Native;
use self::outbox::Courier;
pub use self::provider::{KIND, OnPostgres, PostgresProvider};
use self::run::Failure;
use self::scan::Scan;
use self::session::Sessions;
use linchpin_core::BoxFuture;
use linchpin_core::entity::EntityDesc;
use linchpin_core::store::{
    Outbox, Patience, Plan, Reply, Rows, SqlDriver, Statement, Store, StoreKind, Transaction,
};
use linchpin_core::{Error, Result, Value};
use linchpin_sql::access::Span;
use linchpin_sql::places::{Place, Places};

/// How long closing waits for what is under way.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much longer than the server's own limit an answer is waited for.
const GRACE: Duration = Duration::from_secs(5);
/// Rows that are still read among other statements on one connection.
const AMONG: i64 = 500;
/// How often a statement is run again that the server undid in favour of another one.
const REPEATS: usize = 3;

/// How to reach and use the server.
#[derive(Clone)]
pub struct PostgresOptions {
    /// `postgres://user:password@host:port/database`, with `sslmode` (`disable`, `prefer`,
    /// `require`, `verify-full`) and `sslrootcert` (a PEM file) among its parameters.
    pub url: String,
    /// Connections for reads that an index covers; many share one, and answers come in turn.
    pub readers: usize,
    /// Connections for reads that may take long, and as many on which each of these is tried for a
    /// moment before.
    pub scans: usize,
    /// Connections for writes, and as many for those that leave events or wait for a lock: each of
    /// these is a transaction of its own.
    pub writers: usize,
    /// Most connections of the pool for conversations.
    pub pool: usize,
    /// Most transactions of this process at a time, each on a connection of its own; three quarters
    /// of them may be such as wait for long. Those of `Cx::transaction` begin 100 ms after each
    /// other, or sooner: when the one before has ended, or waits for a lock. So short ones do not
    /// deadlock among themselves. Longer ones may, if they write the same records in opposite
    /// order: then the server ends one of them, which is `unavailable` and has to be tried again by
    /// its caller. All others (of operations, counters, `on_delete`, the audit log, idempotent
    /// calls) begin at once, and begin again by themselves.
    pub transactions: usize,
    /// Reads, and as many writes, that may be under way; one more is refused with 503.
    pub in_flight: usize,
    /// How long a statement may take on the server.
    pub statement_timeout: Duration,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// Whether a write counts as done when it is on the server's disk; if not, a crash may take
    /// back the last moments.
    pub synchronous_commit: bool,
}

impl PostgresOptions {
    /// 2 connections for reads, 4 for those that may take long and 4 for trying them, 16 for
    /// writes, as many for those that leave events or wait for a lock, up to 8 for transactions and
    /// up to 8 for conversations; 1024 reads and writes under way; 30 s for a statement, 5 s to
    /// connect; durable.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            readers: 2,
            scans: 4,
            // Each waits for the server's disk at its end, so there are as many commits at a time
            // as connections.
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
    // Without the URL, which holds a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("readers", &self.readers)
            .field("writers", &self.writers)
            .finish_non_exhaustive()
    }
}

/// The store for growth.
pub struct PostgresStore {
    connector: Arc<Connector>,
    /// For reads that an index covers.
    reads: Arc<Lane>,
    brief: Brief,
    scans: Lane,
    /// Who may use these, and how much of them.
    places: Places,
    writes: Lane,
    sessions: Arc<Sessions>,
    /// For writes that leave events, or have to wait for somebody's lock.
    recorded: Arc<Sessions>,
    /// Delivers events.
    courier: Courier,
    pool: sqlx::PgPool,
    /// How long an answer is waited for.
    patience: Duration,
    /// How long the server works on a statement.
    time: Duration,
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
    /// Starts to connect. Needs a tokio runtime.
    ///
    /// # Errors
    /// When the URL cannot be used; the text never holds a password. An unreachable server is the
    /// error of [`install`](Store::install).
    pub fn open(options: PostgresOptions) -> Result<Self> {
        let connector = Arc::new(Connector::new(&options)?);
        let invalid = |e: sqlx::Error| {
            Error::new(
                linchpin_core::Code::Internal,
                format!("the database URL is not valid: {e}"),
            )
        };
        let connect = PgConnectOptions::from_str(&options.url)
            .map_err(invalid)?
            .application_name("linchpin");
        let connections = u32::try_from(options.pool).unwrap_or(u32::MAX).max(1);
        let settings: Arc<[String]> = connector.settings().map(str::to_owned).collect();
        let pool = PgPoolOptions::new()
            .max_connections(connections)
            .min_connections(0)
            .acquire_timeout(options.connect_timeout)
            .test_before_acquire(false)
            .after_connect(move |connection, _| {
                let settings = Arc::clone(&settings);
                Box::pin(async move {
                    for setting in settings.iter() {
                        // Made of numbers and fixed words only.
                        sqlx::query(sqlx::AssertSqlSafe(setting.as_str()))
                            .execute(&mut *connection)
                            .await?;
                    }
                    Ok(())
                })
            })
            .connect_lazy_with(connect);
        Ok(Self {
            reads: Arc::new(Lane::start(
                &Arc::new(connector.indexed()),
                options.readers,
                options.in_flight,
            )),
            brief: Brief::new(&connector, &options),
            scans: Lane::start(&connector, options.scans, options.in_flight),
            places: Places::new(options.scans, options.in_flight),
            writes: Lane::start(
                &Arc::new(connector.hasty()),
                options.writers,
                options.in_flight,
            ),
            sessions: Sessions::new(
                &connector,
                options.transactions.max(1),
                options.statement_timeout,
            ),
            recorded: Sessions::new(
                &connector,
                options.writers.max(1),
                options.statement_timeout,
            ),
            courier: Courier::new(&connector, options.statement_timeout + GRACE),
            connector,
            pool,
            patience: options.statement_timeout + GRACE,
            time: options.statement_timeout,
            closed: tokio::sync::OnceCell::new(),
        })
    }

    /// The conversation lane: transactions and statements of the user's own.
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
        // Whatever is behind a statement on its connection waits for it.
        let native = Native::of(statement)?;
        let scans = reads && !native.span.within(AMONG, &args)?;
        let lane = match reads {
            _ if scans => &self.scans,
            true => &*self.reads,
            false => &self.writes,
        };
        let asked = Asked {
            args,
            rows,
            admitted: lane.admit()?,
        };
        let (_alone, asked) = match native
            .gather
            .as_ref()
            .filter(|_| native.is_plain(&asked.args))
        {
            None => (None, asked),
            Some(gather) => match gather.join(&self.reads, statement, self.patience, asked) {
                Joined::Now(alone, asked) => (alone, asked),
                Joined::Later(answer) => match answer.await {
                    Ok(Answer::Done(outcome)) => return outcome,
                    Ok(Answer::Alone(asked)) => (None, asked),
                    Err(_) => return Err(Error::unavailable("a read was interrupted")),
                },
            },
        };
        let Asked {
            args,
            rows,
            admitted: _admitted,
        } = asked;
        // Each in a box of its own: what a read by its key waits in is small, for it is made and
        // moved with every one of them.
        if scans
            && let Some(outcome) =
                Box::pin(self.brief.attempt(native, statement, &args, &rows)).await
        {
            return outcome;
        }
        if !reads {
            return Box::pin(self.write(statement, &args, rows)).await;
        }
        let own = if scans {
            Some(Box::pin(self.places.take(rows.caller)).await?)
        } else {
            None
        };
        Box::pin(self.send(lane, own, statement, &args, rows)).await
    }

    /// Runs a statement on a lane, or for as long as it takes in a place of its own.
    async fn send(
        &self,
        lane: &Lane,
        mut own: Option<Place>,
        statement: &Arc<Statement>,
        args: &[Value],
        rows: Rows,
    ) -> Result<Rows> {
        let reads = statement.plan.reads();
        let mut repeats = 0;
        let mut lost = false;
        loop {
            let place = lane.place().await?;
            let live = Arc::clone(&place.live);
            // What may take long ends with whoever asked for it.
            let (place, scan) = match own.take() {
                None => (Some(place), None),
                Some(own) => (None, Some(Scan::new(&self.connector, place, own))),
            };
            let mut taken = rows.clone();
            let outcome =
                tokio::time::timeout(self.patience, run::run(&live, statement, args, &mut taken))
                    .await;
            let Ok(outcome) = outcome else {
                if let Some(place) = place {
                    place.abandon();
                }
                return Err(Error::unavailable("the database does not answer"));
            };
            own = scan.and_then(Scan::over);
            let failure = match outcome {
                Ok(()) => return Ok(taken),
                Err(failure) => failure,
            };
            // A write that may have been done is never run again: nobody knows. One that has not
            // gets another way.
            let again = match &failure {
                Failure::Unsent(_) => !std::mem::replace(&mut lost, true),
                Failure::Server(e) if reads && error::is_lost(e) => {
                    !std::mem::replace(&mut lost, true)
                }
                Failure::Server(e) if reads && error::may_repeat(e) && repeats < REPEATS => {
                    repeats += 1;
                    true
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
        let place = lane.place().await?;
        place
            .live
            .client
            .simple_query("SELECT 1")
            .await
            .map(drop)
            .map_err(Error::unavailable)
    }

    async fn finish(&self) {
        let sessions =
            async { tokio::join!(self.sessions.close(PATIENCE), self.recorded.close(PATIENCE)) };
        let scans = async {
            self.brief.close(PATIENCE).await;
            self.places.close(PATIENCE).await;
            self.scans.close(PATIENCE).await;
        };
        tokio::join!(
            self.reads.close(PATIENCE),
            scans,
            self.writes.close(PATIENCE),
            sessions,
            self.courier.close()
        );
        if tokio::time::timeout(PATIENCE, self.pool.close())
            .await
            .is_err()
        {
            tracing::warn!("a connection of the pool was still in use when the store was closed");
        }
    }
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

    // A statement that has waited for a record counts what was there when it began to wait.
    fn computes(&self, last: bool) -> bool {
        !last
    }

    fn prepare(&self, entity: &'static EntityDesc, plan: Plan) -> Result<Arc<Statement>> {
        let native = Box::new(Native::new(entity, &plan)?);
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
        self.begin_with(Patience::Once)
    }

    fn begin_with(&self, patience: Patience) -> BoxFuture<'_, Result<Box<dyn Transaction>>> {
        Box::pin(async move {
            Ok(Box::new(self.sessions.begin(patience).await?) as Box<dyn Transaction>)
        })
    }

    fn outbox(&self) -> Option<&dyn Outbox> {
        Some(self)
    }

    fn native(&self) -> Option<Box<dyn std::any::Any + Send + Sync>> {
        Some(Box::new(self.pool.clone()))
    }

    fn sql(&self) -> Option<Arc<dyn SqlDriver>> {
        Some(Arc::new(driver::Driver(self.pool.clone())))
    }

    fn install<'a>(&'a self, entities: &'a [&'static EntityDesc]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.connector.probe().await?;
            schema::install(&self.pool, entities).await
        })
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
