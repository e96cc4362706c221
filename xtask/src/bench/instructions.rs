//! `cargo xtask bench --instructions`: instructions per request, counted by callgrind.
//!
//! The counts depend little on the load of the machine, so they can decide whether a change passes.
//! Each count is the difference between a server that answered `MORE` requests and one that
//! answered `FEW`, divided by the difference of the requests. The driver uses 32 connections, as in
//! the benchmark of requests per second. The instructions of start, stop and warm-up cancel out.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::database::Database;
use super::server::{Server, build, build_as_tests, in_folder, run_to_end};
use super::{SERVERS, write};

pub(super) const FEW: u64 = 1_000;
pub(super) const MORE: u64 = 5_000;
/// `FEW` and `MORE` for the programs of the test build, which need two to three times as many
/// instructions.
const FEW_UNOPTIMIZED: u64 = 200;
const MORE_UNOPTIMIZED: u64 = 1_200;
/// [`gate`] counts a load at most this many times, until the count is within the budget, and uses
/// the lowest count. Counts vary because the number of requests per read or wake-up is random. They
/// vary more on a busy machine. If a change needs more instructions, every count contains them.
const COUNTS: usize = 3;

/// The position of the generated server in [`SERVERS`].
const GENERATED: usize = 2;

/// Load, title, and the maximum number of instructions per request of the generated server.
const LOADS: [(&str, &str, Option<u64>); 6] = [
    ("get", "GET by id", Some(36_000)),
    ("list", "list 20, page 1", Some(270_000)),
    ("deep", "list 20, deep", Some(270_000)),
    ("create", "create", Some(105_000)),
    ("patch", "patch", None),
    ("publish", "transition", None),
];

/// The maximum of the generated server in the test build, by load: 4% above the last count.
const UNOPTIMIZED: [(&str, u64); 6] = [
    ("get", 105_500),
    ("list", 488_500),
    ("deep", 558_000),
    ("create", 159_500),
    ("patch", 168_500),
    ("publish", 156_000),
];

/// The load that is counted with and without consumers of events.
const EVENT_LOAD: &str = "create";

/// `BENCH_EVENTS`, title, and the maximum relative to the load without consumers.
const EVENTS: [(&str, &str, f64); 3] = [
    ("live", "create, a live consumer of its events", 1.15),
    ("1", "create, its event stored for a consumer", 1.5),
    ("3", "create, its event stored for three", 1.54),
];

/// Counts all servers and prints the table; fails if the generated one exceeds a budget.
pub(super) fn run(into_readme: bool) -> Result<(), String> {
    valgrind()?;
    let bin = build(&[], None)?;
    let loads: Vec<&str> = LOADS.iter().map(|(load, ..)| *load).collect();
    let (counts, with_events) = in_folder(|folder| {
        let counts = SERVERS
            .iter()
            .map(|server| count(&bin, folder, server, &loads, None, (FEW, MORE)))
            .collect::<Result<Vec<_>, _>>()?;
        let with_events = EVENTS
            .iter()
            .map(|(events, ..)| {
                let counts = count(
                    &bin,
                    folder,
                    "generated",
                    &[EVENT_LOAD],
                    Some(*events),
                    (FEW, MORE),
                )?;
                Ok::<_, String>(counts.first().copied().unwrap_or(0))
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok((counts, with_events))
    })?;
    let mut table = table(&counts);
    let without_events = LOADS
        .iter()
        .position(|(load, ..)| *load == EVENT_LOAD)
        .and_then(|at| counts[GENERATED].get(at))
        .copied()
        .unwrap_or(0);
    // Writing to a String cannot fail.
    let _ = write!(table, "\n\n{}", outbox(without_events, &with_events));
    println!("{table}");
    if into_readme {
        write("instructions", &table)?;
    }
    let loads = LOADS
        .iter()
        .zip(&counts[GENERATED])
        .filter_map(|((_, name, most), count)| Some((*name, *count, (*most)?)));
    let events = EVENTS
        .iter()
        .zip(&with_events)
        .map(|((_, name, most), count)| (*name, *count, (without_events as f64 * most) as u64));
    over_budget(loads.chain(events))
}

/// The programs of [`gate`].
const GATED: [&str; 2] = ["bench-generated", "bench-driver"];

/// Builds the programs of [`gate`], with the dependencies that the tests have compiled; returns
/// their directory.
pub(crate) fn build_gated() -> Result<PathBuf, String> {
    build_as_tests(&GATED)
}

/// A part of `cargo xtask test`: counts the generated server of the test build, in the directory
/// `built`.
///
/// No release build is needed for these counts; it would take over four minutes of processor time.
/// The test build has higher counts and separate budgets, because it optimizes only dependencies
/// and some core crates (`profile.test.package` in `Cargo.toml`). If a change needs more
/// instructions, both builds show it; [`run`] counts the release build.
pub(crate) fn gate(built: &Path) -> Result<(), String> {
    valgrind()?;
    let requests = (FEW_UNOPTIMIZED, MORE_UNOPTIMIZED);
    let counts = crate::steps::timed("instructions", || {
        in_folder(|folder| {
            let bin = folder.join("bin");
            fs::create_dir_all(&bin).map_err(|e| e.to_string())?;
            for name in GATED {
                fs::copy(built.join(name), bin.join(name)).map_err(|e| format!("{name}: {e}"))?;
            }
            let count_loads =
                |loads: &[&str]| count(&bin, folder, "generated", loads, None, requests);
            UNOPTIMIZED
                .iter()
                .map(|(load, most)| lowest(*most, || Ok(count_loads(&[load])?[0])))
                .collect::<Result<Vec<_>, String>>()
        })
    })?;
    let titles = LOADS.iter().map(|(_, title, _)| *title);
    let counted: Vec<_> = titles
        .zip(counts)
        .zip(UNOPTIMIZED)
        .map(|((title, count), (_, most))| (title, count, most))
        .collect();
    for (title, count, most) in &counted {
        println!(
            "xtask: {title}: {count} instructions per request without optimization, at most {most}"
        );
    }
    over_budget(counted.into_iter())
}

/// Counts up to [`COUNTS`] times, until a count is not above `most`. Returns the lowest count, or
/// the last error if each attempt failed: a server under callgrind may refuse requests on a busy
/// machine.
fn lowest(most: u64, mut count: impl FnMut() -> Result<u64, String>) -> Result<u64, String> {
    let (mut lowest, mut failure) = (None, String::new());
    for _ in 0..COUNTS {
        match count() {
            Ok(counted) => lowest = Some(lowest.map_or(counted, |before: u64| before.min(counted))),
            Err(why) => {
                eprintln!("xtask: a count failed: {why}");
                failure = why;
            }
        }
        if lowest.is_some_and(|counted| counted <= most) {
            break;
        }
    }
    lowest.ok_or(failure)
}

/// The cost of consumers of events.
fn outbox(without_events: u64, with_events: &[u64]) -> String {
    let mut out = String::from("| | generated | vs without | at most |\n|---|---|---|---|\n");
    for ((_, title, most), count) in EVENTS.iter().zip(with_events) {
        let ratio = *count as f64 / without_events.max(1) as f64;
        // Writing to a String cannot fail.
        let _ = writeln!(out, "| {title} | {count} | {ratio:.2} | {most:.2} |");
    }
    out.truncate(out.trim_end().len());
    out
}

fn over_budget<'a>(counted: impl Iterator<Item = (&'a str, u64, u64)>) -> Result<(), String> {
    let over: Vec<String> = counted
        .filter(|(_, count, most)| count > most)
        .map(|(name, count, most)| format!("{name} {count} (at most {most})"))
        .collect();
    if over.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "instructions per request over budget: {}",
            over.join(", ")
        ))
    }
}

/// Instructions per request of one server under each load.
fn count(
    bin: &Path,
    folder: &Path,
    server: &str,
    loads: &[&str],
    events: Option<&str>,
    requests: (u64, u64),
) -> Result<Vec<u64>, String> {
    let database = Database::Sqlite(folder.to_owned());
    if !folder.join("seed.db").exists() {
        database.seed(bin)?;
    }
    let one = |load: &&str| {
        let (few, more) = requests;
        let total_few = total(bin, folder, &database, (server, events), load, few)?;
        let total_more = total(bin, folder, &database, (server, events), load, more)?;
        let each = total_more.saturating_sub(total_few) / (more - few);
        let listening = events.map_or(String::new(), |events| format!(" with events: {events}"));
        println!("{server:<10} {load:<8} {each:>9}{listening}");
        Ok(each)
    };
    loads.iter().map(one).collect()
}

/// All instructions of a server that answers the given number of requests.
fn total(
    bin: &Path,
    folder: &Path,
    database: &Database,
    (server, events): (&str, Option<&str>),
    load: &str,
    requests: u64,
) -> Result<u64, String> {
    let url = database.new_copy(server)?;
    let mut command = valgrind_with(folder);
    command.arg(bin.join(format!("bench-{server}")));
    if let Some(events) = events {
        command.env("BENCH_EVENTS", events);
    }
    count_instructions(folder, command, &url, |port| {
        run_to_end(Command::new(bin.join("bench-driver")).args([
            "count",
            port,
            load,
            &requests.to_string(),
        ]))
    })
}

fn counts_file(folder: &Path) -> PathBuf {
    folder.join("callgrind.out")
}

/// A callgrind command, without the program to count.
pub(super) fn valgrind_with(folder: &Path) -> Command {
    let mut command = Command::new("valgrind");
    let out = counts_file(folder);
    // Valgrind runs one thread at a time. On a busy machine, some requests were refused with 503,
    // perhaps because a thread waited too long for its turn (not proved). Fair scheduling excludes
    // this cause.
    command
        .args(["--tool=callgrind", "--quiet", "--fair-sched=yes"])
        .arg(format!("--callgrind-out-file={}", out.display()));
    command
}

/// All instructions of a server under callgrind; `load` gets its port and sends the requests.
pub(super) fn count_instructions(
    folder: &Path,
    command: Command,
    url: &str,
    load: impl FnOnce(&str) -> Result<(), String>,
) -> Result<u64, String> {
    let out = counts_file(folder);
    let _ = fs::remove_file(&out);
    let running = Server::start(command, url)?;
    load(&running.port.to_string())?;
    running.stop()?;
    let text = fs::read_to_string(&out).map_err(|e| format!("callgrind wrote no counts: {e}"))?;
    summary(&text).ok_or_else(|| "callgrind's counts cannot be read".to_owned())
}

/// The sum in callgrind's output: `totals: 123` at its end, or `summary: 123` in its head.
fn summary(text: &str) -> Option<u64> {
    let of = |key: &str| {
        text.lines().find_map(|line| {
            line.strip_prefix(key)?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
    };
    of("totals:").or_else(|| of("summary:"))
}

fn table(counts: &[Vec<u64>]) -> String {
    let mut out = String::from(
        "Instructions per request, 32 connections, `synchronous=FULL`, a JWT on every request.\n\n",
    );
    out.push_str("| | plain | limit | generated | at most | vs plain | vs limit |\n|---|---|---|---|---|---|---|\n");
    for (i, (_, name, most)) in LOADS.iter().enumerate() {
        let [plain, limit, generated] =
            [0, 1, 2].map(|s: usize| counts.get(s).and_then(|c| c.get(i)).copied().unwrap_or(0));
        let most = most.map_or(String::new(), |m| m.to_string());
        let ratio = |of: u64| generated as f64 / of.max(1) as f64;
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| {name} | {plain} | {limit} | {generated} | {most} | {:.2} | {:.2} |",
            ratio(plain),
            ratio(limit)
        );
    }
    out.truncate(out.trim_end().len());
    out
}

/// Makes sure that valgrind is installed; installs it if possible.
pub(super) fn valgrind() -> Result<(), String> {
    let is_installed = || {
        Command::new("valgrind")
            .arg("--version")
            .output()
            .is_ok_and(|out| out.status.success())
    };
    if is_installed() {
        return Ok(());
    }
    eprintln!("xtask: valgrind is not installed; installing the Debian package");
    if crate::peers::apt(&["valgrind"]) && is_installed() {
        return Ok(());
    }
    Err("valgrind is missing and could not be installed: run `apt-get install valgrind`, or `cargo xtask test --fast`, which skips the instruction gate"
        .to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn counts_are_read_from_the_output_of_callgrind() {
        assert_eq!(
            super::summary("version: 1\nsummary: 12\nfn=(1) main\n1 5\n\ntotals: 17\n"),
            Some(17)
        );
        assert_eq!(super::summary("version: 1\nsummary: 12\n"), Some(12));
        assert_eq!(super::summary("events: Ir\n"), None);
    }

    #[test]
    fn the_cost_of_consumers_is_relative_to_no_consumer() {
        let table = super::outbox(80_000, &[84_000, 120_000, 121_000]);
        assert!(table.contains("| 84000 | 1.05 | 1.15 |"), "{table}");
        assert!(table.contains("| 120000 | 1.50 | 1.50 |"), "{table}");
        assert!(super::outbox(0, &[5]).contains("| 5 | 5.00 |"));
    }

    #[test]
    fn a_load_is_counted_again_until_it_is_within_its_budget() {
        let lowest = |counts: &[Result<u64, String>]| {
            let mut counts = counts.iter();
            let found = super::lowest(10, || counts.next().expect("three counts").clone());
            (found, counts.len())
        };
        let refused = || Err("refused".to_owned());
        assert_eq!(lowest(&[Ok(10), Ok(9), Ok(8)]), (Ok(10), 2));
        assert_eq!(lowest(&[refused(), Ok(12), Ok(9)]), (Ok(9), 0));
        assert_eq!(lowest(&[Ok(12), refused(), Ok(13)]), (Ok(12), 0));
        assert_eq!(lowest(&[refused(), refused(), refused()]), (refused(), 0));
    }

    #[test]
    fn a_budget_is_a_maximum() {
        assert!(super::over_budget([("get", 36_000, 36_000)].into_iter()).is_ok());
        let error =
            super::over_budget([("get", 36_001, 36_000), ("list", 1, 2)].into_iter()).unwrap_err();
        assert!(
            error.contains("get 36001") && !error.contains("list"),
            "{error}"
        );
    }
}
