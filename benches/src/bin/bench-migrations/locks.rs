//! The longest ACCESS EXCLUSIVE lock on a table of Postgres during expand and backfill.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::Outcome;
use crate::databases::{Databases, Kind};
use crate::table::Table;
use crate::versions::{Versions, WIDE};

const ROWS: usize = 1_000_000;
/// Between two looks at the locks.
const PAUSE: Duration = Duration::from_millis(1);
const BOUND: Duration = Duration::from_millis(200);

/// The locks on tables of entities, by the transaction that holds them.
const LOCKS: &str = "SELECT c.relname::text, l.virtualtransaction FROM pg_locks l \
    JOIN pg_class c ON c.oid = l.relation WHERE l.mode = 'AccessExclusiveLock' AND l.granted \
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
    AND c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace";

pub(crate) fn measure(
    databases: &Databases<'_>,
    versions: &Versions,
    table: &mut Table,
) -> Outcome<()> {
    let url = databases.filled(versions, Kind::Postgres, "locks", ROWS)?;
    let stop = Arc::new(AtomicBool::new(false));
    let client = databases.client(&url)?;
    let sampler = databases.runtime.spawn(sample(client, Arc::clone(&stop)));
    let applied = apply(versions, &url);
    stop.store(true, Ordering::Relaxed);
    let seen = databases.runtime.block_on(sampler)??;
    applied?;
    databases.remove(Kind::Postgres, "locks")?;
    // A lock that no look found is shorter than the time between two looks.
    if seen.locks == 0 || seen.gap > BOUND {
        return Err(format!(
            "{} locks were seen in {} looks, up to {:?} apart",
            seen.locks, seen.looks, seen.gap
        )
        .into());
    }
    table.at_most(
        &format!(
            "longest ACCESS EXCLUSIVE lock on a table of a million rows in expand and backfill \
             ({} looks, {} of them at a lock)",
            seen.looks, seen.locks
        ),
        seen.longest,
        BOUND,
    );
    Ok(())
}

fn apply(versions: &Versions, url: &str) -> Outcome<()> {
    versions.done(WIDE, url, "apply --phase expand")?;
    let words = versions.backfill(WIDE, url)? + " --duty 1";
    versions.done(WIDE, url, &words)?;
    Ok(())
}

#[derive(Default)]
struct Seen {
    looks: usize,
    /// The looks that found a lock.
    locks: usize,
    longest: Duration,
    /// The longest time between two looks.
    gap: Duration,
}

/// Looks at the locks again and again. A lock may have begun right after the look before the first
/// that found it, and ended right before the look after the last one: this time counts.
async fn sample(
    client: Client,
    stop: Arc<AtomicBool>,
) -> std::result::Result<Seen, tokio_postgres::Error> {
    let locks = client.prepare(LOCKS).await?;
    let mut seen = Seen::default();
    let mut held: BTreeMap<(String, String), Instant> = BTreeMap::new();
    let mut before = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let found = client.query(&locks, &[]).await?;
        let now = Instant::now();
        let mut present = BTreeMap::new();
        for row in &found {
            let key = (row.try_get(0)?, row.try_get(1)?);
            let since = held.remove(&key).unwrap_or(before);
            present.insert(key, since);
        }
        // Those that are left have ended.
        let ended = held.values().map(|since| now - *since);
        seen.longest = ended.fold(seen.longest, Duration::max);
        held = present;
        seen.looks += 1;
        seen.locks += usize::from(!held.is_empty());
        seen.gap = seen.gap.max(now - before);
        before = now;
        tokio::time::sleep(PAUSE).await;
    }
    let ended = held.values().map(|since| before - *since);
    seen.longest = ended.fold(seen.longest, Duration::max);
    Ok(seen)
}
