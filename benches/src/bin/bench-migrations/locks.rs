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
/// The pause between two samples of the locks.
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
    let url = databases.with_posts(versions, Kind::Postgres, "locks", ROWS)?;
    let stop = Arc::new(AtomicBool::new(false));
    let client = databases.client(&url)?;
    let sampler = databases.runtime.spawn(sample(client, Arc::clone(&stop)));
    let applied = apply(versions, &url);
    stop.store(true, Ordering::Relaxed);
    let seen = databases.runtime.block_on(sampler)??;
    applied?;
    databases.remove(Kind::Postgres, "locks")?;
    // A lock that is in no sample was shorter than the time between two samples.
    if seen.locks == 0 || seen.gap > BOUND {
        return Err(format!(
            "{} of {} samples found a lock; samples were up to {:?} apart",
            seen.locks, seen.samples, seen.gap
        )
        .into());
    }
    table.at_most(
        &format!(
            "longest ACCESS EXCLUSIVE lock on a table of a million rows during expand and backfill \
             ({} samples, {} of them with a lock)",
            seen.samples, seen.locks
        ),
        seen.longest,
        BOUND,
    );
    Ok(())
}

fn apply(versions: &Versions, url: &str) -> Outcome<()> {
    versions.run(WIDE, url, "apply --phase expand")?;
    let words = versions.backfill(WIDE, url)? + " --duty 1";
    versions.run(WIDE, url, &words)?;
    Ok(())
}

#[derive(Default)]
struct Seen {
    samples: usize,
    /// The number of samples that found a lock.
    locks: usize,
    longest: Duration,
    /// The maximum time between two samples.
    gap: Duration,
}

/// Samples the locks until `stop` is true. A lock is measured from the last sample before it to the
/// first sample after it, so its real duration is shorter.
async fn sample(
    client: Client,
    stop: Arc<AtomicBool>,
) -> std::result::Result<Seen, tokio_postgres::Error> {
    let locks = client.prepare(LOCKS).await?;
    let mut seen = Seen::default();
    let mut open_locks: BTreeMap<(String, String), Instant> = BTreeMap::new();
    let mut before = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let found = client.query(&locks, &[]).await?;
        let now = Instant::now();
        let mut present = BTreeMap::new();
        for row in &found {
            let key = (row.try_get(0)?, row.try_get(1)?);
            let since = open_locks.remove(&key).unwrap_or(before);
            present.insert(key, since);
        }
        // The locks that remain in `open_locks` have ended.
        let ended = open_locks.values().map(|since| now - *since);
        seen.longest = ended.fold(seen.longest, Duration::max);
        open_locks = present;
        seen.samples += 1;
        seen.locks += usize::from(!open_locks.is_empty());
        seen.gap = seen.gap.max(now - before);
        before = now;
        tokio::time::sleep(PAUSE).await;
    }
    let ended = open_locks.values().map(|since| before - *since);
    seen.longest = ended.fold(seen.longest, Duration::max);
    Ok(seen)
}
