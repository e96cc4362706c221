//! The outbox in the database file. The events of a transaction are written in the same transaction
//! as the changes, as one row (several if they are large).
//!
//! One thread makes all writes, so rows are numbered in commit order. The progress of a consumer is
//! stored as a row number and a list of ranges: it has processed all rows up to the number, and the
//! rows in the ranges after it.

mod outbox_task;
mod outgoing;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::Row as _;
use tokio::sync::oneshot;

pub(super) use self::outbox_task::OutboxTask;
pub(super) use self::outgoing::{CommitReceiver, Leader, Outgoing};

use super::SqliteStore;
use linchpin_core::BoxFuture;
use linchpin_core::event::{OutboxRow, StoredText};
use linchpin_core::store::{Committed, Lost, Numbers, Outbox, Parked, Waiting};
use linchpin_core::{Error, Result, Timestamp, Uuid, Value};

/// The names of the tables.
pub(super) const NAMES: [&str; 3] = ["linchpin_outbox", "linchpin_consumers", "linchpin_parked"];
/// The statements that create the tables. Pruning keeps the last row, because SQLite gives a new
/// row the greatest `seq` plus one.
pub(super) const TABLES: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS linchpin_outbox (seq INTEGER PRIMARY KEY, id TEXT NOT NULL, entity TEXT NOT NULL, record TEXT, \
     at INTEGER NOT NULL, event TEXT NOT NULL) STRICT",
    "CREATE TABLE IF NOT EXISTS linchpin_consumers (name TEXT PRIMARY KEY, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS linchpin_parked (consumer TEXT NOT NULL, id TEXT NOT NULL, parked_at INTEGER NOT NULL, \
     error TEXT NOT NULL, event TEXT NOT NULL, PRIMARY KEY (consumer, id)) STRICT, WITHOUT ROWID",
];
/// Columns that tables of earlier versions lack. `had`: the ranges of rows after `seq` that the
/// consumer has processed. `leader`: the process that delivers to the consumer, with the fencing
/// number `fence`, until the time `until`. `locked`: whether the leader held the lock file.
const COLUMNS: [(&str, &str); 5] = [
    (
        "had",
        "ALTER TABLE linchpin_consumers ADD COLUMN had TEXT NOT NULL DEFAULT ''",
    ),
    (
        "leader",
        "ALTER TABLE linchpin_consumers ADD COLUMN leader TEXT",
    ),
    (
        "fence",
        "ALTER TABLE linchpin_consumers ADD COLUMN fence INTEGER NOT NULL DEFAULT 0",
    ),
    (
        "until",
        "ALTER TABLE linchpin_consumers ADD COLUMN until INTEGER NOT NULL DEFAULT 0",
    ),
    (
        "locked",
        "ALTER TABLE linchpin_consumers ADD COLUMN locked INTEGER NOT NULL DEFAULT 0",
    ),
];
const PRESENT: &str = "SELECT name FROM pragma_table_info('linchpin_consumers')";
/// Adds a consumer. All existing rows count as processed.
const ADD_CONSUMER: &str = "INSERT INTO linchpin_consumers (name, seq) VALUES (?, (SELECT coalesce(max(seq), 0) FROM linchpin_outbox)) \
     ON CONFLICT (name) DO NOTHING";
/// Reads the progress of a consumer, and the number of the first row of the outbox.
const HAD: &str = "SELECT seq, had, (SELECT min(seq) FROM linchpin_outbox) FROM linchpin_consumers WHERE name = ?";
const ROWS: &str = "SELECT seq, id, entity, record, at, event FROM linchpin_outbox WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT ?";
const KNOWN: &str = "SELECT 1 FROM linchpin_consumers WHERE name = ?";

impl SqliteStore {
    /// Runs a task on the writer thread and returns its values.
    async fn outbox_task(&self, outbox_task: OutboxTask) -> Result<Vec<Value>> {
        let (answer, answered) = oneshot::channel();
        self.writer.outbox_task(outbox_task, answer)?;
        answered
            .await
            .unwrap_or_else(|_| Err(super::closed()))
            .map(|rows| rows.last)
    }

    /// Returns the numbers of the rows that a consumer has processed, and the number of the first
    /// row of the table.
    async fn had(&self, consumer: &str) -> sqlx::Result<Option<(Numbers, Option<i64>)>> {
        let Some(row) = sqlx::query(HAD)
            .bind(consumer)
            .fetch_optional(&self.pool)
            .await?
        else {
            return Ok(None);
        };
        let text: String = row.try_get(1)?;
        let mut had = Numbers::parse(&text).unwrap_or_default();
        had.add(0, row.try_get(0)?);
        Ok(Some((had, row.try_get(2)?)))
    }

    /// Reads the rows that are not in `had`. A row in `known` is not decoded again.
    async fn rows(
        &self,
        had: &Numbers,
        known: &[Arc<OutboxRow>],
        limit: usize,
    ) -> sqlx::Result<Vec<Arc<OutboxRow>>> {
        let mut rows = Vec::new();
        for (from, to) in had.holes(0) {
            let left = i64::try_from(limit - rows.len()).unwrap_or(i64::MAX);
            let found = sqlx::query(ROWS)
                .bind(from)
                .bind(to)
                .bind(left)
                .fetch_all(&self.pool)
                .await?;
            for row in &found {
                let seq: i64 = row.try_get(0)?;
                rows.push(match known.iter().find(|row| row.seq == seq) {
                    Some(known) => Arc::clone(known),
                    None => Arc::new(stored(row)?.decode(seq)),
                });
            }
            if rows.len() >= limit {
                break;
            }
        }
        Ok(rows)
    }
}

fn stored(row: &sqlx::sqlite::SqliteRow) -> sqlx::Result<StoredText> {
    let id: String = row.try_get(1)?;
    Ok(StoredText {
        id: Uuid::parse(&id)
            .ok_or_else(|| sqlx::Error::Decode(format!("`{id}` is no event's id").into()))?,
        entity: row.try_get(2)?,
        record: row.try_get(3)?,
        at: Timestamp::from_millis(row.try_get(4)?),
        event: row.try_get(5)?,
    })
}

/// The time of the machine's clock in milliseconds. All processes that use the file share this
/// clock.
fn now() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or_default()
}

fn to_strings(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

impl Outbox for SqliteStore {
    fn open<'a>(
        &'a self,
        consumers: &'a [&'a str],
        committed: Arc<dyn Committed>,
    ) -> BoxFuture<'a, Result<()>> {
        self.commit_receiver.set(committed);
        if consumers.is_empty() {
            return Box::pin(std::future::ready(Ok(())));
        }
        Box::pin(async move {
            let open = async {
                let mut connection = self.pool.acquire().await?;
                let mut transaction =
                    sqlx::Connection::begin_with(&mut *connection, "BEGIN IMMEDIATE").await?;
                for table in TABLES {
                    sqlx::query(table).execute(&mut *transaction).await?;
                }
                let present: Vec<String> = sqlx::query_scalar(PRESENT)
                    .fetch_all(&mut *transaction)
                    .await?;
                for (column, add) in COLUMNS {
                    if !present.iter().any(|known| known == column) {
                        sqlx::query(add).execute(&mut *transaction).await?;
                    }
                }
                for consumer in consumers {
                    sqlx::query(ADD_CONSUMER)
                        .bind(*consumer)
                        .execute(&mut *transaction)
                        .await?;
                }
                // A table with this name and other columns belongs to another application.
                let rows = sqlx::query(ROWS).bind(0_i64).bind(0_i64).bind(0_i64);
                rows.fetch_all(&mut *transaction).await?;
                let had = sqlx::query(HAD).bind("");
                had.fetch_all(&mut *transaction).await?;
                transaction.commit().await
            };
            open.await.map_err(|error| {
                Error::unavailable(format!(
                    "the tables linchpin_outbox, linchpin_consumers and linchpin_parked cannot be used: {error}"
                ))
            })
        })
    }

    fn knows<'a>(&'a self, consumer: &'a str) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let found = sqlx::query(KNOWN)
                .bind(consumer)
                .fetch_optional(&self.pool)
                .await;
            found.map(|row| row.is_some()).map_err(Error::unavailable)
        })
    }

    fn is_in_commit_order(&self) -> bool {
        true
    }

    fn lead<'a>(
        &'a self,
        consumers: &'a [&'a str],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Vec<Option<i64>>>> {
        Box::pin(async move {
            let outbox_task = OutboxTask::Lead {
                consumers: to_strings(consumers),
                leader: self.leader.name.clone(),
                locked: self.leader.holds_lock(),
                now: now(),
                lease: i64::try_from(lease.as_millis()).unwrap_or(i64::MAX),
            };
            let fences = self.outbox_task(outbox_task).await?;
            let fence = |value: &Value| match value {
                Value::Int(fence) => Some(*fence),
                _ => None,
            };
            Ok(fences.iter().map(fence).collect())
        })
    }

    fn resign<'a>(&'a self, consumers: &'a [&'a str]) -> BoxFuture<'a, Result<()>> {
        let outbox_task = OutboxTask::Resign {
            consumers: to_strings(consumers),
            leader: self.leader.name.clone(),
        };
        Box::pin(async move { self.outbox_task(outbox_task).await.map(drop) })
    }

    fn waiting<'a>(
        &'a self,
        consumer: &'a str,
        taken: &'a Numbers,
        known: &'a [Arc<OutboxRow>],
        limit: usize,
    ) -> BoxFuture<'a, Result<Waiting>> {
        Box::pin(async move {
            let Some((mut had, first)) = self.had(consumer).await.map_err(Error::unavailable)?
            else {
                return Ok(Waiting::default());
            };
            had.extend(taken);
            // Rows before the first one were pruned while no running app declared the consumer.
            let gone = first.unwrap_or(1) - 1;
            let missing = had.holes(0).into_iter().filter(|(from, _)| *from <= gone);
            let count = missing
                .map(|(from, to)| to.min(gone).abs_diff(from) + 1)
                .sum();
            let lost = (count > 0).then_some(Lost { count, until: gone });
            if lost.is_some() {
                had.add(0, gone);
            }
            let rows = self.rows(&had, known, limit).await;
            Ok(Waiting {
                rows: rows.map_err(Error::unavailable)?,
                lost,
            })
        })
    }

    fn lost_reported<'a>(&'a self, consumer: &'a str, lost: Lost) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let mut before = Numbers::NONE;
            before.add(0, lost.until);
            self.settle(consumer, &before).await
        })
    }

    fn settle<'a>(&'a self, consumer: &'a str, done: &'a Numbers) -> BoxFuture<'a, Result<()>> {
        let outbox_task = OutboxTask::Settle {
            consumer: consumer.to_owned(),
            done: done.clone(),
        };
        Box::pin(async move { self.outbox_task(outbox_task).await.map(drop) })
    }

    fn park<'a>(&'a self, consumer: &'a str, parked: &'a Parked) -> BoxFuture<'a, Result<()>> {
        let outbox_task = OutboxTask::Park {
            consumer: consumer.to_owned(),
            parked: parked.clone(),
        };
        Box::pin(async move { self.outbox_task(outbox_task).await.map(drop) })
    }

    fn prune<'a>(
        &'a self,
        consumers: &'a [&'a str],
        before: Timestamp,
        parked: Timestamp,
        limit: usize,
    ) -> BoxFuture<'a, Result<usize>> {
        let outbox_task = OutboxTask::Prune {
            consumers: to_strings(consumers),
            before,
            parked,
            limit,
        };
        Box::pin(async move {
            let removed = self.outbox_task(outbox_task).await?;
            Ok(match removed.first() {
                Some(Value::Int(rows)) => usize::try_from(*rows).unwrap_or_default(),
                _ => 0,
            })
        })
    }
}
