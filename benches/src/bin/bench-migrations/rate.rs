//! The rate of a backfill without pauses, compared with a batched `UPDATE` with the same result.

use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension as _};
use tokio_postgres::Client;

use crate::Outcome;
use crate::databases::{Databases, Kind};
use crate::table::{Table, median};
use crate::versions::{TEXT, Versions};

const ROWS: usize = 500_000;
/// Alternating rounds of each; the median counts.
const ROUNDS: usize = 5;
/// The number of rows in a batch of the hand-written `UPDATE`. It equals the maximum of the
/// backfill.
const BATCH: i64 = 10_000;

/// The last key of the next batch.
const LAST: &str = "SELECT max(id) FROM (SELECT id FROM posts WHERE id > $1 ORDER BY id LIMIT $2) \
                    AS batch";
const UPDATE: &str = "UPDATE posts SET views__next = views || ' views', views__src = views \
                      WHERE id > $1 AND id <= $2";
const DONE: &str =
    "SELECT count(*) FROM posts WHERE views__next = views || ' views' AND views__src = views";

pub(crate) fn measure(
    databases: &Databases<'_>,
    versions: &Versions,
    kind: Kind,
    table: &mut Table,
) -> Outcome<()> {
    let url = databases.with_posts(versions, kind, "rate", ROWS)?;
    versions.run(TEXT, &url, "apply --phase expand")?;
    let (mut ours, mut by_hand) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let url = databases.copy(kind, "rate", "ours")?;
        let words = versions.backfill(TEXT, &url)? + " --duty 1";
        let started = Instant::now();
        versions.run(TEXT, &url, &words)?;
        ours.push(started.elapsed());
        check_and_remove(databases, kind, "ours")?;

        let url = databases.copy(kind, "rate", "by_hand")?;
        by_hand.push(match kind {
            Kind::Sqlite => sqlite(&Connection::open(databases.file("by_hand"))?)?,
            Kind::Postgres => {
                let client = databases.client(&url)?;
                databases.runtime.block_on(postgres(&client))?
            }
        });
        check_and_remove(databases, kind, "by_hand")?;
    }
    databases.remove(kind, "rate")?;
    let rate = |times| ROWS as f64 / median(times).as_secs_f64();
    let what = format!(
        "{}: rows of a backfill at `--duty 1`, compared with a batched `UPDATE`",
        kind.name()
    );
    table.rates(&what, (rate(ours), rate(by_hand)), 0.5);
    Ok(())
}

/// Checks that each row has its value, and removes the database.
fn check_and_remove(databases: &Databases<'_>, kind: Kind, name: &str) -> Outcome<()> {
    let done = databases.number(kind, name, DONE)?;
    if usize::try_from(done)? != ROWS {
        return Err(format!("{name}: {done} of {ROWS} rows have their value").into());
    }
    databases.remove(kind, name)
}

fn sqlite(connection: &Connection) -> Outcome<Duration> {
    connection.pragma_update(None, "synchronous", "FULL")?;
    let started = Instant::now();
    let mut last = connection.prepare(LAST)?;
    let mut update = connection.prepare(UPDATE)?;
    let mut after = String::new();
    loop {
        let next = last.query_row((&after, BATCH), |row| row.get::<_, Option<String>>(0));
        let Some(next) = next.optional()?.flatten() else {
            return Ok(started.elapsed());
        };
        update.execute((&after, &next))?;
        after = next;
    }
}

async fn postgres(client: &Client) -> Outcome<Duration> {
    let started = Instant::now();
    let last = client.prepare(LAST).await?;
    let update = client.prepare(UPDATE).await?;
    let mut after = String::new();
    loop {
        let row = client.query_one(&last, &[&after, &BATCH]).await?;
        let Some(next) = row.try_get::<_, Option<String>>(0)? else {
            return Ok(started.elapsed());
        };
        client.execute(&update, &[&after, &next]).await?;
        after = next;
    }
}
