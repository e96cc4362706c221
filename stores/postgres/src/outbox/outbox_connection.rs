//! The connection that delivers events, and the leases of this process.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio_postgres::types::{ToSql, Type};

use crate::connect::Connector;
use crate::lane::Live;
use crate::{closed, error};
use linchpin_core::{Code, Error, Result, Uuid};

/// A leader holds this advisory lock as long as its connection is open, so a leader whose process
/// has ended is replaced immediately. The lease also replaces a leader that no longer answers.
const LOCK: &str = "SELECT pg_try_advisory_lock(('linchpin_outbox'::regclass::oid::bigint - 2147483648)::int, hashtext($1))";
const UNLOCK: &str = "SELECT pg_advisory_unlock(('linchpin_outbox'::regclass::oid::bigint - 2147483648)::int, hashtext($1))";
/// Processes of the first release hold only the advisory lock and set no `leader`. A consumer
/// without a leader is therefore taken only with the lock.
const LEAD: &str = "UPDATE linchpin_consumers SET leader = $2, locked = $3, until = clock_timestamp() + $4::float8 * interval '1 millisecond', \
     fence = fence + CASE WHEN leader IS DISTINCT FROM $2 THEN 1 ELSE 0 END \
     WHERE name = $1 AND (leader = $2 OR (leader IS NULL AND $3) OR until < clock_timestamp() OR ($3 AND locked)) RETURNING fence";
const RESIGN: &str =
    "UPDATE linchpin_consumers SET leader = NULL, until = NULL WHERE name = $1 AND leader = $2";
/// The server detects a broken connection to this process within about 25 seconds; then another
/// process takes over.
const SETTINGS: &str =
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3";

/// The connection that delivers events.
pub(crate) struct OutboxConnection {
    /// The id of this process in the column `leader`.
    leader: String,
    connector: Arc<Connector>,
    state: Mutex<State>,
    /// The time limit for an answer.
    answer_timeout: Duration,
}

enum State {
    Disconnected,
    Connected(OpenConnection),
    Closed,
}

struct OpenConnection {
    live: Arc<Live>,
    /// The consumers whose lock this connection holds.
    locks: HashSet<String>,
}

impl OutboxConnection {
    pub(crate) fn new(connector: &Arc<Connector>, answer_timeout: Duration) -> Self {
        Self {
            leader: Uuid::new_v7().to_string(),
            connector: Arc::clone(connector),
            state: Mutex::new(State::Disconnected),
            answer_timeout,
        }
    }

    /// Closes the connection, which releases its locks. No other connection is opened after that.
    pub(crate) async fn close(&self) {
        *self.state.lock().await = State::Closed;
    }

    /// Returns the connection. A broken connection is replaced.
    async fn connection<'a>(&self, state: &'a mut State) -> Result<&'a mut OpenConnection> {
        let broken = match state {
            State::Closed => return Err(closed()),
            State::Disconnected => true,
            State::Connected(open) => open.live.client.is_closed(),
        };
        if broken {
            *state = State::Disconnected;
            let connect = async {
                let (client, connection) = self.connector.connect().await?;
                tokio::spawn(connection);
                self.connector.prepare(&client).await?;
                client.batch_execute(SETTINGS).await?;
                Ok(client)
            };
            let client = self.in_time(connect).await?;
            *state = State::Connected(OpenConnection {
                live: Arc::new(Live::new(client)),
                locks: HashSet::new(),
            });
        }
        match state {
            State::Connected(open) => Ok(open),
            State::Disconnected | State::Closed => Err(closed()),
        }
    }

    /// Takes or renews the lease of a consumer. Returns its fencing number, or `None` if another
    /// process leads.
    pub(super) async fn lead(&self, consumer: &str, lease: Duration) -> Result<Option<i64>> {
        let (live, mut locked) = {
            let mut state = self.state.lock().await;
            let open = self.connection(&mut state).await?;
            (Arc::clone(&open.live), open.locks.contains(consumer))
        };
        if !locked {
            let rows = self.run(&live, LOCK, &[(&consumer, Type::TEXT)]).await?;
            let taken = rows.first().map_or(Ok(false), |row| row.try_get(0));
            locked = taken.map_err(Error::internal)?;
            if locked
                && let State::Connected(open) = &mut *self.state.lock().await
                && open.live.id == live.id
            {
                open.locks.insert(consumer.to_owned());
            }
        }
        let millis = lease.as_secs_f64() * 1000.0;
        let values: [(&(dyn ToSql + Sync), Type); 4] = [
            (&consumer, Type::TEXT),
            (&self.leader, Type::TEXT),
            (&locked, Type::BOOL),
            (&millis, Type::FLOAT8),
        ];
        let rows = self.run(&live, LEAD, &values).await?;
        let fence = rows.first().map(|row| row.try_get(0)).transpose();
        fence.map_err(Error::internal)
    }

    /// Gives up the leases of consumers.
    pub(super) async fn resign(&self, consumers: &[&str]) -> Result<()> {
        let live = self.live().await?;
        for consumer in consumers {
            let values: [(&(dyn ToSql + Sync), Type); 2] =
                [(consumer, Type::TEXT), (&self.leader, Type::TEXT)];
            self.run(&live, RESIGN, &values).await?;
            let locked = match &mut *self.state.lock().await {
                State::Connected(open) => open.live.id == live.id && open.locks.remove(*consumer),
                State::Disconnected | State::Closed => false,
            };
            if locked {
                self.run(&live, UNLOCK, &[(consumer, Type::TEXT)]).await?;
            }
        }
        Ok(())
    }

    /// Returns the connection, for work that needs no lease.
    pub(super) async fn live(&self) -> Result<Arc<Live>> {
        Ok(Arc::clone(
            &self.connection(&mut *self.state.lock().await).await?.live,
        ))
    }

    pub(super) async fn run(
        &self,
        live: &Live,
        sql: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<tokio_postgres::Row>> {
        let outcome = self.in_time(live.client.query_typed(sql, values)).await;
        if outcome
            .as_ref()
            .is_err_and(|error| error.code() == Code::Unavailable)
        {
            let mut state = self.state.lock().await;
            if matches!(&*state, State::Connected(open) if open.live.id == live.id) {
                // The connection is broken or does not answer. Its locks end with it.
                *state = State::Disconnected;
            }
        }
        outcome
    }

    async fn in_time<T>(
        &self,
        work: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        match tokio::time::timeout(self.answer_timeout, work).await {
            Ok(outcome) => outcome.map_err(error::plain),
            Err(_) => Err(Error::unavailable("the database does not answer")),
        }
    }
}
