//! Conformance of stores at the level of calls: the same calls on the memory model and on a store
//! must have the same result. Of concurrent callers exactly one succeeds where only one may.
//!
//! `cargo xtask conformance` runs any number of random sequences; `cargo test` runs a fixed number
//! from a fixed seed. A sequence that shows a difference is shrunk and stored in `seeds/`. Stored
//! sequences run first, on every store.

#![allow(clippy::unwrap_used)] // in a test, stopping is the report

mod act;
#[path = "../support/around.rs"]
mod around;
mod compare;
mod costs;
mod differential;
mod faults;
mod fixture;
#[cfg(target_os = "linux")] // it mounts a disk
mod full_disk;
mod generate;
mod large;
mod pool;
mod races;
mod sequence;
#[cfg(feature = "postgres")]
#[path = "../support/postgres.rs"]
mod server;
mod shrink;
mod side;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use linchpin::store::Store;
use linchpin::store::memory::Memory;
use linchpin::store::sqlite::{Durability, SqliteOptions, SqliteStore};

use differential::{Report, Seen, differences};
use sequence::Step;

/// A number from the environment, as `cargo xtask conformance` sets it.
fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number"))
    })
}

fn seeds() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/conformance/seeds"
    ))
}

/// The sequences that once showed a difference, by the name of their file.
fn stored() -> Vec<(String, Vec<Step>)> {
    let mut all: Vec<_> = std::fs::read_dir(seeds())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    all.retain(|path| path.extension().is_some_and(|e| e == "json"));
    all.sort();
    let read = |path: &PathBuf| {
        serde_json::from_str(&std::fs::read_to_string(path).unwrap())
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    all.iter()
        .map(|path| {
            (
                path.file_name().unwrap().to_string_lossy().into_owned(),
                read(path),
            )
        })
        .collect()
}

/// Stops at the first difference; keeps its sequence.
fn agrees<T>(store: &str, few: u64, make: impl Fn() -> (Arc<dyn Store>, T) + Sync) -> Seen {
    let count = asked("LINCHPIN_CONFORMANCE_SEQUENCES").unwrap_or(few);
    let seed = asked("LINCHPIN_CONFORMANCE_SEED").unwrap_or(1);
    // A server is waited for most of the time.
    let threads = if store == "postgres" { 4 } else { 1 };
    match differences(count, seed, &stored(), threads, Report::Shortest, make) {
        Ok(seen) => {
            println!(
                "{store}: {count} sequences from seed {seed}, {} calls",
                seen.values().flat_map(|kinds| kinds.values()).sum::<u64>()
            );
            for (route, kinds) in &seen {
                println!(
                    "  {route}: {}",
                    kinds
                        .iter()
                        .map(|(kind, times)| format!("{kind} ({times})"))
                        .collect::<Vec<_>>()
                        .join(", ")
                );
            }
            seen
        }
        Err(difference) => {
            let steps = difference
                .lines()
                .skip(1)
                .take_while(|line| *line != "]")
                .chain(["]", ""])
                .collect::<Vec<_>>()
                .join("\n");
            let file = seeds().join(format!("{store}-{seed}-{:08x}.json", crc(&steps)));
            let kept = std::fs::write(&file, steps).map(|()| format!("kept in {}", file.display()));
            panic!(
                "{store} differs from the model; {}\n{difference}",
                kept.unwrap_or_else(|e| format!("not kept: {e}"))
            );
        }
    }
}

/// Tells texts apart.
fn crc(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

fn on_sqlite() -> (Arc<dyn Store>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut options = SqliteOptions::new(folder.path().join("test.db"));
    options.durability = Durability::Normal;
    (Arc::new(SqliteStore::open(options).unwrap()), folder)
}

/// The comparison of equal sides reports no difference.
#[test]
fn memory() {
    agrees("memory", 100, || {
        (Arc::new(Memory::new()) as Arc<dyn Store>, ())
    });
}

/// Enough sequences to reach every route with success and every kind of response.
/// `cargo xtask conformance` runs more, from other seeds.
#[test]
fn sqlite() {
    let seen = agrees("sqlite", 1000, on_sqlite);
    let never: Vec<_> = seen
        .iter()
        .filter(|(_, kinds)| !kinds.keys().any(|kind| kind.starts_with('2')))
        .map(|(route, _)| route)
        .collect();
    assert!(never.is_empty(), "never answered with success: {never:#?}");
    let kinds: BTreeSet<&str> = seen
        .values()
        .flat_map(|kinds| kinds.keys().map(String::as_str))
        .collect();
    for kind in KINDS {
        assert!(
            kinds.contains(kind),
            "never answered with {kind}: {kinds:?}"
        );
    }
}

/// The responses that must have occurred, besides successes.
const KINDS: &[&str] = &[
    "200 again",
    "201 again",
    "204 again",
    "400 invalid_cursor",
    "400 invalid_transition",
    "400 unknown_parameter",
    "400 validation_failed",
    "401 unauthorized",
    "403 forbidden",
    "404 not_found",
    "409 collection_full",
    "409 conflict",
    "409 idempotency_conflict",
    "412 precondition_failed",
    "428 precondition_required",
];

#[cfg(feature = "postgres")]
fn on_postgres() -> (Arc<dyn Store>, ()) {
    use linchpin::store::postgres::{PostgresOptions, PostgresStore};
    (
        Arc::new(PostgresStore::open(PostgresOptions::new(server::fresh_url())).unwrap()),
        (),
    )
}

/// For one caller at a time: every connection would have to learn every statement.
#[cfg(feature = "postgres")]
fn on_few_connections() -> (Arc<dyn Store>, ()) {
    use linchpin::store::postgres::{PostgresOptions, PostgresStore};
    let few = PostgresOptions {
        readers: 1,
        writers: 1,
        pool: 2,
        ..PostgresOptions::new(server::fresh_url())
    };
    (Arc::new(PostgresStore::open(few).unwrap()), ())
}

#[cfg(feature = "postgres")]
#[test]
fn postgres() {
    agrees("postgres", 300, on_few_connections);
}
