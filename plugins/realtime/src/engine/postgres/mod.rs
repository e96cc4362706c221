//! The engine on `PostgreSQL`: several nodes need no server except their database.
//!
//! A batch of frames is appended by one statement. Then the node sends one `NOTIFY`, at most every
//! 5 ms, on a separate connection. The notified nodes read the frames after their places. A lost
//! notification does no harm: after each new connection, and every 5 seconds, a node compares all
//! its streams with their tops.

mod listener;
mod notice;
mod notifier;
mod presence;
mod reader;
mod schema;
mod streams;

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use linchpin::BoxFuture;
use parking_lot::Mutex;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::notifier::{Notifier, To as Receiver};
use self::reader::Reader;
use super::feed::{Feeds, Source, Subscription, read_history};
use super::node::ControlSender;
use super::{
    Append, Attendance, Clock, Controls, Engine, EngineError, Facts, LEASE, Member, NodeId,
    Position, PresenceChanges, Present, Result, Slice, Stream, To, check_message,
};

/// The time limit of a statement.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a call waits for a new connection after the old one was lost.
const RECONNECT: Duration = Duration::from_millis(300);
/// The SQLSTATE of a fence that is too low.
const FENCED: &str = "LR001";

/// The address of the database, and limits of its use.
#[derive(Clone)]
pub struct PostgresEngineOptions {
    /// `postgres://user:password@host:port/database`; usually the database of the app.
    pub url: String,
    /// The maximum number of connections for reads and writes. Two further connections listen and
    /// notify.
    pub connections: u32,
}

impl PostgresEngineOptions {
    /// 4 connections.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            connections: 4,
        }
    }
}

impl fmt::Debug for PostgresEngineOptions {
    // The output omits the URL, because it contains a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresEngineOptions")
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

/// The engine on `PostgreSQL`, for several nodes. It creates its tables, `linchpin_realtime_*`, at
/// its start, in the first schema of the search path.
pub struct PostgresEngine(Arc<Inner>);

struct Inner {
    node: NodeId,
    clock: Clock,
    pool: PgPool,
    /// The pool for the connection that sends notifications. If this connection hangs, the pool
    /// opens a second one.
    notify_pool: PgPool,
    /// The pool for the connection that listens. If this connection hangs, the pool opens a second
    /// one.
    listen_pool: PgPool,
    feeds: Arc<Feeds>,
    controls: ControlSender,
    notifier: Notifier,
    reader: Reader,
    /// The channel of `NOTIFY`, known after the start.
    channel: OnceLock<String>,
    state: watch::Sender<State>,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The node receives no frames.
    Disconnected,
    Connected,
    Closed,
}

impl fmt::Debug for PostgresEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresEngine")
            .field("node", &self.node)
            .field("state", &*self.state.borrow())
            .finish_non_exhaustive()
    }
}

/// Converts an error of the driver. Errors of a server that is restarting are `Unavailable`, so the
/// call can be repeated. The same holds if another node appended the same event first.
fn error(error: sqlx::Error) -> EngineError {
    let Some(database) = error.as_database_error() else {
        return EngineError::unavailable(error);
    };
    let code = database.code().unwrap_or_default().into_owned();
    if code == FENCED {
        let detail = database
            .try_downcast_ref::<sqlx::postgres::PgDatabaseError>()
            .and_then(|database| database.detail());
        let seen = detail
            .and_then(|seen| seen.parse().ok())
            .unwrap_or(u64::MAX);
        return EngineError::Fenced { seen };
    }
    // Classes of SQLSTATE: connection, rollback, resources, operator intervention, system error.
    // Also a unique violation, if two nodes appended one event at once.
    let retryable = ["08", "40", "53", "55", "57", "58"];
    if retryable.iter().any(|class| code.starts_with(class)) || code == "23505" {
        EngineError::unavailable(error)
    } else {
        EngineError::failed(error)
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

/// Functions for tests.
#[cfg(feature = "test-util")]
impl PostgresEngine {
    /// Removes outdated rows now. A running engine does this every minute.
    ///
    /// # Errors
    /// [`Unavailable`](EngineError::Unavailable).
    pub async fn remove_outdated(&self) -> Result<()> {
        reader::clean(&self.0).await
    }
}

impl PostgresEngine {
    /// Creates an engine that connects when it is started. It needs a tokio runtime.
    ///
    /// # Errors
    /// [`Failed`](EngineError::Failed) if the URL is not valid; the message contains no password.
    pub fn new(options: &PostgresEngineOptions, clock: Clock) -> Result<Self> {
        let connect = PgConnectOptions::from_str(&options.url)
            .map_err(|e| EngineError::failed(format!("the database URL is not valid: {e}")))?
            .application_name("linchpin-realtime")
            .options([(
                "statement_timeout",
                STATEMENT_TIMEOUT.as_millis().to_string(),
            )]);
        let pool = |connections: u32| {
            PgPoolOptions::new()
                .max_connections(connections.max(1))
                .min_connections(0)
                .acquire_timeout(STATEMENT_TIMEOUT)
                .test_before_acquire(false)
                .connect_lazy_with(connect.clone())
        };
        Ok(Self(Arc::new(Inner {
            node: NodeId::random(),
            clock,
            pool: pool(options.connections),
            notify_pool: pool(2),
            listen_pool: pool(2),
            feeds: Arc::default(),
            controls: ControlSender::default(),
            notifier: Notifier::new(),
            reader: Reader::default(),
            channel: OnceLock::new(),
            state: watch::Sender::new(State::Disconnected),
            tasks: Mutex::default(),
        })))
    }
}

impl Inner {
    /// Waits a short time for the connection.
    async fn connected(&self) -> Result<()> {
        let mut state = self.state.subscribe();
        let known = state.wait_for(|state| *state != State::Disconnected);
        match tokio::time::timeout(RECONNECT, known).await {
            Ok(Ok(state)) if *state == State::Connected => Ok(()),
            Ok(_) => Err(EngineError::unavailable("the engine is closed")),
            Err(_) => Err(EngineError::unavailable(
                "there is no connection to the database",
            )),
        }
    }

    /// Runs a statement within its time limit.
    async fn run<T>(&self, statement: impl Future<Output = sqlx::Result<T>>) -> Result<T> {
        self.connected().await?;
        match tokio::time::timeout(STATEMENT_TIMEOUT, statement).await {
            Ok(outcome) => outcome.map_err(error),
            Err(_) => Err(EngineError::unavailable("the database does not answer")),
        }
    }

    async fn start(self: &Arc<Self>) -> Result<()> {
        let prepare = async {
            let mut connection = self.pool.acquire().await.map_err(error)?;
            schema::install(&mut connection).await?;
            // Each schema of a database may hold another app, so the channel depends on the schema.
            let oid: i64 =
                sqlx::query_scalar("SELECT 'linchpin_realtime_streams'::regclass::oid::bigint")
                    .fetch_one(&mut *connection)
                    .await
                    .map_err(error)?;
            Ok(format!("linchpin_realtime_{oid}"))
        };
        let channel = match tokio::time::timeout(STATEMENT_TIMEOUT, prepare).await {
            Ok(prepared) => prepared?,
            Err(_) => return Err(EngineError::unavailable("the database does not answer")),
        };
        if self.channel.set(channel.clone()).is_err() {
            // The engine is already running.
            return self.connected().await;
        }
        {
            let mut tasks = self.tasks.lock();
            let inner = Arc::clone(self);
            tasks.spawn(async move { listener::run(&inner).await });
            let inner = Arc::clone(self);
            tasks.spawn(async move { inner.reader.run(&inner).await });
            let inner = Arc::clone(self);
            tasks.spawn(async move { reader::sweep(&inner).await });
            let inner = Arc::clone(self);
            tasks.spawn(async move { reader::tidy(&inner).await });
            let inner = Arc::clone(self);
            tasks.spawn(async move {
                let (pool, clock) = (inner.notify_pool.clone(), Arc::clone(&inner.clock));
                inner.notifier.run(pool, channel, inner.node, clock).await;
            });
        }
        let mut state = self.state.subscribe();
        let connected = state.wait_for(|state| *state == State::Connected);
        match tokio::time::timeout(STATEMENT_TIMEOUT, connected).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(EngineError::unavailable(
                "the engine cannot LISTEN on the database",
            )),
        }
    }

    async fn send(&self, to: Receiver, message: Bytes) -> Result<()> {
        check_message(&message)?;
        self.connected().await?;
        self.notifier.send(to, message).await
    }

    /// Runs a function that returns ids of users.
    async fn users(
        &self,
        query: sqlx::query::QueryScalar<'_, sqlx::Postgres, String, sqlx::postgres::PgArguments>,
    ) -> Result<Vec<String>> {
        self.run(query.fetch_all(&self.pool)).await
    }

    async fn close(&self) {
        self.state.send_replace(State::Closed);
        self.feeds.close();
        self.controls.close();
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
        let pools = [&self.pool, &self.notify_pool, &self.listen_pool];
        for pool in pools {
            // A hanging connection must not delay the end of the app.
            let _ = tokio::time::timeout(STATEMENT_TIMEOUT, pool.close()).await;
        }
    }
}

impl Engine for PostgresEngine {
    fn facts(&self) -> Facts {
        Facts {
            name: "postgres",
            persistent: true,
            cluster: true,
        }
    }

    fn node(&self) -> &NodeId {
        &self.0.node
    }

    fn start(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.0.start())
    }

    fn append<'a>(&'a self, batch: &'a [Append]) -> BoxFuture<'a, Result<Vec<Position>>> {
        Box::pin(streams::append(&self.0, batch))
    }

    fn read<'a>(
        &'a self,
        stream: &'a Stream,
        after: u64,
        max: usize,
    ) -> BoxFuture<'a, Result<Slice>> {
        Box::pin(read_history(&*self.0, &self.0.clock, stream, after, max))
    }

    fn top<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Position>> {
        Box::pin(async { Ok(self.0.entries(stream, u64::MAX, 0).await?.top) })
    }

    fn subscribe<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Subscription>> {
        let source = Arc::clone(&self.0) as Arc<dyn Source>;
        Box::pin(self.0.feeds.subscribe(source, stream))
    }

    fn renew(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.0.renew())
    }

    fn send<'a>(&'a self, stream: &'a Stream, message: Bytes) -> BoxFuture<'a, Result<()>> {
        Box::pin(
            self.0
                .send(Receiver::Stream(stream.name().to_owned()), message),
        )
    }

    fn control<'a>(&'a self, to: To<'a>, message: Bytes) -> BoxFuture<'a, Result<()>> {
        let to = match to {
            To::Node(node) => Receiver::Node(*node),
            To::All => Receiver::All,
        };
        Box::pin(self.0.send(to, message))
    }

    fn controls(&self) -> Controls {
        self.0.controls.receiver()
    }

    fn presence_enter<'a>(
        &'a self,
        stream: &'a Stream,
        users: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<String>>> {
        let now = (self.0.clock)();
        Box::pin(
            self.0.users(
                sqlx::query_scalar("SELECT linchpin_realtime_enter($1, $2, $3, $4, $5)")
                    .bind(stream.name())
                    .bind(users)
                    .bind(self.0.node.as_str())
                    .bind(now.millis())
                    .bind(millis(LEASE)),
            ),
        )
    }

    fn presence_leave<'a>(
        &'a self,
        stream: &'a Stream,
        users: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<String>>> {
        Box::pin(
            self.0.users(
                sqlx::query_scalar("SELECT linchpin_realtime_leave($1, $2, $3)")
                    .bind(stream.name())
                    .bind(users)
                    .bind(self.0.node.as_str()),
            ),
        )
    }

    fn presence_expire<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Vec<String>>> {
        let now = (self.0.clock)();
        Box::pin(
            self.0.users(
                sqlx::query_scalar("SELECT linchpin_realtime_expire($1, $2)")
                    .bind(stream.name())
                    .bind(now.millis()),
            ),
        )
    }

    fn presence_renew<'a>(
        &'a self,
        all: &'a [Attendance],
    ) -> BoxFuture<'a, Result<Vec<PresenceChanges>>> {
        Box::pin(presence::renew(&self.0, all))
    }

    fn presence<'a>(&'a self, stream: &'a Stream, max: usize) -> BoxFuture<'a, Result<Present>> {
        let now = (self.0.clock)();
        Box::pin(async move {
            // Read at least one row, because each row contains the number of all users.
            let query = sqlx::query_as::<_, (String, i64, i64)>(
                "SELECT member, min(since), count(*) OVER () FROM linchpin_realtime_presence \
                 WHERE stream = $1 AND until > $2 GROUP BY member ORDER BY 2, 1 LIMIT $3",
            )
            .bind(stream.name())
            .bind(now.millis())
            .bind(i64::try_from(max.max(1)).unwrap_or(i64::MAX));
            let rows = self.0.run(query.fetch_all(&self.0.pool)).await?;
            let count = rows.first().map_or(0, |(_, _, count)| *count);
            let users = rows.into_iter().take(max).map(|(user, since, _)| Member {
                user,
                since: linchpin::Timestamp::from_millis(since),
            });
            Ok(Present {
                users: users.collect(),
                count: usize::try_from(count).unwrap_or_default(),
            })
        })
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            let query = sqlx::query("SELECT 1 FROM linchpin_realtime_schema");
            self.0.run(query.execute(&self.0.pool)).await.map(drop)
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.close())
    }
}
