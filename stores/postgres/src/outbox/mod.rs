//! The outbox on the server: the events of a transaction are written as rows before its commit.
//!
//! Transactions do not commit in the order in which they take numbers, so one number cannot be the
//! position of a consumer. If the position passed the number of an open transaction, the events of
//! that transaction would be lost. Instead, the position is a *set* of processed numbers, stored as
//! ranges. A consumer gets the rows that are not in the set. Nothing waits: an event is delivered
//! as soon as it is committed. Two transactions that change one record take their numbers while
//! they lock that record, so events of a record are in order within every read, and from one read
//! to the next. For the same reason the next rows are always read from the table, even if this
//! process wrote them: a row of another process may come first.
//!
//! A rollback leaves a hole in the set. A hole is closed if no row can fill it any more: every
//! transaction that was open when a higher number was read has ended.

mod outbox_connection;
mod outgoing;

use std::sync::Arc;
use std::time::Duration;

use sqlx::Connection as _;
use tokio_postgres::types::{ToSql, Type};

pub(super) use self::outbox_connection::OutboxConnection;
pub(super) use self::outgoing::{Handover, Recorder};

use super::row::Raw;
use super::{PostgresStore, bind};
use linchpin_core::BoxFuture;
use linchpin_core::event::{OutboxRow, StoredText};
use linchpin_core::store::{Committed, Lost, Numbers, Outbox, Parked, Waiting};
use linchpin_core::{Error, Result, Timestamp, Uuid};

/// The names of the tables.
pub(super) const NAMES: [&str; 3] = ["linchpin_outbox", "linchpin_consumers", "linchpin_parked"];
/// The statements that create the tables. The sequence has no cache, because numbers must ascend
/// across connections.
pub(super) const TABLES: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS linchpin_outbox (seq BIGINT GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY, id UUID NOT NULL, \
     entity TEXT NOT NULL, record TEXT, at TIMESTAMPTZ(3) NOT NULL, event JSON NOT NULL)",
    // `mark` is a number that was read from the outbox. `since` is the id of a transaction that
    // began after all transactions with numbers up to `mark`.
    "CREATE TABLE IF NOT EXISTS linchpin_consumers (name TEXT PRIMARY KEY, had INT8MULTIRANGE NOT NULL, mark BIGINT, since XID8)",
    "CREATE TABLE IF NOT EXISTS linchpin_parked (consumer TEXT NOT NULL, id UUID NOT NULL, parked_at TIMESTAMPTZ(3) NOT NULL, \
     error TEXT NOT NULL, event JSON NOT NULL, PRIMARY KEY (consumer, id))",
];
/// Columns that the first release did not have. The process `leader` delivers to the consumer until
/// the instant `until`, with the fencing number `fence`. `locked` is true if the leader held the
/// advisory lock. `lost` is the number of rows that were removed, before the consumer processed
/// them, while no running app declared the consumer.
const COLUMNS: &str = "ALTER TABLE linchpin_consumers ADD COLUMN IF NOT EXISTS leader TEXT, \
     ADD COLUMN IF NOT EXISTS fence BIGINT NOT NULL DEFAULT 0, ADD COLUMN IF NOT EXISTS until TIMESTAMPTZ, \
     ADD COLUMN IF NOT EXISTS locked BOOLEAN NOT NULL DEFAULT false, ADD COLUMN IF NOT EXISTS lost BIGINT NOT NULL DEFAULT 0";
/// Checks whether the columns exist. If they do, `ALTER TABLE` is not run, because it locks the
/// table.
const PRESENT: &str = "SELECT count(*) = 5 FROM pg_attribute WHERE attrelid = 'linchpin_consumers'::regclass AND NOT attisdropped \
     AND attname IN ('leader', 'fence', 'until', 'locked', 'lost')";
/// Adds a consumer. All existing rows count as processed.
const ADD_CONSUMER: &str = "INSERT INTO linchpin_consumers (name, had) \
     SELECT $1, CASE WHEN max(seq) IS NULL THEN '{}' ELSE int8multirange(int8range(1, max(seq), '[]')) END FROM linchpin_outbox \
     ON CONFLICT (name) DO NOTHING";
const INSERT: &str = "INSERT INTO linchpin_outbox (id, entity, at, event) SELECT e.id::uuid, '', e.at, e.event::json \
     FROM unnest($1, $2, $3) AS e(id, at, event) RETURNING seq";
/// Reads the rows that are not in a consumer's set: those in its holes, and those after it. Known
/// rows are returned without their events.
const WAITING: &str = "WITH had AS (SELECT had + $2::text::int8multirange AS had FROM linchpin_consumers WHERE name = $1) \
     SELECT e.seq, e.id::text, e.entity, e.record, e.at, CASE WHEN e.seq = ANY($4) THEN NULL ELSE e.event::text END \
     FROM had CROSS JOIN LATERAL unnest('{[1,)}'::int8multirange - had.had) AS hole CROSS JOIN LATERAL \
     (SELECT * FROM linchpin_outbox WHERE seq >= lower(hole) AND seq < coalesce(upper(hole), 9223372036854775807) ORDER BY seq LIMIT $3) AS e \
     ORDER BY e.seq LIMIT $3";
/// Reads the number of rows that were removed before the consumer processed them.
const LOST: &str = "SELECT lost FROM linchpin_consumers WHERE name = $1 AND lost > 0";
/// Subtracts rows whose loss was reported to the consumer.
const LOSS_REPORTED: &str =
    "UPDATE linchpin_consumers SET lost = greatest(lost - $2, 0) WHERE name = $1";
/// Adds processed numbers, and closes holes. A transaction changes a record, and so gets a
/// transaction id, before it takes a number. All transactions with numbers up to `mark` are
/// therefore older than the transaction that stores `mark`.
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
const PARK: &str = "INSERT INTO linchpin_parked (consumer, id, parked_at, error, event) VALUES ($1, $2::text::uuid, $3, $4, $5::text::json) \
     ON CONFLICT (consumer, id) DO NOTHING";
/// Removes rows that all consumers of the app have processed. If a consumer of the app is not in
/// the table, nothing is removed. Consumers that the app does not declare are not considered: the
/// number of removed rows that such a consumer has not processed is added to its `lost`.
const PRUNE: &str = "WITH had AS (SELECT range_intersect_agg(had) AS had, count(*) AS known FROM linchpin_consumers WHERE name = ANY($1)), \
     old AS (SELECT seq, at FROM linchpin_outbox ORDER BY seq LIMIT $3), \
     gone AS (DELETE FROM linchpin_outbox USING had, old WHERE linchpin_outbox.seq = old.seq AND old.at < $2 AND old.seq <@ had.had \
       AND had.known = cardinality($1) RETURNING linchpin_outbox.seq), \
     gap AS (SELECT range_agg(int8range(seq, seq, '[]')) AS rows FROM gone), \
     behind AS (UPDATE linchpin_consumers AS c SET had = c.had + gap.rows, \
       lost = c.lost + (SELECT count(*) FROM gone WHERE NOT gone.seq <@ c.had) \
       FROM gap WHERE c.name <> ALL($1) AND NOT gap.rows <@ c.had) \
     SELECT count(*) FROM gone";
const PRUNE_PARKED: &str = "DELETE FROM linchpin_parked WHERE parked_at < $1";

/// A set of numbers in the server's syntax.
fn set(numbers: &Numbers) -> String {
    let range = |(from, to): &(i64, i64)| format!("[{from},{to}]");
    let ranges: Vec<String> = numbers.ranges().iter().map(range).collect();
    format!("{{{}}}", ranges.join(","))
}

/// Reads a row; its events are in `event`.
fn stored(
    row: &tokio_postgres::Row,
    event: String,
) -> std::result::Result<StoredText, Box<dyn std::error::Error + Send + Sync>> {
    let id: String = row.try_get(1)?;
    let at: Raw<'_> = row.try_get(4)?;
    let at = <[u8; 8]>::try_from(at.0)
        .ok()
        .map(i64::from_be_bytes)
        .and_then(bind::date);
    Ok(StoredText {
        id: Uuid::parse(&id).ok_or("an event without an id")?,
        entity: row.try_get(2)?,
        record: row.try_get(3)?,
        at: at.ok_or("an event outside of the years 1 to 9999")?,
        event,
    })
}

/// Reads a row. If it was selected without its events, returns it from `known`.
fn read(
    row: &tokio_postgres::Row,
    known: &[Arc<OutboxRow>],
) -> std::result::Result<Arc<OutboxRow>, Box<dyn std::error::Error + Send + Sync>> {
    let seq: i64 = row.try_get(0)?;
    let event: Option<String> = row.try_get(5)?;
    match event {
        Some(event) => Ok(Arc::new(stored(row, event)?.decode(seq))),
        None => {
            let known = known.iter().find(|row| row.seq == seq);
            Ok(Arc::clone(known.ok_or("a row that is not known")?))
        }
    }
}

impl Outbox for PostgresStore {
    fn open<'a>(
        &'a self,
        consumers: &'a [&'a str],
        committed: Arc<dyn Committed>,
    ) -> BoxFuture<'a, Result<()>> {
        self.handover.set(committed);
        if consumers.is_empty() {
            return Box::pin(std::future::ready(Ok(())));
        }
        Box::pin(async move {
            let open = async {
                let mut connection = self.pool.acquire().await?;
                let mut transaction = connection.begin().await?;
                for table in TABLES {
                    sqlx::query(table).execute(&mut *transaction).await?;
                }
                let present: bool = sqlx::query_scalar(PRESENT)
                    .fetch_one(&mut *transaction)
                    .await?;
                if !present {
                    sqlx::query(COLUMNS).execute(&mut *transaction).await?;
                }
                for consumer in consumers {
                    sqlx::query(ADD_CONSUMER)
                        .bind(*consumer)
                        .execute(&mut *transaction)
                        .await?;
                }
                // These statements fail if the tables have other columns: they then belong to
                // another application.
                sqlx::query(WAITING)
                    .bind("")
                    .bind("{}")
                    .bind(0_i64)
                    .bind(Vec::<i64>::new())
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
                let help = "help: PostgreSQL 14 or later is needed, and no other table may have \
                            these names";
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

    fn is_in_commit_order(&self) -> bool {
        false
    }

    fn lead<'a>(
        &'a self,
        consumers: &'a [&'a str],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Vec<Option<i64>>>> {
        Box::pin(async move {
            let mut fences = Vec::with_capacity(consumers.len());
            for consumer in consumers {
                fences.push(self.outbox_connection.lead(consumer, lease).await?);
            }
            Ok(fences)
        })
    }

    fn resign<'a>(&'a self, consumers: &'a [&'a str]) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.outbox_connection.resign(consumers))
    }

    fn waiting<'a>(
        &'a self,
        consumer: &'a str,
        taken: &'a Numbers,
        known: &'a [Arc<OutboxRow>],
        limit: usize,
    ) -> BoxFuture<'a, Result<Waiting>> {
        Box::pin(async move {
            let live = self.outbox_connection.live().await?;
            let mut lost = None;
            // Rows can be lost only while no app declares the consumer, so the number is read only
            // when the consumer starts.
            if taken.is_empty() {
                let gone = self
                    .outbox_connection
                    .run(&live, LOST, &[(&consumer, Type::TEXT)])
                    .await?;
                if let Some(row) = gone.first() {
                    let rows: i64 = row.try_get(0).map_err(Error::internal)?;
                    let count = rows.unsigned_abs();
                    // The set of processed numbers already contains the lost rows.
                    lost = Some(Lost { count, until: 0 });
                }
            }
            let (taken, limit) = (set(taken), i64::try_from(limit).unwrap_or(i64::MAX));
            let seqs: Vec<i64> = known.iter().map(|row| row.seq).collect();
            let values: [(&(dyn ToSql + Sync), Type); 4] = [
                (&consumer, Type::TEXT),
                (&taken, Type::TEXT),
                (&limit, Type::INT8),
                (&seqs, Type::INT8_ARRAY),
            ];
            let rows = self.outbox_connection.run(&live, WAITING, &values).await?;
            let rows: Result<Vec<_>> = rows
                .iter()
                .map(|row| read(row, known).map_err(Error::internal))
                .collect();
            Ok(Waiting { rows: rows?, lost })
        })
    }

    fn lost_reported<'a>(&'a self, consumer: &'a str, lost: Lost) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let live = self.outbox_connection.live().await?;
            let count = i64::try_from(lost.count).unwrap_or(i64::MAX);
            let values: [(&(dyn ToSql + Sync), Type); 2] =
                [(&consumer, Type::TEXT), (&count, Type::INT8)];
            self.outbox_connection
                .run(&live, LOSS_REPORTED, &values)
                .await
                .map(drop)
        })
    }

    fn settle<'a>(&'a self, consumer: &'a str, done: &'a Numbers) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            // This needs no lease: processed events stay processed, even if another process is the
            // leader now.
            let live = self.outbox_connection.live().await?;
            let done = set(done);
            let values: [(&(dyn ToSql + Sync), Type); 2] =
                [(&consumer, Type::TEXT), (&done, Type::TEXT)];
            self.outbox_connection
                .run(&live, SETTLE, &values)
                .await
                .map(drop)
        })
    }

    fn park<'a>(&'a self, consumer: &'a str, parked: &'a Parked) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let live = self.outbox_connection.live().await?;
            let (id, event) = (parked.event.event.id.as_str(), parked.event.text());
            let at = bind::Moment::from(parked.at);
            let values: [(&(dyn ToSql + Sync), Type); 5] = [
                (&consumer, Type::TEXT),
                (&id, Type::TEXT),
                (&at, Type::TIMESTAMPTZ),
                (&parked.error, Type::TEXT),
                (&event, Type::TEXT),
            ];
            self.outbox_connection
                .run(&live, PARK, &values)
                .await
                .map(drop)
        })
    }

    fn prune<'a>(
        &'a self,
        consumers: &'a [&'a str],
        before: Timestamp,
        parked: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<usize>> {
        Box::pin(async move {
            let live = self.outbox_connection.live().await?;
            let parked = bind::Moment::from(parked);
            self.outbox_connection
                .run(&live, PRUNE_PARKED, &[(&parked, Type::TIMESTAMPTZ)])
                .await?;
            let (before, limit) = (
                bind::Moment::from(before),
                i64::try_from(limit).unwrap_or(i64::MAX),
            );
            let values: [(&(dyn ToSql + Sync), Type); 3] = [
                (&consumers, Type::TEXT_ARRAY),
                (&before, Type::TIMESTAMPTZ),
                (&limit, Type::INT8),
            ];
            let rows = self.outbox_connection.run(&live, PRUNE, &values).await?;
            let removed: i64 = rows
                .first()
                .map_or(Ok(0), |row| row.try_get(0))
                .map_err(Error::internal)?;
            Ok(usize::try_from(removed).unwrap_or_default())
        })
    }
}
