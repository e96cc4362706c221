//! The outbox in the file: events are rows, written in the transaction of the change.
//!
//! All writes use one thread, so rows are numbered in commit order, and the position of a consumer
//! is one number.

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension, params};
use sqlx::Row as _;
use tokio::sync::oneshot;

use super::SqliteStore;
use linchpin_core::BoxFuture;
use linchpin_core::event::Entry;
use linchpin_core::store::{Outbox, Rows};
use linchpin_core::{Error, Result, Timestamp, Uuid};

/// The last row is never removed: the next number is one more than the greatest.
const TABLES: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS linchpin_outbox (seq INTEGER PRIMARY KEY, id TEXT NOT NULL, entity TEXT NOT NULL, record TEXT, \
     at INTEGER NOT NULL, event TEXT NOT NULL) STRICT",
    "CREATE TABLE IF NOT EXISTS linchpin_consumers (name TEXT PRIMARY KEY, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID",
];
const INSERT: &str =
    "INSERT INTO linchpin_outbox (id, entity, record, at, event) VALUES (?, ?, ?, ?, ?)";
const JOIN: &str = "INSERT INTO linchpin_consumers (name, seq) VALUES (?, (SELECT coalesce(max(seq), 0) FROM linchpin_outbox)) \
     ON CONFLICT (name) DO NOTHING";
const WAITING: &str = "SELECT seq, id, entity, record, at, event FROM linchpin_outbox \
     WHERE seq > max(?, (SELECT seq FROM linchpin_consumers WHERE name = ?)) ORDER BY seq LIMIT ?";
const SETTLE: &str = "UPDATE linchpin_consumers SET seq = max(seq, ?) WHERE name = ?";
const SETTLED: &str = "SELECT seq FROM linchpin_consumers WHERE name = ?";
const PRUNE: &str = "DELETE FROM linchpin_outbox WHERE at < ?1 AND seq < (SELECT max(seq) FROM linchpin_outbox) AND seq <= ?2 \
     AND seq IN (SELECT seq FROM linchpin_outbox ORDER BY seq LIMIT ?3)";

/// Writes the events of a statement in its transaction. If that fails, the whole transaction is
/// rolled back: a change must not persist without its events.
pub(super) fn record(connection: &Connection, rows: &mut Rows) -> Result<()> {
    if !rows.is_recorded() {
        return Ok(());
    }
    let entries = rows.entries();
    // Without consumers there may be no outbox.
    if entries.is_empty() {
        return Ok(());
    }
    let write = || {
        let mut insert = connection.prepare_cached(INSERT)?;
        for entry in &entries {
            insert.execute(params![
                entry.id.as_str(),
                entry.entity,
                entry.record,
                entry.at.millis(),
                entry.event
            ])?;
        }
        Ok(())
    };
    write().map_err(|error: rusqlite::Error| {
        if !connection.is_autocommit() {
            // A failure cannot be handled here; the next BEGIN would report it.
            drop(connection.execute_batch("ROLLBACK"));
        }
        Error::unavailable(error)
    })
}

/// Other work of the writer thread for the outbox.
#[derive(Debug)]
pub(super) enum Chore {
    Settle {
        consumer: String,
        seq: i64,
    },
    Prune {
        consumers: Vec<String>,
        before: Timestamp,
        limit: usize,
    },
}

impl Chore {
    /// Does the work; returns the number of rows.
    pub(super) fn run(&self, connection: &Connection) -> Result<usize> {
        let run = || match self {
            Self::Settle { consumer, seq } => connection
                .prepare_cached(SETTLE)?
                .execute(params![seq, consumer]),
            Self::Prune {
                consumers,
                before,
                limit,
            } => {
                let mut least = i64::MAX;
                for consumer in consumers {
                    let settled = connection
                        .prepare_cached(SETTLED)?
                        .query_row([consumer], |row| row.get(0))
                        .optional()?;
                    // An unknown consumer has processed no events.
                    least = least.min(settled.unwrap_or(0));
                }
                connection.prepare_cached(PRUNE)?.execute(params![
                    before.millis(),
                    least,
                    i64::try_from(*limit).unwrap_or(i64::MAX)
                ])
            }
        };
        run().map_err(Error::unavailable)
    }
}

impl SqliteStore {
    async fn chore(&self, chore: Chore) -> Result<usize> {
        let (answer, answered) = oneshot::channel();
        self.writer.chore(chore, answer)?;
        answered
            .await
            .unwrap_or_else(|_| Err(super::closed()))
            .map(|rows| rows.count)
    }
}

impl Outbox for SqliteStore {
    fn open<'a>(&'a self, consumers: &'a [&'a str]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let open = async {
                let mut connection = self.pool.acquire().await?;
                let mut transaction =
                    sqlx::Connection::begin_with(&mut *connection, "BEGIN IMMEDIATE").await?;
                for table in TABLES {
                    sqlx::query(table).execute(&mut *transaction).await?;
                }
                for consumer in consumers {
                    sqlx::query(JOIN)
                        .bind(*consumer)
                        .execute(&mut *transaction)
                        .await?;
                }
                // A table with this name and other columns belongs to another application.
                sqlx::query(WAITING)
                    .bind(0_i64)
                    .bind("")
                    .bind(0_i64)
                    .fetch_all(&mut *transaction)
                    .await?;
                transaction.commit().await
            };
            open.await.map_err(|error| {
                Error::unavailable(format!(
                    "the tables linchpin_outbox and linchpin_consumers cannot be used: {error}"
                ))
            })
        })
    }

    fn knows<'a>(&'a self, consumer: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let found = sqlx::query(SETTLED)
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
            let after = given.last().copied().unwrap_or_default();
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = sqlx::query(WAITING)
                .bind(after)
                .bind(consumer)
                .bind(limit)
                .fetch_all(&self.pool)
                .await
                .map_err(Error::unavailable)?;
            let read = |row: &sqlx::sqlite::SqliteRow| {
                let id: String = row.try_get(1)?;
                let entry = Entry {
                    id: Uuid::parse(&id).ok_or_else(|| {
                        sqlx::Error::Decode(format!("`{id}` is no event's id").into())
                    })?,
                    entity: Cow::Owned(row.try_get(2)?),
                    record: row.try_get(3)?,
                    at: Timestamp::from_millis(row.try_get(4)?),
                    event: row.try_get(5)?,
                };
                Ok((row.try_get(0)?, entry))
            };
            rows.iter()
                .map(read)
                .collect::<sqlx::Result<_>>()
                .map_err(Error::internal)
        })
    }

    fn settle<'a>(&'a self, consumer: &'a str, given: &'a [i64]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let Some(seq) = given.last().copied() else {
                return Ok(());
            };
            self.chore(Chore::Settle {
                consumer: consumer.to_owned(),
                seq,
            })
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
        let consumers = consumers.iter().map(ToString::to_string).collect();
        Box::pin(self.chore(Chore::Prune {
            consumers,
            before,
            limit,
        }))
    }
}
