//! `cargo xtask test`: all checks of a change, or only the checks that it may affect.

mod binaries;
mod changed;
mod toy;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::steps::{Job, beside, cargo, print_table, step, step_beside, timed};
use crate::{
    AS_TESTS, AUTH_FEATURES, EXAMPLE, FEATURES, bench, expand_size, layers, peers, postgres,
    untested, wasm,
};
use changed::Affected;

/// The search provider: compiled separately, so that the rest compiles no full-text engine, and
/// tests the macros with the features of their dependencies that users have.
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
    note(timed("targets without tests", untested::run));
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
            note(links());
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

/// Checks the links of rustdoc, with the crates that lints have compiled. The package selection is
/// theirs, too, because another one enables other features. Nobody reads pages about programs.
fn links() -> Result<(), String> {
    let documents = [
        "doc",
        "--workspace",
        "--exclude",
        SEARCH,
        "--no-deps",
        "--lib",
        "--example",
        EXAMPLE,
    ];
    let mut command = cargo(&documents);
    command
        .args(FEATURES)
        .args(AS_TESTS)
        .env("RUSTDOCFLAGS", "-D warnings");
    // Clippy compiles the members of the workspace with a compiler of its own, and with these
    // arguments. With another compiler or other arguments, they are compiled once more.
    if let Some(clippy) = clippy_driver() {
        command.env("RUSTC_WORKSPACE_WRAPPER", clippy).env(
            "CLIPPY_ARGS",
            "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
        );
    }
    step("links of rustdoc", command)
}

/// The compiler that `cargo clippy` uses.
fn clippy_driver() -> Option<PathBuf> {
    let printed = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .ok()?;
    let driver =
        Path::new(String::from_utf8_lossy(&printed.stdout).trim()).join("bin/clippy-driver");
    driver.exists().then_some(driver)
}

/// Checks other feature sets: declarations alone, the server without a store, and with one store.
fn fewer_features(features: &str) -> Result<(), String> {
    let bare = [
        "clippy",
        "-p",
        "linchpin",
        "--lib",
        "--example",
        EXAMPLE,
        "--no-default-features",
        "--features",
        features,
    ];
    step_beside(
        "fewer features",
        cargo(&bare).args(AS_TESTS).args(["--", "-D", "warnings"]),
    )
}

fn fewer_features_of_auth(features: &str) -> Result<(), String> {
    let bare = [
        "clippy",
        "-p",
        "linchpin-auth",
        "--lib",
        "--no-default-features",
        "--features",
        features,
    ];
    step_beside(
        "fewer features of linchpin-auth",
        cargo(&bare).args(AS_TESTS).args(["--", "-D", "warnings"]),
    )
}

/// Compiles all tests with one set of features, and runs the affected ones; each binary is a row of
/// the table. Further steps run concurrently with them.
fn tests(fast: bool, affected: &Affected) -> Vec<Result<(), String>> {
    let without: &[&str] = if fast { &["ui-tests"] } else { &[] };
    let (built, compiled) = match timed("compiling the tests", || binaries::build(without)) {
        Ok(built) => (built, Ok(())),
        Err(what) => (Vec::new(), Err(what)),
    };
    let chosen = affected.of(&built);
    let mut chosen: Vec<&binaries::Binary> = built
        .iter()
        .filter(|binary| chosen.contains(&binary.file))
        .collect();
    chosen.sort_by_key(|binary| binary.rank());
    let (alone, others): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|b| b.measures_time());
    let mut jobs: Vec<Job<'_>> = vec![in_turn(compiling(fast, affected))];
    for binary in others {
        jobs.push(Box::new(|| binary.run()));
    }
    if affected.has("linchpin-core") {
        jobs.push(Box::new(wasm::check));
    }
    let mut done = vec![compiled];
    if !fast && affected.has("linchpin-benches") {
        // The steps that compile lock the folder later.
        match bench::build_gated() {
            Ok(folder) => jobs.insert(4.min(jobs.len()), Box::new(move || bench::gate(&folder))),
            Err(what) => done.push(Err(what)),
        }
    }
    done.extend(beside(jobs));
    done.extend(alone.into_iter().map(binaries::Binary::run));
    done
}

/// The steps that compile into the target folder of the tests.
fn compiling<'a>(fast: bool, affected: &Affected) -> Vec<Job<'a>> {
    let mut jobs: Vec<Job<'_>> = Vec::new();
    if !fast && affected.has(SEARCH) {
        jobs.push(Box::new(search));
    }
    if affected.has("linchpin") {
        for features in ["", "server", "sqlite", "jwt,postgres"] {
            jobs.push(Box::new(move || fewer_features(features)));
        }
    }
    if affected.has("linchpin-auth") {
        for features in AUTH_FEATURES {
            jobs.push(Box::new(move || fewer_features_of_auth(features)));
        }
    }
    if affected.has("linchpin") || affected.has(toy::NAME) {
        jobs.push(Box::new(toy::check));
    }
    if affected.has_examples() {
        jobs.push(Box::new(|| {
            let doc = ["test", "--workspace", "--exclude", SEARCH, "--doc"];
            step_beside("documentation examples", cargo(&doc).args(FEATURES))
        }));
    }
    jobs
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

/// Steps as one job, one after the other: cargo locks the folder that they compile into, and
/// concurrent ones would wait for each other. A failed step does not stop the next.
fn in_turn(jobs: Vec<Job<'_>>) -> Job<'_> {
    Box::new(move || {
        let failed: Vec<String> = jobs.into_iter().filter_map(|job| job().err()).collect();
        if failed.is_empty() {
            Ok(())
        } else {
            Err(failed.join("\n  "))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{Job, in_turn};

    #[test]
    fn a_step_in_a_row_that_fails_keeps_no_other_from_running() {
        let ran = std::sync::Mutex::new(Vec::new());
        let step = |name: &'static str, done: Result<(), String>| -> Job<'_> {
            let ran = &ran;
            Box::new(move || {
                ran.lock().unwrap().push(name);
                done
            })
        };
        let failed = |what: &str| Err(what.to_owned());
        let steps = vec![
            step("a", failed("one")),
            step("b", Ok(())),
            step("c", failed("two")),
        ];
        assert_eq!(in_turn(steps)(), failed("one\n  two"));
        assert_eq!(*ran.lock().unwrap(), ["a", "b", "c"]);
        assert_eq!(in_turn(vec![step("d", Ok(()))])(), Ok(()));
    }
}
