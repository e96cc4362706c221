//! Connections for schema changes, and the lock of a process that runs migrations.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use linchpin_core::schema::{
    Dialect, Locking, SchemaError, SchemaFault, SchemaLock, SchemaSession, SchemaStore,
};
use linchpin_core::{BoxFuture, Error, causes};
use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, PgConnection, Row};

use super::dialect::PostgresDialect;
use super::fault;
use super::session::Session;
use crate::connect::Connector;
use crate::{PostgresOptions, connect_options};

/// The oldest supported version of the server.
const OLDEST_VERSION: i32 = 130_000;
/// The key of the advisory lock of migrations: the bytes of `linchpn2`.
const LOCK: i64 = 0x6c69_6e63_6870_6e32;
/// The time limit for an answer of the server when the lock is checked.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Settings of a session that must not depend on the role or the database.
const SETTINGS: [&str; 4] = [
    "SET statement_timeout = 0",
    "SET synchronous_commit = on",
    "SET client_min_messages = warning",
    "SET idle_in_transaction_session_timeout = 0",
];

/// Opens connections. A clone opens connections to the same database.
#[derive(Clone)]
pub(crate) struct Schema {
    options: PgConnectOptions,
    settings: Arc<[String]>,
    connect_timeout: Duration,
    /// Set after a check that no pooler in transaction mode is between this process and the server.
    direct: Arc<OnceLock<()>>,
    /// The connector of the open store. If it is set, a session checks that the server accepts
    /// writes.
    probe: Option<Arc<Connector>>,
}

impl Schema {
    /// Creates the schema without a connection.
    ///
    /// # Errors
    /// If the URL is invalid; the message never contains a password.
    pub(crate) fn new(options: &PostgresOptions, connector: &Connector) -> Result<Self, Error> {
        // The name of this process. Another process that cannot take the lock shows this name in
        // its error.
        let name = format!("linchpin process {} on {}", std::process::id(), host());
        Ok(Self {
            options: connect_options(options)?
                .application_name(&name)
                .extra_float_digits(None)
                .disable_statement_logging(),
            settings: connector.settings().map(str::to_owned).collect(),
            connect_timeout: options.connect_timeout,
            direct: Arc::default(),
            probe: None,
        })
    }

    /// Makes this the schema of an open store. If the server cannot be reached or accepts no
    /// writes, a session is refused with the error of the store.
    pub(crate) fn of_server(mut self, connector: &Arc<Connector>) -> Self {
        self.probe = Some(Arc::clone(connector));
        self
    }

    /// Opens a connection with its settings.
    pub(super) async fn open(&self) -> Result<PgConnection, SchemaError> {
        let open = async {
            let mut connection = self.options.connect().await?;
            let own = SETTINGS.into_iter();
            let all: Vec<&str> = self
                .settings
                .iter()
                .map(String::as_str)
                .chain(own)
                .collect();
            // The settings consist of numbers and fixed text only.
            sqlx::raw_sql(AssertSqlSafe(all.join("; ")))
                .execute(&mut connection)
                .await?;
            Ok(connection)
        };
        match tokio::time::timeout(self.connect_timeout, open).await {
            Ok(opened) => opened.map_err(fault::of),
            Err(_) => Err(SchemaError::new(
                SchemaFault::Unreachable,
                format!(
                    "the database server does not answer within {:?}",
                    self.connect_timeout
                ),
            )),
        }
    }

    async fn lock(&self) -> Result<Locking, SchemaError> {
        let mut connection = self.open().await?;
        let pid = backend(&mut connection).await.map_err(fault::of)?;
        self.refuse_pooler(&mut connection, pid).await?;
        let taken = one(
            &mut connection,
            &format!("SELECT pg_try_advisory_lock({LOCK})"),
        )
        .await
        .and_then(|row| row.try_get(0))
        .map_err(fault::of)?;
        if taken {
            return Ok(Locking::Taken(Box::new(Lock {
                schema: self.clone(),
                connection,
                pid,
            })));
        }
        holder(&mut connection)
            .await
            .map(Locking::Busy)
            .map_err(fault::of)
    }

    /// Refuses a pooler in transaction mode. Two direct connections have different server
    /// processes. With such a pooler, both connections can get the same server process, one after
    /// the other.
    async fn refuse_pooler(
        &self,
        connection: &mut PgConnection,
        pid: i32,
    ) -> Result<(), SchemaError> {
        // A process that waits for the lock calls this often; one check is enough.
        if self.direct.get().is_some() {
            return Ok(());
        }
        let mut other = self.open().await?;
        for _ in 0..3 {
            let second = backend(&mut other).await.map_err(fault::of)?;
            let first = backend(&mut *connection).await.map_err(fault::of)?;
            if first != pid || second == pid {
                return Err(pooler());
            }
        }
        self.direct.get_or_init(|| ());
        Ok(())
    }
}

fn pooler() -> SchemaError {
    SchemaError::new(
        SchemaFault::Pooler,
        "the connection goes through a pooler in transaction mode, which does not keep prepared \
         statements, settings or the lock of a migration; set `pool_mode = session` in the \
         pooler, or use the address of the server itself",
    )
}

/// The name of this machine.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() {
        std::env::var("HOSTNAME").unwrap_or_else(|_| "an unknown host".to_owned())
    } else {
        name.to_owned()
    }
}

/// Runs a fixed text in the simple protocol, and returns its only row.
pub(super) async fn one(connection: &mut PgConnection, sql: &str) -> sqlx::Result<PgRow> {
    sqlx::raw_sql(AssertSqlSafe(sql))
        .fetch_one(connection)
        .await
}

/// The process id of the session's server process.
pub(super) async fn backend(connection: &mut PgConnection) -> sqlx::Result<i32> {
    one(connection, "SELECT pg_backend_pid()").await?.try_get(0)
}

/// Describes the session that has the lock.
async fn holder(connection: &mut PgConnection) -> sqlx::Result<String> {
    let text = format!(
        "SELECT 'session ' || l.pid || coalesce(' of ' || nullif(a.application_name, ''), '') \
         || coalesce(' from ' || host(a.client_addr), '') \
         || coalesce(' since ' || to_char(a.backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), '') \
         FROM {LOCKS} LEFT JOIN pg_stat_activity a ON a.pid = l.pid WHERE {IS_MIGRATION_LOCK} LIMIT 1"
    );
    let row = sqlx::raw_sql(AssertSqlSafe(text))
        .fetch_optional(connection)
        .await?;
    match row {
        Some(row) => row.try_get(0),
        None => Ok("a session that has just ended".to_owned()),
    }
}

/// The table of locks in the catalog.
const LOCKS: &str = "pg_locks l";
/// The condition for the lock of migrations in the catalog: the two halves of its key, in this
/// database.
const IS_MIGRATION_LOCK: &str = "l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 \
    AND l.classid = 1818848867::oid AND l.objid = 1752198706::oid \
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())";

struct Lock {
    /// Opens another connection, to distinguish a lost lock from a server that cannot be reached.
    schema: Schema,
    connection: PgConnection,
    pid: i32,
}

fn lost() -> SchemaError {
    SchemaError::new(
        SchemaFault::LockLost,
        "the connection that holds the lock of the migration has ended",
    )
}

impl SchemaLock for Lock {
    fn check(&mut self) -> BoxFuture<'_, Result<(), SchemaError>> {
        Box::pin(async move {
            let sql = format!(
                "SELECT pg_backend_pid(), EXISTS (SELECT FROM {LOCKS} WHERE {IS_MIGRATION_LOCK} AND l.pid = pg_backend_pid())"
            );
            let look = async {
                let row = one(&mut self.connection, &sql).await?;
                Ok((row.try_get::<i32, _>(0)?, row.try_get::<bool, _>(1)?))
            };
            match tokio::time::timeout(ANSWER_TIMEOUT, look).await {
                Err(_) => Err(SchemaError::new(
                    SchemaFault::Unreachable,
                    "the database server does not answer",
                )),
                Ok(Err(error)) => {
                    let error = fault::of(error);
                    let ended = error.fault == SchemaFault::Unreachable;
                    // If the server can still be reached, the lock was released with its
                    // connection.
                    Err(match self.schema.open().await {
                        Ok(_) if ended => lost(),
                        _ => error,
                    })
                }
                Ok(Ok((pid, _))) if pid != self.pid => Err(pooler()),
                Ok(Ok((_, false))) => Err(lost()),
                Ok(Ok((_, true))) => Ok(()),
            }
        })
    }
}

impl SchemaStore for Schema {
    fn dialect(&self) -> &'static dyn Dialect {
        &PostgresDialect
    }

    fn database(&self) -> String {
        self.options
            .get_database()
            .unwrap_or_else(|| self.options.get_username())
            .to_owned()
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn SchemaSession>, SchemaError>> {
        Box::pin(async move {
            if let Some(connector) = &self.probe {
                connector.probe().await.map_err(|error| {
                    let why: Vec<String> = causes(&error).map(ToString::to_string).collect();
                    SchemaError::new(SchemaFault::Unreachable, why.join(": "))
                })?;
            }
            // An app takes no lock at its start, but must not use a pooler in transaction mode
            // either.
            if self.direct.get().is_none() {
                let mut connection = self.open().await?;
                let pid = backend(&mut connection).await.map_err(fault::of)?;
                self.refuse_pooler(&mut connection, pid).await?;
            }
            Ok(Box::new(self.session().await?) as Box<dyn SchemaSession>)
        })
    }

    fn try_lock(&self) -> BoxFuture<'_, Result<Locking, SchemaError>> {
        Box::pin(self.lock())
    }
}

impl Schema {
    /// Opens a session, and checks the server.
    pub(super) async fn session(&self) -> Result<Session, SchemaError> {
        let mut connection = self.open().await?;
        let facts = "SELECT current_setting('server_version_num')::int4, \
             current_setting('server_encoding'), current_schema()::text";
        let row = one(&mut connection, facts).await.map_err(fault::of)?;
        let read = || Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
        let (version, encoding, schema): (i32, String, Option<String>) =
            read().map_err(fault::of)?;
        let unsupported = |what: String| Err(SchemaError::new(SchemaFault::Unsupported, what));
        if version < OLDEST_VERSION {
            return unsupported(format!(
                "the server has version {}.{}; version 13 or newer is needed",
                version / 10_000,
                version % 10_000
            ));
        }
        if encoding != "UTF8" {
            return unsupported(format!(
                "the database keeps texts as {encoding}; UTF8 is needed"
            ));
        }
        if schema.is_none() {
            return unsupported(
                "the search path of the role names no schema that exists; create the schema, or \
                 set `search_path`"
                    .to_owned(),
            );
        }
        Ok(Session::new(self.clone(), connection))
    }
}
