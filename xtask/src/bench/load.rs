//! Requests per second, in turns, with one tool.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::server::{Server, build, fresh, in_folder, number, seed};
use super::{SERVERS, write};

const LOADS: [(&str, &str); 6] = [
    ("get", "GET by id"),
    ("list", "list 20, page 1"),
    ("deep", "list 20, deep"),
    ("create", "create"),
    ("patch", "patch"),
    ("publish", "transition"),
];

/// What one load of one server showed.
#[derive(Clone, Copy, Default)]
struct Seen {
    per_second: f64,
    p50: f64,
    p99: f64,
    cpu_micros: f64,
    rss_mb: f64,
}

/// Builds, seeds, measures in turns, prints the table; `--rounds N`, `--seconds S`, `--write`.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let option = |name: &str, default: f64| {
        let at = args.iter().position(|a| a == name);
        at.and_then(|i| args.get(i + 1)).map_or(Ok(default), |v| v.parse().map_err(|_| format!("{name} needs a number")))
    };
    let (rounds, seconds) = (option("--rounds", 5.0)? as usize, option("--seconds", 3.0)?);
    let bin = build(&[])?;
    let (rest, seen) = in_folder(|folder| measure(&bin, folder, rounds.max(1), seconds))?;
    let table = table(&rest, &seen, rounds, seconds);
    println!("{table}");
    if args.iter().any(|a| a == "--write") { write("table", &table) } else { Ok(()) }
}

type Table = Vec<[Vec<Seen>; 3]>;

fn measure(bin: &Path, folder: &Path, rounds: usize, seconds: f64) -> Result<([f64; 3], Table), String> {
    seed(bin, folder)?;
    let mut rest = [0.0; 3];
    let mut seen: Table = LOADS.iter().map(|_| [Vec::new(), Vec::new(), Vec::new()]).collect();
    for round in 0..rounds {
        for (at, (load, _)) in LOADS.iter().enumerate() {
            // Turn by turn, so that whatever else the machine does meets all three alike.
            for (s, server) in SERVERS.iter().enumerate() {
                let file = fresh(folder, server)?;
                let running = Server::start(Command::new(bin.join(format!("bench-{server}"))), &file)?;
                rest[s] = running.rss_mb();
                let cpu = running.cpu_seconds();
                let salt = (round * 100 + at).to_string();
                let out = Command::new(bin.join("bench-driver"))
                    .args(["load", &running.port.to_string()])
                    .arg(&file)
                    .args([*load, &seconds.to_string(), &salt])
                    .stderr(Stdio::inherit())
                    .output()
                    .map_err(|e| e.to_string())?;
                let line = String::from_utf8_lossy(&out.stdout).into_owned();
                let requests = number(&line, "requests").ok_or_else(|| format!("the driver failed on {server} {load}"))?;
                if number(&line, "failed").unwrap_or(0.0) > 0.0 {
                    return Err(format!("{server} refused requests of {load}: {line}"));
                }
                let value = |name: &str| number(&line, name).unwrap_or(0.0);
                seen[at][s].push(Seen {
                    per_second: value("perSecond"),
                    p50: value("p50"),
                    p99: value("p99"),
                    cpu_micros: (running.cpu_seconds() - cpu) * 1e6 / requests.max(1.0),
                    rss_mb: running.rss_mb(),
                });
                println!("round {} {load:<8} {server:<10} {:>9.0}/s", round + 1, value("perSecond"));
            }
        }
    }
    Ok((rest, seen))
}

fn median(seen: &[Seen], of: impl Fn(&Seen) -> f64) -> f64 {
    let mut values: Vec<f64> = seen.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn table(rest: &[f64; 3], seen: &Table, rounds: usize, seconds: f64) -> String {
    let mut out = format!("Medians of {rounds} rounds of {seconds} s, 32 connections, `synchronous=FULL`, a JWT on every request.\n\n");
    out.push_str("| | plain | limit | generated | vs plain | vs limit | p50 / p99 ms (plain) | (limit) | (generated) | CPU µs/request (plain, limit, generated) | MB under load |\n");
    out.push_str("|---|---|---|---|---|---|---|---|---|---|---|\n");
    for ((_, name), servers) in LOADS.iter().zip(seen) {
        let per_second = servers.each_ref().map(|s| median(s, |x| x.per_second));
        let times = servers.each_ref().map(|s| format!("{:.2} / {:.2}", median(s, |x| x.p50) / 1e3, median(s, |x| x.p99) / 1e3));
        let cpu = servers.each_ref().map(|s| format!("{:.0}", median(s, |x| x.cpu_micros)));
        let rss = servers.each_ref().map(|s| format!("{:.0}", median(s, |x| x.rss_mb)));
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| {name} | {:.0}/s | {:.0}/s | {:.0}/s | {:.2}x | {:.2} | {} | {} | {} | {} | {} |",
            per_second[0],
            per_second[1],
            per_second[2],
            per_second[2] / per_second[0].max(1.0),
            per_second[2] / per_second[1].max(1.0),
            times[0],
            times[1],
            times[2],
            cpu.join(", "),
            rss.join(", ")
        );
    }
    let _ = write!(out, "\nMemory at rest: plain {:.0} MB, limit {:.0} MB, generated {:.0} MB.", rest[0], rest[1], rest[2]);
    out
}
