//! The settings of a `PostgreSQL` server.

use std::time::Duration;

/// `stores.postgres`: the settings of a Postgres server; `None` is the default of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Postgres {
    /// Connections for reads that an index covers.
    pub readers: Option<usize>,
    /// Connections for reads that may take long. The store opens the same number again for short
    /// attempts of these reads.
    pub scans: Option<usize>,
    /// Connections for writes.
    pub writers: Option<usize>,
    /// Most connections for conversations.
    pub pool: Option<usize>,
    /// Transactions of this process at a time.
    pub transactions: Option<usize>,
    /// The maximum number of reads in progress, and also the maximum number of writes in progress.
    pub in_flight: Option<usize>,
    /// The time limit of a statement on the server.
    pub statement_timeout: Option<Duration>,
    /// The time limit of connecting.
    pub connect_timeout: Option<Duration>,
}

/// The upper limit of all counts: connections, statements or seconds.
pub(super) const COUNT: usize = 100_000;

pub(super) fn count(text: &str) -> Result<usize, &'static str> {
    text.parse()
        .ok()
        .filter(|n| (1..=COUNT).contains(n))
        .ok_or("must be a number from 1 to 100000")
}
