//! Short tries of reads that may take long.
//!
//! What no index covers may look at any number of rows and mostly looks at few: a page of what a
//! caller may see, a filter on a small table. Among the scans it would wait for those that do take
//! long. So it is begun on a connection whose statements the server ends after a moment, and only
//! what was ended there goes on to the scans.

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
use linchpin_sql::places::Places;

/// How long a try may take on the server: long for a page, and short for whoever waits for the
/// connection.
const TIME: Duration = Duration::from_millis(50);

/// Connections for tries; made when the first read may take long.
pub(super) struct Brief {
    connector: Arc<Connector>,
    lane: OnceLock<Lane>,
    connections: usize,
    capacity: usize,
    places: Places,
}

impl Brief {
    pub(super) fn new(connector: &Connector, options: &PostgresOptions) -> Self {
        let (connections, capacity) = (options.scans, options.in_flight);
        // Nothing is no limit to the server, and neither is what it rounds to that.
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
            places: Places::new(connections, capacity),
        }
    }

    /// Runs a read as long as it is short; `None` when it was given up, or nothing can be said of
    /// it here.
    pub(super) async fn attempt(
        &self,
        native: &Native,
        statement: &Statement,
        args: &[Value],
        rows: &Rows,
    ) -> Option<Result<Rows>> {
        let caller = rows.caller;
        if !native.tries.due(caller) {
            return None;
        }
        let lane = self
            .lane
            .get_or_init(|| Lane::start(&self.connector, self.connections, self.capacity));
        let own = match self.places.take(caller).await {
            Ok(own) => own,
            Err(refused) => return Some(Err(refused)),
        };
        // Nobody waits for a connection here: the scans have theirs.
        let place = lane.at_once()?;
        let live = Arc::clone(&place.live);
        // Whoever goes away leaves the place to the next only when the server is through with what
        // was asked there.
        let scan = Scan::brief(place, own);
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
                native.tries.ended(caller);
                Some(Ok(taken))
            }
            Err(Failure::Server(failure)) if error::is_ended(&failure) => {
                native.tries.given_up(caller);
                None
            }
            // The connection was lost.
            Err(Failure::Unsent(_)) => None,
            Err(Failure::Server(failure))
                if error::is_lost(&failure) || error::may_repeat(&failure) =>
            {
                None
            }
            Err(failure) => Some(Err(failure.into_error(statement))),
        }
    }

    /// How many connections there are.
    #[cfg(test)]
    pub(super) fn connected(&self) -> usize {
        self.lane.get().map_or(0, Lane::connected)
    }

    /// How many callers have a place here.
    #[cfg(test)]
    pub(super) fn callers(&self) -> usize {
        self.places.callers()
    }

    pub(super) async fn close(&self, patience: Duration) {
        self.places.close(patience).await;
        if let Some(lane) = self.lane.get() {
            lane.close(patience).await;
        }
    }
}
