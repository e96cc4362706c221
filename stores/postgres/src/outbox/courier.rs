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

/// A leader holds this lock as long as its connection lives, so a leader that ended is replaced at
/// once. The lease also ends if the leader does not answer any more.
const LOCK: &str = "SELECT pg_try_advisory_lock(('linchpin_outbox'::regclass::oid::bigint - 2147483648)::int, hashtext($1))";
const UNLOCK: &str = "SELECT pg_advisory_unlock(('linchpin_outbox'::regclass::oid::bigint - 2147483648)::int, hashtext($1))";
/// A consumer without a leader may have one of the first release, which holds the lock alone.
const LEAD: &str = "UPDATE linchpin_consumers SET leader = $2, locked = $3, until = clock_timestamp() + $4::float8 * interval '1 millisecond', \
     fence = fence + CASE WHEN leader IS DISTINCT FROM $2 THEN 1 ELSE 0 END \
     WHERE name = $1 AND (leader = $2 OR (leader IS NULL AND $3) OR until < clock_timestamp() OR ($3 AND locked)) RETURNING fence";
const RESIGN: &str =
    "UPDATE linchpin_consumers SET leader = NULL, until = NULL WHERE name = $1 AND leader = $2";
/// Detects a broken connection to this process soon, so that another process takes over.
const SETTINGS: &str =
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3";

/// The connection that delivers events.
pub(crate) struct Courier {
    /// The name of this process among the leaders.
    leader: String,
    connector: Arc<Connector>,
    state: Mutex<State>,
    /// The time limit for an answer.
    patience: Duration,
}

enum State {
    Apart,
    Connected(Held),
    Closed,
}

struct Held {
    live: Arc<Live>,
    /// The consumers whose lock this connection holds.
    locks: HashSet<String>,
}

impl Courier {
    pub(crate) fn new(connector: &Arc<Connector>, patience: Duration) -> Self {
        Self {
            leader: Uuid::new_v7().to_string(),
            connector: Arc::clone(connector),
            state: Mutex::new(State::Apart),
            patience,
        }
    }

    /// Closes the connection, which releases its locks; no other is opened.
    pub(crate) async fn close(&self) {
        *self.state.lock().await = State::Closed;
    }

    /// The connection; replaced if it is broken.
    async fn connection<'a>(&self, state: &'a mut State) -> Result<&'a mut Held> {
        let broken = match state {
            State::Closed => return Err(closed()),
            State::Apart => true,
            State::Connected(held) => held.live.client.is_closed(),
        };
        if broken {
            *state = State::Apart;
            let connect = async {
                let (client, connection) = self.connector.connect().await?;
                tokio::spawn(connection);
                self.connector.prepare(&client).await?;
                client.batch_execute(SETTINGS).await?;
                Ok(client)
            };
            let client = self.patiently(connect).await?;
            *state = State::Connected(Held {
                live: Arc::new(Live::new(client)),
                locks: HashSet::new(),
            });
        }
        match state {
            State::Connected(held) => Ok(held),
            State::Apart | State::Closed => Err(closed()),
        }
    }

    /// Takes or renews the lease of a consumer; returns its fencing number.
    pub(super) async fn lead(&self, consumer: &str, lease: Duration) -> Result<Option<i64>> {
        let (live, mut locked) = {
            let mut state = self.state.lock().await;
            let held = self.connection(&mut state).await?;
            (Arc::clone(&held.live), held.locks.contains(consumer))
        };
        if !locked {
            let rows = self.run(&live, LOCK, &[(&consumer, Type::TEXT)]).await?;
            let taken = rows.first().map_or(Ok(false), |row| row.try_get(0));
            locked = taken.map_err(Error::internal)?;
            if locked
                && let State::Connected(held) = &mut *self.state.lock().await
                && held.live.id == live.id
            {
                held.locks.insert(consumer.to_owned());
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

    /// Gives the leases of consumers up.
    pub(super) async fn resign(&self, consumers: &[&str]) -> Result<()> {
        let live = self.any().await?;
        for consumer in consumers {
            let values: [(&(dyn ToSql + Sync), Type); 2] =
                [(consumer, Type::TEXT), (&self.leader, Type::TEXT)];
            self.run(&live, RESIGN, &values).await?;
            let locked = match &mut *self.state.lock().await {
                State::Connected(held) => held.live.id == live.id && held.locks.remove(*consumer),
                State::Apart | State::Closed => false,
            };
            if locked {
                self.run(&live, UNLOCK, &[(consumer, Type::TEXT)]).await?;
            }
        }
        Ok(())
    }

    /// The connection, for work that any process may do.
    pub(super) async fn any(&self) -> Result<Arc<Live>> {
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
        let outcome = self.patiently(live.client.query_typed(sql, values)).await;
        if outcome
            .as_ref()
            .is_err_and(|error| error.code() == Code::Unavailable)
        {
            let mut state = self.state.lock().await;
            if matches!(&*state, State::Connected(held) if held.live.id == live.id) {
                // Broken or silent; its locks end with it.
                *state = State::Apart;
            }
        }
        outcome
    }

    async fn patiently<T>(
        &self,
        work: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        match tokio::time::timeout(self.patience, work).await {
            Ok(outcome) => outcome.map_err(error::plain),
            Err(_) => Err(Error::unavailable("the database does not answer")),
        }
    }
}
