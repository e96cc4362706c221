//! Where records live, and how a server is used.

use std::path::PathBuf;
use std::time::Duration;

/// Where records live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// In this process; gone when it stops.
    Memory,
    /// In a file beside the app.
    Sqlite(PathBuf),
    /// On a server, at this URL.
    Postgres(DatabaseUrl),
}

/// The URL of a server. It holds a password, so it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// The URL itself.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))] // nobody else connects
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DatabaseUrl(..)")
    }
}

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

pub(super) fn database(url: &str) -> Result<Database, String> {
    let problem = || {
        let hint = if url.contains("memory") {
            "; in memory is `memory:`"
        } else {
            ""
        };
        let found = url.split(':').next().unwrap_or_default();
        format!("must be `sqlite:<file>`, `postgres://…` or `memory:`, found `{found}`{hint}")
    };
    match url.split_once(':') {
        Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
            Ok(Database::Postgres(DatabaseUrl(url.to_owned())))
        }
        Some(("memory", "")) => Ok(Database::Memory),
        Some(("sqlite", path)) => {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() || path == ":memory:" {
                Err(problem())
            } else {
                Ok(Database::Sqlite(path.into()))
            }
        }
        _ => Err(problem()),
    }
}
