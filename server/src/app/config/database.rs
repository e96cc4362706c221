//! How a `PostgreSQL` server is used.

use std::time::Duration;

/// `stores.postgres`: how a server is used; what is not named is as the store has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Postgres {
    /// Connections for reads that an index covers.
    pub readers: Option<usize>,
    /// Connections for reads that may take long, and as many on which each of these is tried for a
    /// moment before.
    pub scans: Option<usize>,
    /// Connections for writes.
    pub writers: Option<usize>,
    /// Most connections for conversations.
    pub pool: Option<usize>,
    /// Transactions of this process at a time.
    pub transactions: Option<usize>,
    /// Reads, and as many writes, that may be under way.
    pub in_flight: Option<usize>,
    /// How long a statement may take on the server.
    pub statement_timeout: Option<Duration>,
    /// How long connecting may take.
    pub connect_timeout: Option<Duration>,
}

/// The greatest number of connections, statements or seconds.
pub(super) const COUNT: usize = 100_000;

pub(super) fn count(text: &str) -> Result<usize, &'static str> {
    text.parse()
        .ok()
        .filter(|n| (1..=COUNT).contains(n))
        .ok_or("must be a number from 1 to 100000")
}
