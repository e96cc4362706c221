//! The outbox on the server: events are rows, written in the transaction of the change.
//!
//! Transactions commit in another order than they take numbers, so one number cannot be the
//! position of a consumer: if it passed the number of an open transaction, the events of that
//! transaction would be lost. Instead, the position is a *set* of processed numbers, stored as
//! ranges. A consumer gets the rows that are not in the set. Nothing waits: an event is delivered
//! as soon as it is committed. Two transactions that change one record take their numbers while
//! they lock that record, so events of a record are in order within every read, and from one read
//! to the next.
//!
//! A rollback leaves a hole in the set. A hole is closed when it can no longer be filled: every
//! transaction that was open when a higher number was seen has ended, and there is no row.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Connection as _;
use tokio::sync::Mutex;
use tokio_postgres::types::{ToSql, Type};

use super::connect::Connector;
use super::lane::Live;
use super::native::Sql;
use super::row::Raw;
use super::{PostgresStore, bind, closed, error, schema};
use linchpin_core::BoxFuture;
use linchpin_core::event::Entry;
use linchpin_core::store::Outbox;
use linchpin_core::{Code, Error, Result, Timestamp, Uuid};

/// The sequence has no cache: numbers must ascend across connections.
const TABLES: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS linchpin_outbox (seq BIGINT GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY, id UUID NOT NULL, \
     entity TEXT NOT NULL, record TEXT, at TIMESTAMPTZ(3) NOT NULL, event JSON NOT NULL)",
    // `mark` is a number that was seen, and `since` is a transaction that began later than all
    // transactions with smaller numbers.
    "CREATE TABLE IF NOT EXISTS linchpin_consumers (name TEXT PRIMARY KEY, had INT8MULTIRANGE NOT NULL, mark BIGINT, since XID8)",
];
const JOIN: &str = "INSERT INTO linchpin_consumers (name, had) \
     SELECT $1, CASE WHEN max(seq) IS NULL THEN '{}' ELSE int8multirange(int8range(1, max(seq), '[]')) END FROM linchpin_outbox \
     ON CONFLICT (name) DO NOTHING";
const INSERT: &str = "INSERT INTO linchpin_outbox (id, entity, record, at, event) SELECT e.id::uuid, e.entity, e.record, e.at, e.event::json \
     FROM unnest($1, $2, $3, $4, $5) AS e(id, entity, record, at, event)";
/// One read: the rows within the holes of a consumer's set, and after the set.
const WAITING: &str = "WITH had AS (SELECT had + $2::text::int8multirange AS had FROM linchpin_consumers WHERE name = $1) \
     SELECT e.seq, e.id::text, e.entity, e.record, e.at, e.event::text \
     FROM had CROSS JOIN LATERAL unnest('{[1,)}'::int8multirange - had.had) AS hole CROSS JOIN LATERAL \
     (SELECT * FROM linchpin_outbox WHERE seq >= lower(hole) AND seq < coalesce(upper(hole), 9223372036854775807) ORDER BY seq LIMIT $3) AS e \
     ORDER BY e.seq LIMIT $3";
/// A transaction that takes a number has changed a record before, and so has a transaction id: all
/// transactions with numbers up to the mark are older than the transaction that stores the mark.
const SETTLE: &str = "WITH c AS (SELECT had + $2::text::int8multirange AS had, \
       CASE WHEN since <= pg_snapshot_xmin(pg_current_snapshot()) THEN mark END AS final, mark IS NULL AS unmarked \
       FROM linchpin_consumers WHERE name = $1 FOR UPDATE), \
     d AS (SELECT c.*, (SELECT coalesce(range_agg(int8range(o.seq, o.seq, '[]')), '{}') FROM unnest('{[1,)}'::int8multirange - c.had) AS hole \
       CROSS JOIN LATERAL (SELECT seq FROM linchpin_outbox WHERE seq >= lower(hole) AND seq < upper(hole) AND seq <= c.final) AS o) AS late \
       FROM c) \
     UPDATE linchpin_consumers SET \
       had = d.had + CASE WHEN d.final IS NULL THEN '{}' ELSE int8multirange(int8range(1, d.final, '[]')) - d.late END, \
       mark = CASE WHEN d.unmarked OR d.final IS NOT NULL THEN upper(d.had) - 1 ELSE mark END, \
       since = CASE WHEN d.unmarked OR d.final IS NOT NULL THEN pg_current_xact_id() ELSE since END \
     FROM d WHERE name = $1";
/// Removes rows that all consumers have processed; an unknown consumer has processed none.
const PRUNE: &str = "WITH had AS (SELECT range_intersect_agg(had) AS had, count(*) AS known FROM linchpin_consumers WHERE name = ANY($1)), \
     old AS (SELECT seq, at FROM linchpin_outbox ORDER BY seq LIMIT $3), \
     gone AS (DELETE FROM linchpin_outbox USING had, old WHERE linchpin_outbox.seq = old.seq AND old.at < $2 AND old.seq <@ had.had \
       AND had.known = cardinality($1) RETURNING 1) \
     SELECT count(*) FROM gone";
/// One process at a time delivers to a consumer. The lock belongs to the connection: it is released
/// when the process ends.
const LEAD: &str = "SELECT pg_try_advisory_lock(('linchpin_outbox'::regclass::oid::bigint - 2147483648)::int, hashtext($1))";
/// Detects a broken connection to this process soon, so that another process takes over.
const SETTINGS: &str =
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3";

type Done = std::result::Result<(), tokio_postgres::Error>;

/// The number of rows per insert.
const CHUNK: usize = 1000;

/// The statement that writes events, prepared per connection.
pub(super) struct Recorder(Sql);

impl Default for Recorder {
    fn default() -> Self {
        Self(Sql::new(INSERT.to_owned()))
    }
}

impl Recorder {
    /// Writes events in order within the transaction of a connection, and then sends `end`. The
    /// last events and `end` are pipelined: in a failed transaction `end` fails as well, or rolls
    /// back.
    pub(super) async fn write_and(
        &self,
        live: &Live,
        entries: &[Entry],
        end: &str,
    ) -> (Done, Done) {
        const KINDS: [Type; 5] = [
            Type::TEXT_ARRAY,
            Type::TEXT_ARRAY,
            Type::TEXT_ARRAY,
            Type::TIMESTAMPTZ_ARRAY,
            Type::TEXT_ARRAY,
        ];
        let Some(last) = entries.chunks(CHUNK).next_back() else {
            return (Ok(()), live.client.batch_execute(end).await);
        };
        // Nothing is sent before the events: the preparation, which waits for the server, comes
        // first.
        let insert = match self.0.prepared(live, &KINDS).await {
            Ok(insert) => insert,
            Err(error) => return (Err(error), Ok(())),
        };
        for chunk in entries[..entries.len() - last.len()].chunks(CHUNK) {
            if let Err(error) = insert_all(live, &insert, chunk).await {
                return (Err(error), Ok(()));
            }
        }
        tokio::join!(biased; insert_all(live, &insert, last), live.client.batch_execute(end))
    }
}

/// Sends at its first poll.
async fn insert_all(live: &Live, insert: &tokio_postgres::Statement, entries: &[Entry]) -> Done {
    let ids: Vec<&str> = entries.iter().map(|e| e.id.as_str()).collect();
    let entities: Vec<&str> = entries.iter().map(|e| &*e.entity).collect();
    let records: Vec<Option<&str>> = entries.iter().map(|e| e.record.as_deref()).collect();
    let instants: Vec<bind::Moment> = entries.iter().map(|e| bind::Moment::from(e.at)).collect();
    let events: Vec<&str> = entries.iter().map(|e| e.event.as_str()).collect();
    let values: [&(dyn ToSql + Sync); 5] = [&ids, &entities, &records, &instants, &events];
    live.client.execute(insert, &values).await.map(drop)
}

/// The connection that delivers events.
pub(super) struct Courier {
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
    /// The consumers that this connection alone delivers to.
    leads: HashSet<String>,
}

impl Courier {
    pub(super) fn new(connector: &Arc<Connector>, patience: Duration) -> Self {
        Self {
            connector: Arc::clone(connector),
            state: Mutex::new(State::Apart),
            patience,
        }
    }

    /// Closes the connection, which releases its locks; no other is opened.
    pub(super) async fn close(&self) {
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
                leads: HashSet::new(),
            });
        }
        match state {
            State::Connected(held) => Ok(held),
            State::Apart | State::Closed => Err(closed()),
        }
    }

    /// The connection, if it is the one that delivers to a consumer.
    async fn lead(&self, consumer: &str) -> Result<Option<Arc<Live>>> {
        let mut state = self.state.lock().await;
        let held = self.connection(&mut state).await?;
        if !held.leads.contains(consumer) {
            let values: [(&(dyn ToSql + Sync), Type); 1] = [(&consumer, Type::TEXT)];
            let rows = self
                .patiently(held.live.client.query_typed(LEAD, &values))
                .await;
            let leads = rows.and_then(|rows| {
                rows.first()
                    .map_or(Ok(false), |row| row.try_get(0).map_err(Error::internal))
            });
            if !leads.inspect_err(|_| *state = State::Apart)? {
                return Ok(None);
            }
            let State::Connected(held) = &mut *state else {
                return Err(closed());
            };
            held.leads.insert(consumer.to_owned());
            return Ok(Some(Arc::clone(&held.live)));
        }
        Ok(Some(Arc::clone(&held.live)))
    }

    /// The connection, for work that any process may do.
    async fn any(&self) -> Result<Arc<Live>> {
        Ok(Arc::clone(
            &self.connection(&mut *self.state.lock().await).await?.live,
        ))
    }

    async fn run(
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

/// Numbers as a set in the server's syntax.
fn set(numbers: &[i64]) -> String {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for number in sorted {
        match ranges.last_mut() {
            Some((_, to)) if number <= *to + 1 => *to = number,
            _ => ranges.push((number, number)),
        }
    }
    let ranges: Vec<String> = ranges
        .iter()
        .map(|(from, to)| format!("[{from},{to}]"))
        .collect();
    format!("{{{}}}", ranges.join(","))
}

fn entry(
    row: &tokio_postgres::Row,
) -> std::result::Result<(i64, Entry), Box<dyn std::error::Error + Send + Sync>> {
    let id: String = row.try_get(1)?;
    let at: Raw<'_> = row.try_get(4)?;
    let at = <[u8; 8]>::try_from(at.0)
        .ok()
        .map(i64::from_be_bytes)
        .and_then(bind::date);
    let entry = Entry {
        id: Uuid::parse(&id).ok_or("an event without an id")?,
        entity: Cow::Owned(row.try_get(2)?),
        record: row.try_get(3)?,
        at: at.ok_or("an event outside of the years 1 to 9999")?,
        event: row.try_get(5)?,
    };
    Ok((row.try_get(0)?, entry))
}

impl Outbox for PostgresStore {
    fn open<'a>(&'a self, consumers: &'a [&'a str]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let open = async {
                let mut connection = self.pool.acquire().await?;
                let mut transaction = connection.begin().await?;
                schema::alone(&mut transaction).await?;
                for table in TABLES {
                    sqlx::query(table).execute(&mut *transaction).await?;
                }
                for consumer in consumers {
                    sqlx::query(JOIN)
                        .bind(*consumer)
                        .execute(&mut *transaction)
                        .await?;
                }
                // Tables with these names and other columns belong to another application.
                sqlx::query(WAITING)
                    .bind("")
                    .bind("{}")
                    .bind(0_i64)
                    .fetch_all(&mut *transaction)
                    .await?;
                sqlx::query(SETTLE)
                    .bind("")
                    .bind("{}")
                    .execute(&mut *transaction)
                    .await?;
                transaction.commit().await
            };
            open.await.map_err(|error| {
                let help = "help: they are made by PostgreSQL 14 or later, and nothing else may bear their names";
                linchpin_core::Error::new(
                    linchpin_core::Code::Internal,
                    format!("the tables linchpin_outbox and linchpin_consumers cannot be used: {error}\n{help}"),
                )
            })
        })
    }

    fn knows<'a>(&'a self, consumer: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let found = sqlx::query("SELECT 1 FROM linchpin_consumers WHERE name = $1")
                .bind(consumer)
                .fetch_optional(&self.pool)
                .await;
            found.map(|row| row.is_some()).map_err(Error::unavailable)
        })
    }

    fn waiting<'a>(
        &'a self,
        consumer: &'a str,
        given: &'a [i64],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<(i64, Entry)>>> {
        Box::pin(async move {
            // Another process delivers.
            let Some(live) = self.courier.lead(consumer).await? else {
                return Ok(Vec::new());
            };
            let (given, limit) = (set(given), i64::try_from(limit).unwrap_or(i64::MAX));
            let values: [(&(dyn ToSql + Sync), Type); 3] = [
                (&consumer, Type::TEXT),
                (&given, Type::TEXT),
                (&limit, Type::INT8),
            ];
            let rows = self.courier.run(&live, WAITING, &values).await?;
            rows.iter()
                .map(|row| entry(row).map_err(Error::internal))
                .collect()
        })
    }

    fn settle<'a>(&'a self, consumer: &'a str, given: &'a [i64]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            // Even if another process delivers now: processed events stay processed.
            let live = self.courier.any().await?;
            let given = set(given);
            self.courier
                .run(
                    &live,
                    SETTLE,
                    &[(&consumer, Type::TEXT), (&given, Type::TEXT)],
                )
                .await
                .map(drop)
        })
    }

    fn prune<'a>(
        &'a self,
        consumers: &'a [&'a str],
        before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<usize>> {
        Box::pin(async move {
            let live = self.courier.any().await?;
            let (before, limit) = (
                bind::Moment::from(before),
                i64::try_from(limit).unwrap_or(i64::MAX),
            );
            let values: [(&(dyn ToSql + Sync), Type); 3] = [
                (&consumers, Type::TEXT_ARRAY),
                (&before, Type::TIMESTAMPTZ),
                (&limit, Type::INT8),
            ];
            let rows = self.courier.run(&live, PRUNE, &values).await?;
            let removed: i64 = rows
                .first()
                .map_or(Ok(0), |row| row.try_get(0))
                .map_err(Error::internal)?;
            Ok(usize::try_from(removed).unwrap_or_default())
        })
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn sets_are_written_as_ranges() {
        for (numbers, text) in [
            (&[][..], "{}"),
            (&[5], "{[5,5]}"),
            (&[1, 2, 3, 7, 9, 8], "{[1,3],[7,9]}"),
            (&[4, 1, 3], "{[1,1],[3,4]}"),
            (&[2, 2], "{[2,2]}"),
        ] {
            assert_eq!(super::set(numbers), text);
        }
    }
}
