//! All development tasks of the workspace: `cargo xtask <task>`.

use std::process::ExitCode;

mod bench;
mod conformance;
mod expand_size;
mod layers;
mod peers;
#[path = "../../runtime/tests/support/ports.rs"]
mod ports;
mod postgres;
mod processor;
mod rustdoc;
mod steps;
mod test;
mod untested;
mod wasm;

use steps::{cargo, step};

/// The features of stores and test doubles that are enabled when everything is tested: a single
/// set, so that everything is built once.
const FEATURES: [&str; 2] = [
    "--features",
    "linchpin/postgres,linchpin-migrate/fault-injection,linchpin-auth/postgres,linchpin-auth/test-util,linchpin-benches/auth,linchpin-benches/postgres,linchpin-realtime/nats,linchpin-realtime/postgres,linchpin-realtime/redis,linchpin-realtime/test-util,quickstart/postgres,tasks/postgres,shop/postgres",
];

/// Commands other than tests also compile dependencies with the settings of tests, so that
/// build-time code (macros, C libraries) is built only once.
const AS_TESTS: [&str; 2] = ["--config", "profile.dev.package.\"*\".opt-level=1"];

/// An example. Cargo enables the features that tests need only if a test or an example is selected.
/// A command that selects this one shares the dependencies that tests have compiled.
const EXAMPLE: &str = "declarations";

/// The features of `linchpin-auth` that are tested alone without the default features: none, or one
/// of them.
const AUTH_FEATURES: [&str; 4] = ["", "breach-check", "providers", "smtp"];

const HELP: &str = "\
cargo xtask test [--fast]   everything a change must pass; --fast omits the ui tests, the instruction counts and search
                            its step \"core for wasm32\" checks linchpin-core for browsers, in a target folder of its own
cargo xtask test --changed  only what the files can have broken that differ from origin/main (or main) or are not committed;
                            --changed=REF compares with another commit
cargo xtask services        installs the missing programs that tests need: Postgres, Redis, NATS, Chromium, Node with an issuer, a mail server, a compiler for wasm32, …
cargo xtask search          lints and tests of the search provider, a separate step of `test`: it compiles a full-text engine
cargo xtask bench           the generated server compared with hand-written ones: --rounds N, --seconds S, --write, --only get,list;
                            --kinds for every kind of operation, --postgres for all of it on Postgres
cargo xtask bench --instructions   instructions per request, counted by callgrind, against the budgets: --write
cargo xtask bench --gate           the same of the test build, for the generated server alone, as `test` holds it against budgets of its own
cargo xtask bench --compile        the compile time of entities, against the budgets: --write
cargo xtask bench --cold           the first build of the quickstart compared with that of a plain app, from empty target folders: --write
cargo xtask bench --auth           what a session costs, other routes during sign-ins, and whether response times reveal accounts
cargo xtask bench --webhooks       deliveries of webhooks compared with a hand-written loop, their intake and fairness; encryption of push messages: --write
cargo xtask bench --realtime       memory of idle sockets, fan-out compared with two hand-written servers, the time from a change to a socket: --write
cargo xtask bench --migrations     the rate of backfills compared with an UPDATE, requests during a backfill, locks on Postgres, plans of 300 entities: --write
cargo xtask bench --large          pages, a batch and numbers on one million rows, compared with hand-written SQL; --postgres too
cargo xtask conformance     random sequences of calls on a store and on the memory model: --sequences N, --store S, --seed S
cargo xtask expand-size     lines and bytes of each expansion, against the budgets
cargo xtask layers          the direction of dependencies between crates and modules, against layers.txt
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(ended) = rustdoc::run(&args) {
        return ended;
    }
    let done = match args.first().map(String::as_str) {
        Some("test") => test::run(&args),
        Some("services") => test::install(),
        Some("search") => test::search(),
        Some("bench") => bench::run(&args),
        Some("conformance") => conformance::run(&args),
        Some("expand-size") => expand_size::run(),
        Some("layers") => layers::run(),
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("xtask: {what}");
            ExitCode::FAILURE
        }
    }
}
