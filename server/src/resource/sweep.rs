//! The sweeper: removes expired records from stores that do not do so themselves.
//!
//! Expired records are invisible, so it does not matter when they are removed.

use std::sync::Arc;
use std::time::Duration;

use super::{Form, Table};
use crate::clock::Clock;
use crate::filter::{Filter, Op, Operand, Source};
use crate::store::{Order, Plan, Rows};
use crate::validate::list_value;
use crate::{Cx, Result, Timestamp, Value};

/// The number of records that one statement removes, so that a sweep does not block writers for
/// long.
const CHUNK: usize = 500;

impl Table {
    /// Removes the records that have expired at an instant, and returns their number.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn sweep(&self, now: Timestamp) -> Result<usize> {
        let Some(ttl) = self.desc.ttl else {
            return Ok(0);
        };
        let cx = Cx::system("remove expired records").at(now);
        let (primary, argument) = (self.desc.primary, |index| {
            Operand::One(Source::Arg {
                index,
                nullable: false,
            })
        });
        let expired = || Filter::cond(ttl.field, Op::Lte, argument(0));
        let order = [ttl.field, primary]
            .map(|field| Order { field, desc: false })
            .to_vec();
        let limit = Some(Source::Value(Value::Int(CHUNK as i64)));
        let find = self.unrestricted(Plan::Select {
            filter: expired(),
            order,
            after: None,
            limit,
        })?;
        let remove = self.expiring(Plan::Delete {
            filter: expired().and(Filter::cond(primary, Op::In, argument(1))),
            pick: None,
        })?;
        let mut removed = 0;
        loop {
            let found = self
                .execute(
                    &cx,
                    &find,
                    vec![Value::Date(now)],
                    self.rows(&Form::Records),
                )
                .await?;
            let keys: Vec<Value> = found
                .records
                .iter()
                .map(|record| record[primary].clone())
                .collect();
            if keys.is_empty() {
                return Ok(removed);
            }
            removed += self
                .execute(
                    &cx,
                    &remove,
                    vec![Value::Date(now), list_value(&keys)],
                    Rows::count(),
                )
                .await?
                .count;
            if keys.len() < CHUNK {
                return Ok(removed);
            }
        }
    }
}

/// Starts a task that sweeps at intervals every table with expiring records; `None` if there is no
/// such table.
pub(crate) fn start(
    tables: &[Arc<Table>],
    clock: Clock,
    every: Duration,
) -> Option<tokio::task::JoinHandle<()>> {
    let tables: Vec<Arc<Table>> = tables
        .iter()
        .filter(|table| table.desc.ttl.is_some())
        .map(Arc::clone)
        .collect();
    if tables.is_empty() {
        return None;
    }
    Some(tokio::spawn(async move {
        let mut ticks = tokio::time::interval(every);
        // Missed intervals need only one sweep.
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for table in &tables {
                match table.sweep(clock()).await {
                    Ok(0) => {}
                    Ok(removed) => tracing::debug!(
                        entity = table.desc.name,
                        removed,
                        "expired records removed"
                    ),
                    // The next round tries again; the remaining records are invisible.
                    Err(error) => {
                        tracing::warn!(entity = table.desc.name, %error, "expired records could not be removed");
                    }
                }
            }
        }
    }))
}
