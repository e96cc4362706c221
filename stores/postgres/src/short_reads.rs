//! Short attempts of reads that may take long.
//!
//! A read that no index covers may examine any number of rows, but mostly examines few: a page of
//! the records that a caller may see, a filter on a small table. In the slots for long reads it
//! would wait for reads that do take long. So it starts on a connection with a short statement time
//! limit. Only if the server stops it there, it runs again in a slot.

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

/// The server's time limit of an attempt: enough for a page, and short for the next caller on the
/// connection.
const TIME: Duration = Duration::from_millis(50);

/// Connections for attempts; opened when the first read may take long.
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
        // For the server zero means no limit, and so does a value that rounds to zero.
        let time = if options.statement_timeout.as_millis() == 0 {
            TIME
        } else {
            TIME.min(options.statement_timeout)
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

    /// Runs a read while it is short; `None` if it was stopped, or the attempt was not possible.
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
        let own = match self.read_slots.take(caller).await {
            Ok(own) => own,
            Err(refused) => return Some(Err(refused)),
        };
        // No waiting for a connection here: the slots have their own.
        let place = lane.at_once()?;
        let live = Arc::clone(&place.live);
        // If the caller stops waiting, the slot becomes free only after the server has finished its
        // statement.
        let scan = Scan::short(place, own);
        let mut taken = rows.clone();
        let Ok(outcome) =
            tokio::time::timeout(TIME + GRACE, run::run(&live, statement, args, &mut taken)).await
        else {
            scan.abandon();
            return None;
        };
        drop(scan.over());
        match outcome {
            Ok(()) => {
                native.short_reads.ended(caller);
                Some(Ok(taken))
            }
            Err(Failure::Server(failure)) if error::is_ended(&failure) => {
                native.short_reads.given_up(caller);
                None
            }
            // The connection was lost.
            Err(Failure::Unsent(_)) => None,
            Err(Failure::Server(failure))
                if error::is_lost(&failure)
                    || error::may_repeat(&failure)
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

    pub(super) async fn close(&self, patience: Duration) {
        self.read_slots.close(patience).await;
        if let Some(lane) = self.lane.get() {
            lane.close(patience).await;
        }
    }
}
