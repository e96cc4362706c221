//! One million rows: deep pages compared with the first page, a batch of 10,000 records, and
//! aggregates over all rows compared with hand-written SQL, in one run on one database.
//!
//! `cargo xtask bench --large` builds and runs it on a SQLite file, or with `--postgres` on a
//! separate server, whose URL is the argument. It exits with 1 if a bound is exceeded.
#![allow(missing_docs)] // a program

mod by_hand;

use std::sync::Arc;
use std::time::{Duration, Instant};

use linchpin::prelude::*;
use linchpin::resource::{CursorKey, Table};
use linchpin::store::Store;
use linchpin::store::create_tables;
use linchpin::store::sqlite::{SqliteOptions, SqliteStore};

use by_hand::ByHand;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A row of a large table.
#[entity(namespace = "large", index(desc(created_at)), index(batch), sort = desc(created_at), pagination(default = 25, max = 100), routes(auth = none))]
#[derive(Clone, Debug)]
pub struct Row {
    #[field(primary)]
    pub id: i64,
    pub title: String,
    pub batch: i64,
    #[field(default = 0)]
    pub views: i64,
    pub ratio: Option<f64>,
    #[field(default = false)]
    pub seen: bool,
    pub created_at: Timestamp,
}

#[operation(kind = "batch", action = "update", filter = (batch == param(batch)), set(seen = true))]
pub const SEE: Operation<Row>;

#[operation(kind = "aggregate", compute(n = count(), views = sum(views), mean = avg(ratio), last = max(created_at)))]
pub const TOTALS: Operation<Row>;

#[operation(kind = "aggregate", group_by = week(created_at), compute(n = count(), views = sum(views)))]
pub const BY_WEEK: Operation<Row>;

static ENTRY: Package = package!(
    name = "large",
    entities = [entity(Row, [SEE, TOTALS, BY_WEEK])]
);

const ROWS: i64 = 1_000_000;
/// Rows of one batch.
const BATCH: i64 = 10_000;
/// Rows of one page.
const PAGE: u32 = 25;
/// The time of the first row, in milliseconds since 1970.
const START: i64 = 1_700_000_000_000;
/// The time between two consecutive rows, in milliseconds.
const ROW_INTERVAL_MILLIS: i64 = 10_000;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main(worker_threads = 2)]
async fn main() -> Outcome<()> {
    let failed = match std::env::args().nth(1) {
        Some(url) => on_postgres(&url).await?,
        None => {
            let folder =
                std::env::temp_dir().join(format!("linchpin-bench-large-{}", std::process::id()));
            std::fs::create_dir(&folder)?;
            let outcome = on_sqlite(&folder.join("large.db")).await;
            std::fs::remove_dir_all(&folder)?;
            outcome?
        }
    };
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("beyond the bound: {}", failed.join(", ")).into())
    }
}

async fn on_sqlite(file: &std::path::Path) -> Outcome<Vec<&'static str>> {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(SqliteOptions::new(file))?);
    create_tables(&*store, &[ENTRY.entities[0].desc]).await?;
    measure(store, ByHand::sqlite(file)?).await
}

#[cfg(feature = "postgres")]
async fn on_postgres(url: &str) -> Outcome<Vec<&'static str>> {
    use linchpin::store::postgres::{PostgresOptions, PostgresStore};

    let store: Arc<dyn Store> = Arc::new(PostgresStore::open(PostgresOptions::new(url))?);
    create_tables(&*store, &[ENTRY.entities[0].desc]).await?;
    measure(store, ByHand::postgres(url).await?).await
}

#[cfg(not(feature = "postgres"))]
async fn on_postgres(_: &str) -> Outcome<Vec<&'static str>> {
    Err("built without the feature `postgres`".into())
}

async fn measure(store: Arc<dyn Store>, mut by_hand: ByHand) -> Outcome<Vec<&'static str>> {
    let entry = &ENTRY.entities[0];
    let started = Instant::now();
    by_hand.seed().await?;
    println!("{ROWS} rows in {:.1} s\n", started.elapsed().as_secs_f64());
    let key = CursorKey::derive(&["a secret of at least thirty-two bytes"]);
    let table = Arc::new(Table::new(entry.desc, Arc::clone(&store), key)?.bounded(entry));
    let adapters = linchpin::Adapters::new([table]);
    let rows = adapters.get::<Row>()?;
    let cx = Cx::system("bench");
    let mut failed = Vec::new();
    let mut check = |what: &'static str, one: Duration, other: Duration, bound: f64| {
        let ratio = one.as_secs_f64() / other.as_secs_f64();
        println!(
            "| {what} | {:.3} ms | {:.3} ms | {ratio:.2} | {bound:.1} |",
            one.as_secs_f64() * 1e3,
            other.as_secs_f64() * 1e3
        );
        if ratio > bound {
            failed.push(what);
        }
    };
    println!("| measurement | ours | baseline | ratio | bound |\n|---|---|---|---|---|");

    // The cursor of page 40,000 does not depend on the page size, so the list is read in the
    // largest pages.
    let deep = cursor_after(&rows, &cx, ROWS - i64::from(PAGE)).await?;
    let list = async |cursor: Option<&str>| {
        let started = Instant::now();
        let query = ListQuery::<Row>::new().limit(PAGE);
        let page = rows
            .list(
                &cx,
                cursor.map_or(query.clone(), |cursor| query.cursor(cursor)),
            )
            .await?;
        assert_eq!(page.items.len(), 25);
        Ok::<Duration, linchpin::Error>(started.elapsed())
    };
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for _ in 0..2000 {
        first.push(list(None).await?);
        last.push(list(Some(&deep)).await?);
    }
    check(
        "page 40,000, compared with page 1",
        median(last),
        median(first),
        1.3,
    );

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..40 {
        let (one, other) = (round * 2, round * 2 + 1);
        let started = Instant::now();
        assert_eq!(rows.see(&cx, one).await?, BATCH.unsigned_abs());
        ours.push(started.elapsed());
        let started = Instant::now();
        let changed = by_hand.see(other).await?;
        theirs.push(started.elapsed());
        assert_eq!(changed, 10_000);
    }
    check(
        "a batch of 10,000, compared with hand-written SQL",
        median(ours),
        median(theirs),
        1.1,
    );

    let before = peak();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let (mut weeks, mut by_weeks) = (Vec::new(), Vec::new());
    for _ in 0..7 {
        let started = Instant::now();
        assert_eq!(rows.totals(&cx).await?.n, ROWS);
        ours.push(started.elapsed());
        let started = Instant::now();
        let n = by_hand.totals().await?;
        theirs.push(started.elapsed());
        assert_eq!(n, ROWS);
        let started = Instant::now();
        let found = rows.by_week(&cx).await?.len();
        weeks.push(started.elapsed());
        let started = Instant::now();
        let by_hand = by_hand.weeks().await?;
        by_weeks.push(started.elapsed());
        assert_eq!(found, by_hand);
    }
    check(
        "aggregates over a million rows, compared with hand-written SQL",
        median(ours),
        median(theirs),
        1.1,
    );
    check(
        "the same, grouped by week",
        median(weeks),
        median(by_weeks),
        1.1,
    );
    let grown = peak().saturating_sub(before);
    println!("\nthe maximum memory grew by {grown} KiB during the aggregates");
    // The page cache of a SQLite connection may grow. A million rows in memory would need far more
    // than this bound.
    if grown > 16 * 1024 {
        failed.push("memory during the aggregates");
    }
    store.close().await;
    Ok(failed)
}

/// The cursor after this number of rows.
async fn cursor_after(
    rows: &RowAdapter,
    cx: &Cx,
    wanted: i64,
) -> Result<String, Box<dyn std::error::Error>> {
    let (mut seen, mut cursor) = (0, None);
    loop {
        let limit = (wanted - seen).min(100);
        let query = ListQuery::new().limit(u32::try_from(limit)?);
        let page = rows
            .list(
                cx,
                cursor.map_or(query.clone(), |cursor: String| query.cursor(cursor)),
            )
            .await?;
        seen += i64::try_from(page.items.len())?;
        let next = page.next_cursor.ok_or("the table is too small")?;
        if seen >= wanted {
            return Ok(next);
        }
        cursor = Some(next);
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// The maximum memory of this process, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}
