//! Short attempts of long reads.
//!
//! A read that no index covers may examine any number of rows, but often examines few: for example,
//! a filter on a small table. In the slots for long reads it would wait for reads that really take
//! long. So it first runs on a connection with a statement time limit of 50 ms. If the server
//! cancels it there, it runs again in a slot for long reads.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::connect::Connector;
use super::lane::Lane;
use super::native::Native;
use super::run::Failure;
use super::scan::Scan;
use super::{GRACE, PostgresOptions, error, run};
use linchpin_core::store::{Rows, Statement};
use linchpin_core::{Result, Value};
use linchpin_sql::read_slots::ReadSlots;

/// The statement time limit of an attempt. It is enough for a page, and the next caller on the
/// connection does not wait long.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(50);

/// Connections for attempts. They are opened for the first read that no index covers.
pub(super) struct ShortReads {
    connector: Arc<Connector>,
    lane: OnceLock<Lane>,
    connections: usize,
    capacity: usize,
    read_slots: ReadSlots,
}

impl ShortReads {
    pub(super) fn new(connector: &Connector, options: &PostgresOptions) -> Self {
        let (connections, capacity) = (options.scans, options.in_flight);
        // For the server, zero milliseconds means no limit.
        let time = if options.statement_timeout.as_millis() == 0 {
            ATTEMPT_TIMEOUT
        } else {
            ATTEMPT_TIMEOUT.min(options.statement_timeout)
        };
        let connector = Arc::new(connector.limited(time));
        Self {
            connector,
            lane: OnceLock::new(),
            connections,
            capacity,
            read_slots: ReadSlots::new(connections, capacity),
        }
    }

    /// Runs a read with the short limit. Returns `None` if the read must run in a slot for long
    /// reads: no attempt was made, the server canceled the read, the connection failed, or the
    /// error may not occur again (a lock conflict, a renamed table or column).
    pub(super) async fn attempt(
        &self,
        native: &Native,
        statement: &Statement,
        args: &[Value],
        rows: &Rows,
    ) -> Option<Result<Rows>> {
        let caller = rows.caller;
        if !native.short_reads.due(caller) {
            return None;
        }
        let lane = self
            .lane
            .get_or_init(|| Lane::start(&self.connector, self.connections, self.capacity));
        let slot = match self.read_slots.take(caller).await {
            Ok(slot) => slot,
            Err(refused) => return Some(Err(refused)),
        };
        // The read does not wait for a connection here: it can still run in a slot for long reads.
        let connection = lane.at_once()?;
        let live = Arc::clone(&connection.live);
        // If the caller stops waiting, the slot becomes free only after the server has finished its
        // statement.
        let scan = Scan::short(connection, slot);
        let mut taken = rows.clone();
        let Ok(outcome) = tokio::time::timeout(
            ATTEMPT_TIMEOUT + GRACE,
            run::run(&live, statement, args, &mut taken),
        )
        .await
        else {
            scan.abandon();
            return None;
        };
        drop(scan.finish());
        match outcome {
            Ok(()) => {
                native.short_reads.succeeded(caller);
                Some(Ok(taken))
            }
            Err(Failure::Server(failure)) if error::is_canceled(&failure) => {
                native.short_reads.stopped(caller);
                None
            }
            // The connection was lost.
            Err(Failure::Unsent(_)) => None,
            Err(Failure::Server(failure))
                if error::is_lost(&failure)
                    || error::may_retry(&failure)
                    || error::is_missing(&failure) =>
            {
                None
            }
            Err(failure) => Some(Err(failure.into_error(statement))),
        }
    }

    /// The number of connections.
    #[cfg(test)]
    pub(super) fn connected(&self) -> usize {
        self.lane.get().map_or(0, Lane::connected)
    }

    /// The number of callers that have a slot here.
    #[cfg(test)]
    pub(super) fn callers(&self) -> usize {
        self.read_slots.callers()
    }

    pub(super) async fn close(&self, time_limit: Duration) {
        self.read_slots.close(time_limit).await;
        if let Some(lane) = self.lane.get() {
            lane.close(time_limit).await;
        }
    }
}
