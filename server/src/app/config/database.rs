//! The settings of a `PostgreSQL` server.

use std::time::Duration;

/// `stores.postgres`: the settings of a Postgres server; `None` is the default of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Postgres {
    /// The number of connections for reads that an index covers.
    pub readers: Option<usize>,
    /// The number of connections for reads that may take long. The store opens the same number
    /// again for a first attempt of these reads, which has a time limit of 50 ms.
    pub scans: Option<usize>,
    /// The number of connections for writes.
    pub writers: Option<usize>,
    /// The maximum number of connections in the pool for the application's own SQL.
    pub pool: Option<usize>,
    /// The maximum number of concurrent transactions of this process.
    pub transactions: Option<usize>,
    /// The maximum number of reads in progress, and also the maximum number of writes in progress.
    pub in_flight: Option<usize>,
    /// The time limit of a statement on the server.
    pub statement_timeout: Option<Duration>,
    /// The time limit for opening a connection.
    pub connect_timeout: Option<Duration>,
}

/// The upper limit of all counts: connections, statements or seconds.
pub(super) const MAX_COUNT: usize = 100_000;

pub(super) fn parse_count(text: &str) -> Result<usize, &'static str> {
    text.parse()
        .ok()
        .filter(|n| (1..=MAX_COUNT).contains(n))
        .ok_or("must be a number from 1 to 100000")
}
