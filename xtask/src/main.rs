//! Every chore of the workspace, in Rust: `cargo xtask <task>`.

use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::time::Instant;

mod bench;
mod conformance;
mod expand_size;
mod peers;
mod postgres;

/// The stores and test doubles that are built in where everything is tested: one set, so that everything is built once.
const FEATURES: [&str; 2] = [
    "--features",
    "linchpin/postgres,linchpin-auth/postgres,linchpin-auth/test-util,linchpin-benches/auth,linchpin-benches/postgres,quickstart/postgres,tasks/postgres,shop/postgres",
];

/// Lints compile dependencies as tests do, so that what runs while compiling (macros, C libraries) is built once for both.
const AS_TESTS: [&str; 2] = ["--config", "profile.dev.package.\"*\".opt-level=1"];

/// What `linchpin-auth` has beside the default features switched off: nothing, or one of them.
const AUTH_FEATURES: [&str; 4] = ["", "breach-check", "providers", "smtp"];

const HELP: &str = "\
cargo xtask test [--fast]   everything a change must pass; --fast leaves out lints of tests and examples, the ui tests, the instruction counts and search
cargo xtask services        installs what tests talk to and is missing: Postgres, Chromium, Node with an issuer, a mail server, and so on
cargo xtask search          lints and tests of the search provider, a step of `test` of its own: it compiles a full-text engine
cargo xtask bench           the generated server beside hand-written ones: --rounds N, --seconds S, --write, --only get,list;
                            --kinds for every kind of operation, --postgres for all of it on Postgres
cargo xtask bench --instructions   instructions per request, counted by callgrind, against the budgets: --write
cargo xtask bench --compile        what entities cost to compile, against the budgets: --write
cargo xtask bench --cold           the first build of the quickstart beside that of a plain app, from empty target folders: --write
cargo xtask bench --auth           what a session costs, what others feel of sign-ins, and whether times tell who has an account
cargo xtask bench --large          pages, a batch and numbers on one million rows, beside hand-written SQL; --postgres too
cargo xtask conformance     random sequences of calls on a store and on the memory model: --sequences N, --store S, --seed S
cargo xtask expand-size     lines and bytes of each expansion, against the budgets
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let fast = args.iter().any(|a| a == "--fast");
    let done = match args.first().map(String::as_str) {
        Some("test") => test(fast),
        Some("search") => search(),
        Some("services") => postgres::install().and(peers::install()),
        Some("bench") => bench::run(&args),
        Some("conformance") => conformance::run(&args),
        Some("expand-size") => expand_size::run(),
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

/// Formatting, lints, every test (unit, black-box, compile-fail, snapshots, README), doc tests, expansion budgets, and the
/// instructions of the generated server. A step that fails does not keep the others from telling what they know.
fn test(fast: bool) -> Result<(), String> {
    let started = Instant::now();
    let mut failed = Vec::new();
    let mut note = |done: Result<(), String>| failed.extend(done.err().inspect(|what| eprintln!("xtask: {what}")));
    note(step("formatting", cargo(&["fmt", "--all", "--check"])));
    if !fast {
        let workspace = ["clippy", "--workspace", "--exclude", SEARCH, "--all-targets"];
        note(step("lints", cargo(&workspace).args(FEATURES).args(AS_TESTS).args(["--", "-D", "warnings"])));
    }
    // Declarations alone, the server without a store, and with one store alone: what others may build.
    for features in ["", "server", "sqlite", "postgres"] {
        let bare = ["clippy", "-p", "linchpin", "--lib", "--example", "declarations", "--no-default-features", "--features", features];
        note(step("fewer features", cargo(&bare).args(AS_TESTS).args(["--", "-D", "warnings"])));
    }
    for features in AUTH_FEATURES {
        let bare = ["clippy", "-p", "linchpin-auth", "--lib", "--no-default-features", "--features", features];
        note(step("fewer features of linchpin-auth", cargo(&bare).args(AS_TESTS).args(["--", "-D", "warnings"])));
    }
    // A snapshot that changed is a failure to review, never an update.
    note(postgres::install());
    note(peers::install());
    let mut tests = cargo(&["test", "--workspace", "--exclude", SEARCH, "--all-targets", "--no-fail-fast"]);
    tests.args(FEATURES);
    if fast {
        tests.args(["--exclude", "ui-tests"]);
    }
    note(step("tests", tests.env("INSTA_UPDATE", "no").env("CI", "true").env_remove("RUSTFLAGS")));
    note(step("documentation examples", cargo(&["test", "--workspace", "--exclude", SEARCH, "--doc"]).args(FEATURES)));
    note(expand_size::run());
    if !fast {
        note(search());
        note(bench::gate());
    }
    let took = started.elapsed().as_secs();
    table(took);
    if failed.is_empty() {
        println!("xtask: all of it passed in {took} s");
        return Ok(());
    }
    Err(format!("{} of the steps failed, after {took} s:\n  {}", failed.len(), failed.join("\n  ")))
}

/// The search provider: apart from the rest, which compiles no full-text engine.
const SEARCH: &str = "linchpin-search-tantivy";

fn search() -> Result<(), String> {
    let mut lints = cargo(&["clippy", "-p", SEARCH, "--all-targets"]);
    step("lints of the search provider", lints.args(AS_TESTS).args(["--", "-D", "warnings"]))?;
    step("tests of the search provider", &mut cargo(&["test", "-p", SEARCH, "--no-fail-fast"]))
}

fn cargo(args: &[&str]) -> Command {
    // Cargo tells its own path to what it runs, so that the same toolchain is used throughout.
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    command
}

/// The steps that have run, and how many seconds each took.
static STEPS: Mutex<Vec<(String, u64)>> = Mutex::new(Vec::new());

/// Prints where the time went, the longest first; steps of one name are one row.
fn table(took: u64) {
    let Ok(steps) = STEPS.lock() else { return };
    let mut rows: Vec<(&str, u64)> = Vec::new();
    for (name, seconds) in steps.iter() {
        match rows.iter_mut().find(|(row, _)| row == name) {
            Some(row) => row.1 += seconds,
            None => rows.push((name, *seconds)),
        }
    }
    rows.sort_by_key(|(_, seconds)| std::cmp::Reverse(*seconds));
    println!("{:<32} {:>7} {:>6}", "step", "seconds", "share");
    for (name, seconds) in rows {
        println!("{name:<32} {seconds:>7} {:>5}%", seconds * 100 / took.max(1));
    }
}

fn step(name: &str, command: impl std::borrow::BorrowMut<Command>) -> Result<(), String> {
    let mut command = command;
    println!("xtask: {name}");
    let started = Instant::now();
    let status = command.borrow_mut().status();
    if let Ok(mut steps) = STEPS.lock() {
        steps.push((name.to_owned(), started.elapsed().as_secs()));
    }
    match status {
        Ok(status) if status.success() => {
            println!("xtask: {name} passed in {} s", started.elapsed().as_secs());
            Ok(())
        }
        Ok(status) => Err(format!("{name} failed ({status})")),
        Err(error) => Err(format!("{name} could not be started: {error}")),
    }
}
