//! Migrations: the rate of a backfill, what requests feel of it, locks on Postgres, and plans of
//! many entities.
//!
//! `cargo xtask bench --migrations` builds and runs it with the URL of a server of its own:
//! `bench-migrations measure URL` prints the rows of a table and exits with 1 if a bound is
//! exceeded. Otherwise it is an app, with the commands `serve` and `migrate`; see [`app`].
#![allow(missing_docs)] // a program

mod app;
mod beside;
mod databases;
mod locks;
mod plans;
mod rate;
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
        Err(format!("above the limit: {}", failed.join(", ")).into())
    }
}

/// Measures all parts, or those that are named. Returns the names of rows beyond their bound.
fn measure(runtime: &Runtime, folder: &Path, server: &str, only: &[&str]) -> Outcome<Vec<String>> {
    let databases = Databases::new(runtime, folder, server);
    let versions = Versions::record(folder)?;
    let mut table = Table::default();
    let wanted = |part: &str| only.is_empty() || only.contains(&part);
    println!("| what | it | beside | ratio | bound |\n|---|---|---|---|---|");
    for kind in [Kind::Sqlite, Kind::Postgres] {
        if wanted("rate") {
            rate::measure(&databases, &versions, kind, &mut table)?;
        }
    }
    for kind in [Kind::Sqlite, Kind::Postgres] {
        if wanted("beside") {
            beside::measure(&databases, &versions, kind, &mut table)?;
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
