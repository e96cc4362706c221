//! Migrations: the rate of a backfill, response times during a backfill, locks on Postgres, and
//! plans of many entities.
//!
//! `cargo xtask bench --migrations` builds this program and runs it with the URL of a Postgres
//! server: `bench-migrations measure URL` prints the rows of a table and exits with 1 if a row is
//! beyond its bound. With other arguments the program is an app, with the commands `serve` and
//! `migrate`; see [`app`].
#![allow(missing_docs)] // a program

mod app;
mod databases;
mod locks;
mod plans;
mod rate;
mod requests;
mod table;
mod versions;

use std::path::Path;

use tokio::runtime::Runtime;

use databases::{Databases, Kind};
use table::Table;
use versions::Versions;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let ["measure", server, only @ ..] = &args[..] else {
        return Ok(runtime.block_on(app::run())?);
    };
    let folder = std::env::temp_dir().join(format!("bench-migrations-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let failed = measure(&runtime, &folder, server, only);
    std::fs::remove_dir_all(&folder)?;
    let failed = failed?;
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("beyond the bound: {}", failed.join(", ")).into())
    }
}

/// Measures the parts in `only`, or all if it is empty. Returns the names of rows beyond their
/// bound.
fn measure(runtime: &Runtime, folder: &Path, server: &str, only: &[&str]) -> Outcome<Vec<String>> {
    let databases = Databases::new(runtime, folder, server);
    let versions = Versions::record(folder)?;
    let mut table = Table::default();
    let wanted = |part: &str| only.is_empty() || only.contains(&part);
    println!("| measurement | ours | baseline | ratio | bound |\n|---|---|---|---|---|");
    for kind in [Kind::Sqlite, Kind::Postgres] {
        if wanted("rate") {
            rate::measure(&databases, &versions, kind, &mut table)?;
        }
    }
    for kind in [Kind::Sqlite, Kind::Postgres] {
        if wanted("requests") {
            requests::measure(&databases, &versions, kind, &mut table)?;
        }
    }
    if wanted("locks") {
        locks::measure(&databases, &versions, &mut table)?;
    }
    for kind in [Kind::Sqlite, Kind::Postgres] {
        if wanted("plans") {
            plans::measure(&databases, kind, &mut table)?;
        }
    }
    Ok(table.failed)
}
