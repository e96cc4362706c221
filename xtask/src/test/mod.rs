//! `cargo xtask test`: all checks of a change, or only the checks that it may affect.

mod binaries;
mod changed;
mod toy;

use std::time::Instant;

use crate::steps::{Job, beside, cargo, print_table, step, step_beside, timed};
use crate::{AS_TESTS, AUTH_FEATURES, FEATURES, bench, expand_size, layers, peers, postgres, wasm};
use changed::Affected;

/// The search provider: compiled separately, so that the rest compiles no full-text engine.
pub(crate) const SEARCH: &str = "linchpin-search-tantivy";

/// Runs formatting, lints, the links of rustdoc, all tests (unit, black-box, compile-fail,
/// snapshots, README), doc tests, `linchpin-core` for wasm32, a store in its own crate, expansion
/// budgets, and the instructions of the generated server. A failed step does not stop the others.
///
/// `--fast` omits some of it. `--changed` omits checks that do not depend on the files that differ
/// from `origin/main` (or `main`, or from REF with `--changed=REF`) or are not committed.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let known = |a: &&String| *a == "--fast" || *a == "--changed" || a.starts_with("--changed=");
    if let Some(unknown) = args.iter().skip(1).find(|a| !known(a)) {
        return Err(format!(
            "unknown option `{unknown}`; known: --fast, --changed, --changed=REF"
        ));
    }
    let fast = args.iter().any(|a| a == "--fast");
    let base = args.iter().find_map(|a| {
        if a == "--changed" {
            Some("")
        } else {
            a.strip_prefix("--changed=")
        }
    });
    let affected = match base {
        Some(base) => Affected::since(base)?,
        None => Affected::everything(),
    };
    println!("xtask: {affected}");
    let started = Instant::now();
    let mut failed = Vec::new();
    let mut note = |done: Result<(), String>| {
        failed.extend(done.err().inspect(|what| eprintln!("xtask: {what}")));
    };
    note(step("formatting", cargo(&["fmt", "--all", "--check"])));
    note(step("formatting of the toy store", toy::format()));
    note(timed("layers", layers::run));
    if !affected.is_nothing() {
        if !fast {
            let workspace = [
                "clippy",
                "--workspace",
                "--exclude",
                SEARCH,
                "--all-targets",
            ];
            note(step(
                "lints",
                cargo(&workspace)
                    .args(FEATURES)
                    .args(AS_TESTS)
                    .args(["--", "-D", "warnings"]),
            ));
            let documents = ["doc", "--workspace", "--exclude", SEARCH, "--no-deps"];
            note(step(
                "links of rustdoc",
                cargo(&documents)
                    .args(FEATURES)
                    .args(AS_TESTS)
                    .env("RUSTDOCFLAGS", "-D warnings"),
            ));
        }
        if affected.has("linchpin") {
            fewer_features().into_iter().for_each(&mut note);
        }
        if affected.has("linchpin-auth") {
            fewer_features_of_auth().into_iter().for_each(&mut note);
        }
        note(timed("services", || {
            postgres::install()
                .and(peers::install())
                .and(wasm::install())
        }));
        tests(fast, &affected).into_iter().for_each(&mut note);
        if affected.has("linchpin-macros") {
            note(expand_size::run());
        }
        if !fast && affected.has("linchpin-benches") {
            note(bench::gate());
        }
    }
    let took = started.elapsed().as_secs();
    print_table(took);
    if failed.is_empty() {
        println!("xtask: all of it passed in {took} s");
        return Ok(());
    }
    Err(format!(
        "{} of the steps failed, after {took} s:\n  {}",
        failed.len(),
        failed.join("\n  ")
    ))
}

/// Checks other feature sets: declarations alone, the server without a store, and with one store.
fn fewer_features() -> Vec<Result<(), String>> {
    let with = |features: &&str| {
        let bare = [
            "clippy",
            "-p",
            "linchpin",
            "--lib",
            "--example",
            "declarations",
            "--no-default-features",
            "--features",
            features,
        ];
        step(
            "fewer features",
            cargo(&bare).args(AS_TESTS).args(["--", "-D", "warnings"]),
        )
    };
    ["", "server", "sqlite", "jwt,postgres"]
        .iter()
        .map(with)
        .collect()
}

fn fewer_features_of_auth() -> Vec<Result<(), String>> {
    let with = |features: &&str| {
        let bare = [
            "clippy",
            "-p",
            "linchpin-auth",
            "--lib",
            "--no-default-features",
            "--features",
            features,
        ];
        step(
            "fewer features of linchpin-auth",
            cargo(&bare).args(AS_TESTS).args(["--", "-D", "warnings"]),
        )
    };
    AUTH_FEATURES.iter().map(with).collect()
}

/// Compiles all tests with one set of features, and runs the affected ones; each binary is a row of
/// the table. Steps with their own target directory, or that wait for cargo's lock, run
/// concurrently.
fn tests(fast: bool, affected: &Affected) -> Vec<Result<(), String>> {
    let without: &[&str] = if fast { &["ui-tests"] } else { &[] };
    let built = match timed("compiling the tests", || binaries::build(without)) {
        Ok(built) => built,
        Err(what) => return vec![Err(what)],
    };
    let chosen = affected.of(&built);
    let mut chosen: Vec<&binaries::Binary> = built
        .iter()
        .filter(|binary| chosen.contains(&binary.file))
        .collect();
    chosen.sort_by_key(|binary| binary.rank());
    let (alone, others): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|b| b.measures_time());
    let mut jobs: Vec<Job<'_>> = Vec::new();
    for binary in others {
        jobs.push(Box::new(|| binary.run()));
    }
    if affected.has_examples() {
        let doc = ["test", "--workspace", "--exclude", SEARCH, "--doc"];
        let examples = move || step_beside("documentation examples", cargo(&doc).args(FEATURES));
        jobs.push(Box::new(examples));
    }
    if affected.has("linchpin-core") {
        jobs.push(Box::new(wasm::check));
    }
    if affected.has("linchpin") || affected.has(toy::NAME) {
        jobs.push(Box::new(toy::check));
    }
    if !fast && affected.has(SEARCH) {
        jobs.push(Box::new(search));
    }
    if !fast && affected.has("linchpin-benches") {
        jobs.insert(2.min(jobs.len()), Box::new(bench::build_gated));
    }
    let mut done = beside(jobs);
    done.extend(alone.into_iter().map(binaries::Binary::run));
    done
}

/// Runs lints and tests of the search provider.
pub(crate) fn search() -> Result<(), String> {
    let mut lints = cargo(&["clippy", "-p", SEARCH, "--all-targets"]);
    step_beside(
        "lints of the search provider",
        lints.args(AS_TESTS).args(["--", "-D", "warnings"]),
    )?;
    step_beside(
        "tests of the search provider",
        &mut cargo(&["test", "-p", SEARCH, "--no-fail-fast"]),
    )
}
