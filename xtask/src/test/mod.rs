//! `cargo xtask test`: all checks of a change, or only the checks that it may affect.

mod binaries;
mod changed;
pub(crate) mod lints;
mod toy;

use std::time::Instant;

use crate::steps::{
    Job, cargo, concurrent_step, concurrent_step_with_check, print_table, run_concurrently, step,
    timed, with_low_priority,
};
use crate::{
    AS_TESTS, AUTH_FEATURES, EXAMPLE, FEATURES, bench, expand_size, layers, peers, postgres,
    rustdoc, untested, wasm,
};
use changed::Affected;

/// The search provider. It is compiled separately for two reasons: the other steps then compile no
/// full-text engine, and they test the macros without the features that the engine would enable in
/// dependencies of the macros. Most users have no such engine.
pub(crate) const SEARCH: &str = "linchpin-search-tantivy";

/// Runs formatting, all tests with lints (unit, black-box, compile-fail, snapshots, README), doc
/// tests with the links of rustdoc, `linchpin-core` for wasm32, a store in its own crate, expansion
/// budgets, and the instructions of the generated server. A failed step does not stop the others.
///
/// `--fast` omits the ui tests, the instruction counts and the search provider. `--changed` omits
/// checks that no changed file can affect. A file counts as changed if it differs from
/// `origin/main` (or `main`, or from REF with `--changed=REF`) or is not committed.
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
        tests(fast, &affected).into_iter().for_each(&mut note);
        if affected.has("linchpin-macros") {
            note(expand_size::run());
        }
    }
    let took = started.elapsed().as_secs();
    print_table(took);
    if failed.is_empty() {
        println!("xtask: all steps passed in {took} s");
        return Ok(());
    }
    Err(format!(
        "{} of the steps failed, after {took} s:\n  {}",
        failed.len(),
        failed.join("\n  ")
    ))
}

/// Checks other feature sets: declarations alone, the server without a store, and with one store.
fn fewer_features(features: &str) -> Result<(), String> {
    compiles(
        "fewer features",
        &["-p", "linchpin", "--lib", "--example", EXAMPLE],
        features,
    )
}

fn fewer_features_of_auth(features: &str) -> Result<(), String> {
    let name = "fewer features of linchpin-auth";
    compiles(name, &["-p", "linchpin-auth", "--lib"], features)
}

/// Checks a selection with these features alone, with lints.
fn compiles(name: &str, selection: &[&str], features: &str) -> Result<(), String> {
    let mut command = cargo(&["check", "--no-default-features", "--features", features]);
    command.args(selection).args(AS_TESTS);
    lints::with_lints(&mut command)?;
    concurrent_step_with_check(name, with_low_priority(&command), lints::refuse_warnings)
}

/// Compiles all tests with one set of features, and runs the affected ones; each binary is a row of
/// the table. Further steps run concurrently with them.
fn tests(fast: bool, affected: &Affected) -> Vec<Result<(), String>> {
    let without: &[&str] = if fast { &["ui-tests"] } else { &[] };
    // Installing services waits for downloads most of the time, so it runs while cargo compiles.
    let (installed, compiled) = std::thread::scope(|scope| {
        let installing = scope.spawn(|| timed("services", install));
        let compiled = timed("compiling the tests, with lints", || {
            binaries::build(without)
        });
        let panicked = |_| Err("installing services panicked".to_owned());
        (installing.join().unwrap_or_else(panicked), compiled)
    });
    let (built, compiled) = match compiled {
        Ok((built, 0)) => (built, Ok(())),
        Ok((built, warnings)) => (built, Err(format!("lints: {warnings} warnings"))),
        Err(what) => (Vec::new(), Err(what)),
    };
    let chosen = affected.tests_to_run(&built);
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
    let mut done = vec![installed, compiled];
    if !fast && affected.has("linchpin-benches") {
        // The programs of the gate are built now, because the steps that compile lock the target
        // folder later.
        match bench::build_gated() {
            Ok(folder) => jobs.insert(4.min(jobs.len()), Box::new(move || bench::gate(&folder))),
            Err(what) => done.push(Err(what)),
        }
    }
    done.extend(run_concurrently(jobs));
    done.extend(alone.into_iter().map(binaries::Binary::run));
    done
}

/// Installs the missing programs that tests need.
pub(crate) fn install() -> Result<(), String> {
    postgres::install()
        .and(peers::install())
        .and(wasm::install())
}

/// The steps that compile into the target folder of the tests, with low priority: they run beside
/// tests, whose servers must answer in time.
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
    if affected.has("linchpin-macros") {
        jobs.push(Box::new(links_of_macros));
    }
    if affected.has_examples() {
        jobs.push(Box::new(|| {
            let doc = ["test", "--workspace", "--exclude", SEARCH, "--doc"];
            let mut command = cargo(&doc);
            command.args(FEATURES);
            rustdoc::with_links(lints::with_lints(&mut command)?)?;
            concurrent_step(
                "documentation: links and examples",
                with_low_priority(&command),
            )
        }));
    }
    jobs
}

/// Checks the links of the macros. Their package has no doc tests, so the step that checks the
/// links of the other packages omits it.
fn links_of_macros() -> Result<(), String> {
    let mut command = cargo(&["doc", "-p", "linchpin-macros", "--no-deps"]);
    command.args(AS_TESTS).env("RUSTDOCFLAGS", "-D warnings");
    concurrent_step("links of the macros", with_low_priority(&command))
}

/// Runs lints, links and tests of the search provider.
pub(crate) fn search() -> Result<(), String> {
    let mut command = cargo(&["test", "-p", SEARCH, "--no-fail-fast"]);
    rustdoc::with_links(lints::with_lints(&mut command)?)?;
    concurrent_step_with_check(
        "search provider, with lints",
        with_low_priority(&command),
        lints::refuse_warnings,
    )
}

/// Runs steps one after the other as one job. Cargo locks the folder that they compile into, so
/// concurrent steps would wait for each other. A failed step does not stop the next.
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
    fn a_failed_step_of_a_sequence_does_not_stop_the_next() {
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
