//! Conformance of stores at the level of calls: the same calls on the memory model and on a store
//! must have the same result. If only one of several concurrent callers may succeed, exactly one
//! does.
//!
//! `cargo xtask conformance` runs any number of random sequences; `cargo test` runs a fixed number
//! from a fixed seed. A sequence that shows a difference is shrunk and stored in `seeds/`. Stored
//! sequences run first, on every store.

#![allow(clippy::unwrap_used)] // in a test, a panic reports the failure

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

use differential::{Report, ResponseCounts, differences};
use sequence::Step;

/// A number from the environment, as `cargo xtask conformance` sets it.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number"))
    })
}

fn seeds_folder() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/conformance/seeds"
    ))
}

/// The stored sequences that once showed a difference, by file name.
fn stored_sequences() -> Vec<(String, Vec<Step>)> {
    let mut all: Vec<_> = std::fs::read_dir(seeds_folder())
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

/// Runs the stored sequences and random ones, and returns the counts of responses. Stops at the
/// first difference and stores its sequence.
fn compare_with_model<T>(
    store: &str,
    default_count: u64,
    make: impl Fn() -> (Arc<dyn Store>, T) + Sync,
) -> ResponseCounts {
    let count = setting("LINCHPIN_CONFORMANCE_SEQUENCES").unwrap_or(default_count);
    let seed = setting("LINCHPIN_CONFORMANCE_SEED").unwrap_or(1);
    // Threads mostly wait for the server, so there are more threads than cores.
    let threads = if store == "postgres" { 4 } else { 1 };
    match differences(
        count,
        seed,
        &stored_sequences(),
        threads,
        Report::Shortest,
        make,
    ) {
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
            let file =
                seeds_folder().join(format!("{store}-{seed}-{:08x}.json", text_hash(&steps)));
            let stored_file =
                std::fs::write(&file, steps).map(|()| format!("file {}", file.display()));
            panic!(
                "{store} differs from the model; {}\n{difference}",
                stored_file.unwrap_or_else(|e| format!("not stored: {e}"))
            );
        }
    }
}

/// A hash (FNV-1a) that gives different sequences different file names.
fn text_hash(text: &str) -> u32 {
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
    compare_with_model("memory", 100, || {
        (Arc::new(Memory::new()) as Arc<dyn Store>, ())
    });
}

/// Enough sequences to reach every route with success and every kind of response.
/// `cargo xtask conformance` runs more, from other seeds.
#[test]
fn sqlite() {
    let seen = compare_with_model("sqlite", 700, on_sqlite);
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

/// The kinds of responses that must occur, in addition to a success of each route: repeated
/// responses (`again`) and errors.
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

/// A store with few connections, which are enough for one caller at a time. They save time, because
/// each connection has to prepare every statement.
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
    compare_with_model("postgres", 300, on_few_connections);
}
