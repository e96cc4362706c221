//! Work of the writer thread for the outbox.

use rusqlite::{Connection, OptionalExtension, params};

use linchpin_core::store::{Numbers, Parked};
use linchpin_core::{Error, Result, Timestamp, Value};

const SETTLED: &str = "SELECT seq, had FROM linchpin_consumers WHERE name = ?";
const SETTLE: &str = "UPDATE linchpin_consumers SET seq = ?, had = ? WHERE name = ?";
const PARK: &str = "INSERT INTO linchpin_parked (consumer, id, parked_at, error, event) VALUES (?, ?, ?, ?, ?) \
     ON CONFLICT (consumer, id) DO NOTHING";
const PRUNE: &str = "DELETE FROM linchpin_outbox WHERE at < ?1 AND seq < (SELECT max(seq) FROM linchpin_outbox) AND seq <= ?2 \
     AND seq IN (SELECT seq FROM linchpin_outbox ORDER BY seq LIMIT ?3)";
const PRUNE_PARKED: &str = "DELETE FROM linchpin_parked WHERE parked_at < ?";
/// Takes or renews a lease. A lease that ends more than one lease time from now was taken before
/// the clock was set back, so it is void.
const LEAD: &str = "UPDATE linchpin_consumers SET leader = ?2, locked = ?3, until = ?4 + ?5, fence = fence + (leader IS NOT ?2) \
     WHERE name = ?1 AND (leader IS NULL OR leader = ?2 OR until < ?4 OR until > ?4 + ?5 OR (?3 AND locked)) RETURNING fence";
const RESIGN: &str = "UPDATE linchpin_consumers SET leader = NULL WHERE name = ? AND leader = ?";

/// Work of the writer thread for the outbox.
#[derive(Debug)]
pub(crate) enum OutboxTask {
    Settle {
        consumer: String,
        done: Numbers,
    },
    Park {
        consumer: String,
        parked: Parked,
    },
    Prune {
        consumers: Vec<String>,
        before: Timestamp,
        parked: Timestamp,
        limit: usize,
    },
    Lead {
        consumers: Vec<String>,
        leader: String,
        locked: bool,
        now: i64,
        lease: i64,
    },
    Resign {
        consumers: Vec<String>,
        leader: String,
    },
}

impl OutboxTask {
    /// Does the work, in a new transaction if there is none. Returns its values.
    pub(crate) fn run(&self, connection: &Connection) -> Result<Vec<Value>> {
        let own_transaction = connection.is_autocommit();
        let run = || {
            if own_transaction {
                connection.execute_batch("BEGIN IMMEDIATE")?;
            }
            let values = self.work(connection)?;
            if own_transaction {
                connection.execute_batch("COMMIT")?;
            }
            Ok(values)
        };
        // After an error the caller rolls back.
        run().map_err(|error: rusqlite::Error| Error::unavailable(error))
    }

    fn work(&self, connection: &Connection) -> rusqlite::Result<Vec<Value>> {
        match self {
            Self::Settle { consumer, done } => settle(connection, consumer, done)?,
            Self::Park { consumer, parked } => {
                let event = &parked.event;
                connection.prepare_cached(PARK)?.execute(params![
                    consumer,
                    event.event.id.as_str(),
                    parked.at.millis(),
                    parked.error,
                    event.text()
                ])?;
            }
            Self::Prune {
                consumers,
                before,
                parked,
                limit,
            } => {
                connection
                    .prepare_cached(PRUNE_PARKED)?
                    .execute([parked.millis()])?;
                let mut least = i64::MAX;
                for consumer in consumers {
                    let settled = settled(connection, consumer)?;
                    // An unknown consumer has processed no events.
                    least = least.min(settled.map_or(0, |(seq, _)| seq));
                }
                let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
                let removed = connection.prepare_cached(PRUNE)?.execute(params![
                    before.millis(),
                    least,
                    limit
                ])?;
                return Ok(vec![Value::Int(i64::try_from(removed).unwrap_or(i64::MAX))]);
            }
            Self::Lead {
                consumers,
                leader,
                locked,
                now,
                lease,
            } => {
                let mut lead = connection.prepare_cached(LEAD)?;
                let fence = |name: &String| {
                    lead.query_row(params![name, leader, locked, now, lease], |row| row.get(0))
                        .optional()
                        .map(|fence| fence.map_or(Value::Null, Value::Int))
                };
                return consumers.iter().map(fence).collect();
            }
            Self::Resign { consumers, leader } => {
                for consumer in consumers {
                    connection
                        .prepare_cached(RESIGN)?
                        .execute(params![consumer, leader])?;
                }
            }
        }
        Ok(Vec::new())
    }
}

/// The progress of a consumer: it has processed all rows up to the number, and the ranges of rows
/// after it.
fn settled(connection: &Connection, consumer: &str) -> rusqlite::Result<Option<(i64, String)>> {
    connection
        .prepare_cached(SETTLED)?
        .query_row([consumer], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

fn settle(connection: &Connection, consumer: &str, done: &Numbers) -> rusqlite::Result<()> {
    let Some((seq, ranges)) = settled(connection, consumer)? else {
        return Ok(());
    };
    let mut had = Numbers::parse(&ranges).unwrap_or_default();
    had.add(0, seq);
    had.extend(done);
    // All rows before the first hole are processed.
    let seq = had.holes(0)[0].0 - 1;
    had.forget_up_to(seq);
    connection
        .prepare_cached(SETTLE)?
        .execute(params![seq, had.to_string(), consumer])?;
    Ok(())
}
